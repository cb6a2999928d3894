# SPDX-License-Identifier: Apache-2.0
"""The embedded stream server as a process that ends with the demo, however that ends: when its input is closed."""

from __future__ import annotations

import sys

from shardbatch.local import StreamServer


def main() -> int:
    """Serve until standard input ends. Prints the address as the first line."""
    with StreamServer() as server:
        print(server.endpoint_url, flush=True)
        while sys.stdin.buffer.read(4096):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
