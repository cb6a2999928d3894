# SPDX-License-Identifier: Apache-2.0
"""Two DynamoDB look-alikes whose conditional writes are atomic; moto's are not, so no lease test may rely on moto."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.aws import AwsServer
from tests.support.ports import LOOPBACK, free_port
from tests.support.prepare import NODE, ministack, node_module
from tests.support.server import running


@contextlib.contextmanager
def dynalite() -> Iterator[AwsServer]:
    """dynalite: strict arguments, tables that are CREATING for a while; no transactions, no TTL."""
    port = free_port()
    server = AwsServer("dynalite", f"http://{LOOPBACK}:{port}")
    cli = node_module("dynalite") / "cli.js"
    command: list[str | Path] = [NODE, cli, "--host", LOOPBACK, "--port", str(port), "--createTableMs", "50"]
    with running(command, server.client("dynamodb", attempts=1).list_tables):
        yield server


@contextlib.contextmanager
def ministack_server() -> Iterator[AwsServer]:
    """ministack: DynamoDB with transactions and TTL settings (and much else, of which Kinesis is not to be trusted)."""
    program = ministack()
    port = free_port()
    server = AwsServer("ministack", f"http://{LOOPBACK}:{port}")
    env = {**os.environ, "BIND_HOST": LOOPBACK, "GATEWAY_PORT": str(port)}
    with running([program], server.client("dynamodb", attempts=1).list_tables, env=env):
        yield server
