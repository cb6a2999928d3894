# SPDX-License-Identifier: Apache-2.0
"""For how long the slices of committed batches are kept, as people write it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardbatch.core.archive import archive_days
from shardbatch.errors import ConfigurationError


@pytest.mark.parametrize(("text", "hours"), [("", 168), ("  ", 168), ("0", 0), ("0.5", 12), ("36500", 36500 * 24)])
def test_it_is_a_number_of_days(text: str, hours: int) -> None:
    assert archive_days(text, "archive_for") == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["-1", "7 days", "nan", "inf", "36501", "P7D"])
def test_what_is_no_number_of_days_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"archive_for = .* is not a number of days.*0 to 36500"):
        archive_days(text, "archive_for")
