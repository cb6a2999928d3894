# SPDX-License-Identifier: Apache-2.0
"""Numbers on the command line."""

from __future__ import annotations

import argparse

import pytest

from shardbatch.cli.arguments import LIMIT, WATCH


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    LIMIT.add_to_parser(parser)
    WATCH.add_to_parser(parser)
    return parser.parse_args(words)


def test_numbers_and_their_defaults() -> None:
    assert (parsed().limit, parsed().watch) == (20, 30.0)
    assert (parsed("--limit", "3").limit, parsed("--watch", "0.5").watch) == (3, 0.5)


@pytest.mark.parametrize("words", [("--limit", "0"), ("--limit", "-1"), ("--limit", "x")])
@pytest.mark.parametrize("watch", ["nan", "inf", "1e300", "0", "-1"])
def test_numbers_that_make_no_sense_are_wrong_arguments(
    words: tuple[str, ...], watch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (words, ("--watch", watch)):
        with pytest.raises(SystemExit) as caught:
            parsed(*wrong)
        assert caught.value.code == 2
        assert wrong[0] in capsys.readouterr().err
