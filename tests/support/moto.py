# SPDX-License-Identifier: Apache-2.0
"""moto as a server: S3 for staging, and a smoke target, since users' own tests run on it.

Known to be wrong there: Kinesis resharding (the closed parent still takes records and never ends), and conditional
writes under concurrency.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.authority import Authority
from tests.support.aws import AwsServer
from tests.support.ports import LOOPBACK, free_port
from tests.support.server import running


@contextlib.contextmanager
def moto_server(authority: Authority | None = None) -> Iterator[AwsServer]:
    """A moto server with every service that it has; over TLS, if an authority is given that vouches for it."""
    port = free_port()
    program = Path(sys.executable).with_name("moto_server")
    command: list[str | Path] = [program, "-H", LOOPBACK, "-p", str(port)]
    server = AwsServer("moto", f"http://{LOOPBACK}:{port}")
    if authority is not None:
        command += ["-s", "-c", str(authority.certificate), "-k", str(authority.key)]
        server = AwsServer("moto", f"https://{LOOPBACK}:{port}", ca=str(authority.ca))
    with running(command, server.client("s3", attempts=1).list_buckets):
        yield server
