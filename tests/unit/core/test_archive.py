# SPDX-License-Identifier: Apache-2.0
"""For how long the slices of committed batches are kept, as people write it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardbatch.core.archive import archive_days, chosen_days
from shardbatch.errors import ConfigurationError


@pytest.mark.parametrize(("text", "hours"), [("", 168), ("  ", 168), ("0", 0), ("0.5", 12), ("36500", 36500 * 24)])
def test_it_is_a_number_of_days(text: str, hours: int) -> None:
    assert archive_days(text, "archive_for") == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["-1", "7 days", "nan", "inf", "36501", "P7D"])
def test_what_is_no_number_of_days_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"archive_for = .* is not a number of days.*0 to 36500"):
        archive_days(text, "archive_for")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        ("", None),
        (" ", None),
        ("0", timedelta(0)),
        (timedelta(0), timedelta(0)),
        (timedelta(hours=36), timedelta(hours=36)),
        ("1.5", timedelta(hours=36)),
    ],
)
def test_a_person_gives_a_length_or_a_text_or_nothing(given: timedelta | str | None, meant: timedelta | None) -> None:
    assert chosen_days(given, "archive_for") == meant


def test_a_length_below_zero_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a number of days"):
        chosen_days(timedelta(days=-1), "archive_for")
