# SPDX-License-Identifier: Apache-2.0
"""How a table's stream is named and at which pace it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from shardbatch.core.choices import Choice
from shardbatch.errors import ConfigurationError

MOST_RECORDS = 1_000
MOST_CALLS_PER_SECOND = 50.0
_TABLE = re.compile(r"arn:[^:]+:dynamodb:[^:]+:[^:]+:table/([A-Za-z0-9_.-]+)")
_STREAM = re.compile(_TABLE.pattern + r"/stream/[^/]+")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class StreamView(Choice):
    """Which images of an item its changes have to carry. ``KEYS_ONLY``: none, every stream does. ``NEW_IMAGE``: the
    item as it is after the change; ``OLD_IMAGE``: as it was before; ``NEW_AND_OLD_IMAGES``: both."""

    KEYS_ONLY = "KEYS_ONLY"
    NEW_IMAGE = "NEW_IMAGE"
    OLD_IMAGE = "OLD_IMAGE"
    NEW_AND_OLD_IMAGES = "NEW_AND_OLD_IMAGES"

    def carried_by(self, view_type: str) -> bool:
        """Whether a stream of this view type has the images."""
        return self is StreamView.KEYS_ONLY or view_type in (self.value, StreamView.NEW_AND_OLD_IMAGES.value)


def service_limits(page_records: int, calls_per_second: float) -> tuple[tuple[str, bool, str], ...]:
    """Of what authors may choose, too: its name, whether it can be asked of the service, and what can."""
    return (
        ("page_records", 1 <= page_records <= MOST_RECORDS, "1 to 1,000"),
        ("calls_per_second", 0 < calls_per_second <= MOST_CALLS_PER_SECOND, "above 0 and at most 50"),
    )


@dataclass(frozen=True)
class DynamoDBOptions:
    """How a stream is read.

    :param page_records: records that one answer may hold at most, default 1,000 (1 to 1,000, the service's limit).
    :param calls_per_second: GetRecords calls a second that this reader makes on one shard, default 5 (above 0, at most
        50). AWS does not publish what a shard allows; other readers keep to 5.
    :param idle_interval: time between calls on a shard that has nothing new, default 1 second (zero or more).
    :param view: the images that records must carry, default none.
    :param attempts: answers in a row that may fail or be unbelievable before the read fails, default 6 (1 or more).
    :param throttles: refusals in a row before the read fails, default 40 (1 or more), about three minutes.
    :param creating_timeout: how long a stream that is still being enabled is waited for, default 1 minute.
    :raises ConfigurationError: for a value out of its range.
    """

    page_records: int = MOST_RECORDS
    calls_per_second: float = 5.0
    idle_interval: timedelta = timedelta(seconds=1)
    view: StreamView = StreamView.KEYS_ONLY
    attempts: int = 6
    throttles: int = 40
    creating_timeout: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        zero = timedelta(0)
        ranges = (
            *service_limits(self.page_records, self.calls_per_second),
            ("idle_interval", self.idle_interval >= zero, "zero or more"),
            ("attempts", self.attempts >= 1, "1 or more"),
            ("throttles", self.throttles >= 1, "1 or more"),
            ("creating_timeout", self.creating_timeout >= zero, "zero or more"),
        )
        for name, fits, words in ranges:
            if not fits:
                raise ConfigurationError(
                    f"DynamoDBOptions({name}={getattr(self, name)}) is out of range.", remedy=f"It is {words}."
                )


@dataclass(frozen=True)
class TableName:
    """A table whose stream is read: its name, what names it in a call, and its stream's ARN where that was given."""

    name: str
    address: str
    stream_arn: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """From a table's name, its ARN, or the ARN of a stream of it.

        :raises ConfigurationError: for a text that is not one of them.
        """
        if found := _STREAM.fullmatch(text):
            return cls(found[1], text.partition("/stream/")[0], text)
        if found := _TABLE.fullmatch(text):
            return cls(found[1], text)
        if _NAME.fullmatch(text):
            return cls(text, text)
        raise ConfigurationError(
            f"{text!r} names no DynamoDB table, nor a stream of one.",
            remedy="Give the table's name, an ARN like arn:aws:dynamodb:REGION:ACCOUNT:table/NAME, or that of its "
            "stream, which goes on with /stream/LABEL.",
        )
