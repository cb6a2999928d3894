# SPDX-License-Identifier: Apache-2.0
"""``make demo`` and ``make demo-ui``."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from scripts.demo.console import Console, DemoError
from scripts.demo.flights import ALL
from scripts.demo.story import Wishes, tell

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal, named by the message, asked the demo to end."""


def wishes(arguments: list[str] | None = None) -> Wishes:
    """What the command line asks for."""
    parser = argparse.ArgumentParser("scripts.demo", description="A stream through Airflow and Spark on this machine.")
    parser.add_argument("--ui", action="store_true", help="leave Airflow up at the end, to look around")
    parser.add_argument("--flights", type=int, default=ALL, help="flights to use, 60 to %(default)s (default: all)")
    parser.add_argument("--port", type=int, help="of Airflow's pages; default: a free one")
    given = parser.parse_args(arguments)
    if not 60 <= given.flights <= ALL:
        parser.error(f"--flights {given.flights} is not between 60 and {ALL}")
    return Wishes(given.flights, given.ui, given.port)


def interrupt(number: int, _: FrameType | None) -> None:
    """End the demo in order. Further signals do not disturb the end."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def main() -> int:
    """Run the demo: 0 if the output equals the source data, 1 if not or if it could not be run, 130 if interrupted."""
    asked = wishes()
    for each in SIGNALS:
        signal.signal(each, interrupt)
    console = Console()
    try:
        return 0 if tell(asked, console) else 1
    except Interrupted as interrupted:
        console.say(f"interrupted by {interrupted}")
        return 0 if asked.ui else 130
    except (DemoError, OSError, RuntimeError) as error:
        console.say(f"the demo cannot go on: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
