# SPDX-License-Identifier: Apache-2.0
"""Seconds on the command line."""

from __future__ import annotations

import argparse

import pytest

from shardbatch.cli.arguments import _argument
from shardbatch.kcl.verbs import WATCH


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    _argument(WATCH).add_to_parser(parser)
    return parser.parse_args(words)


def test_seconds_and_their_default() -> None:
    assert parsed().watch == 30.0
    assert parsed("--watch", "0.5").watch == 0.5


@pytest.mark.parametrize("watch", ["nan", "inf", "1e300", "0", "-1", "x"])
def test_seconds_that_make_no_sense_are_wrong_arguments(watch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed("--watch", watch)
    assert caught.value.code == 2
    assert "--watch" in capsys.readouterr().err
