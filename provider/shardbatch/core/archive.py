# SPDX-License-Identifier: Apache-2.0
"""For how long the slices of committed batches are kept."""

from __future__ import annotations

from datetime import timedelta

from shardbatch.errors import ConfigurationError

#: Where nothing is set.
ARCHIVE_FOR = timedelta(days=7)
#: A hundred years.
MOST_DAYS = 36500.0


def archive_days(text: str, where: str) -> timedelta:
    """A text that is a number of days, of which an empty one means :data:`ARCHIVE_FOR`.

    :param where: says, in the error, where it was given.
    :raises ConfigurationError: if it is not a number from 0 to 36500.
    """
    try:
        days = float(text) if text.strip() else ARCHIVE_FOR / timedelta(days=1)
    except ValueError:
        days = -1.0
    if not 0 <= days <= MOST_DAYS:  # nor is nan
        raise ConfigurationError(
            f"{where} = {text!r} is not a number of days.", remedy="Give days, 0 to 36500; 0.5 is half a day."
        )
    return timedelta(days=days)
