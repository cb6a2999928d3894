# SPDX-License-Identifier: Apache-2.0
"""For how long the slices of committed batches are kept."""

from __future__ import annotations

from datetime import timedelta

from shardbatch.errors import ConfigurationError

#: Where nothing is set.
ARCHIVE_FOR = timedelta(days=7)
#: A hundred years.
MOST_DAYS = 36500.0
#: How long readers may go by what they once planned; and a marker's sum stands before the marker goes.
READER_GRACE = timedelta(days=7)
#: A freeze that has not made its batch's row for so long draws another id.
DRAWN_FOR = timedelta(days=1)
#: How long the row of a batch that never commits is kept.
HISTORY_FOR = timedelta(days=30)
#: What was written less long ago is left to a later clean-up, whatever it is.
YOUNG = timedelta(hours=1)


def chosen_days(given: timedelta | str | None, where: str) -> timedelta | None:
    """What a person chose: a length of time, or a text as :func:`archive_days` takes it; ``None`` if nothing.

    :raises ConfigurationError: if it is neither.
    """
    if given is None or given == "":  # a template may have left an empty text
        return None
    if isinstance(given, timedelta):
        return archive_days(str(given / timedelta(days=1)), where)
    return archive_days(str(given), where) if str(given).strip() else None


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
