# SPDX-License-Identifier: Apache-2.0
"""The two public Kinesis look-alikes, each right where the other is not. Both run with a clock that tests can move.

Quirks that a test has to know:

* kinesis-local ends a closed shard in the reply with its last records and names the children; kinesalite ends it one
  empty reply later and names none.
* kinesis-local gives every closed shard the ending sequence number 9223372036854775807, below its own records' numbers;
  it slows down beyond 2,000 records a shard, and never trims.
* kinesalite lists all shards on one page, knows no UpdateShardCount, and dies of a malformed NextToken.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.support.aws import ACCOUNT, AwsServer
from tests.support.ports import LOOPBACK, free_port, free_ports
from tests.support.prepare import NODE, node_module
from tests.support.server import running

NODE_FOLDER = Path(__file__).with_name("node")
# How long a stream stays CREATING or UPDATING: long enough to be seen, short enough not to be felt.
STATE_MS = 50


@dataclass(frozen=True)
class KinesisServer(AwsServer):
    """A running Kinesis look-alike whose clock can be moved ahead."""

    clock_file: Path

    def advance(self, ahead: timedelta) -> None:
        """Lets the server's clock run ahead of the real one by this much, from the next call on."""
        written = self.clock_file.with_suffix(".new")
        written.write_text(str(int(ahead / timedelta(milliseconds=1))), "ascii")
        written.replace(self.clock_file)


@contextlib.contextmanager
def kinesis_local(folder: Path) -> Iterator[KinesisServer]:
    """kinesis-mock: lineage, closed shards, children, UpdateShardCount, stream states; small volumes only."""
    home = node_module("kinesis-local")
    plain, tls = free_ports(2)
    server = KinesisServer("kinesis-local", f"http://{LOOPBACK}:{plain}", new_clock(folder, "kinesis-local"))
    env = {
        **node_environ(server.clock_file),
        "KINESIS_MOCK_PLAIN_PORT": str(plain),
        "KINESIS_MOCK_TLS_PORT": str(tls),
        "KINESIS_MOCK_CERT_PATH": str(home / "server.json"),
        "AWS_ACCOUNT_ID": ACCOUNT,
        "SHARD_LIMIT": "1000",
        "LOG_LEVEL": "ERROR",
        **{
            f"{action}_DURATION": f"{STATE_MS}ms"
            for action in ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")
        },
    }
    with running([NODE, *preloads(), home / "main.js"], server.client("kinesis", attempts=1).list_streams, env=env):
        yield server


@contextlib.contextmanager
def kinesalite(folder: Path) -> Iterator[KinesisServer]:
    """kinesalite: volume, retention that trims, strict arguments; no children, no UpdateShardCount."""
    home = node_module("kinesalite")
    port = free_port()
    server = KinesisServer("kinesalite", f"http://{LOOPBACK}:{port}", new_clock(folder, "kinesalite"))
    options = ["--port", str(port), "--shardLimit", "1000"]
    for action in ("createStreamMs", "deleteStreamMs", "updateStreamMs"):
        options += [f"--{action}", str(STATE_MS)]
    command: list[str | Path] = [NODE, *preloads(), home / "cli.js", *options]
    with running(command, server.client("kinesis", attempts=1).list_streams, env=node_environ(server.clock_file)):
        yield server


def preloads() -> list[str]:
    return ["-r", str(NODE_FOLDER / "loopback.js"), "-r", str(NODE_FOLDER / "clock.js")]


def new_clock(folder: Path, name: str) -> Path:
    path = folder / f"{name}-clock-ahead-ms"
    path.write_text("0", "ascii")
    return path


def node_environ(clock_file: Path) -> dict[str, str]:
    return {**os.environ, "SHARDBATCH_CLOCK_AHEAD": str(clock_file)}
