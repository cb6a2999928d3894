# SPDX-License-Identifier: Apache-2.0
"""How a Kinesis stream is named and at which pace it is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shardbatch.core.choices import Choice
from shardbatch.errors import ConfigurationError

MOST_CALLS_PER_SECOND = 5.0
MOST_RECORDS = 10_000
MOST_LISTED = 1_000


class FanOut(Choice):
    """Enhanced fan-out of Kinesis, which costs money. ``auto``: for a shard that polling cannot read to its tip within
    the run's duration. ``always``, ``never``."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Deaggregate(Choice):
    """What is done with a record that a producer packed from several (KPL aggregation).

    ``on``: all of its records are delivered; those of a hash key outside the shard's range are counted.
    ``strict``: an aggregate with such a record is dropped whole and counted, as the Kinesis Client Library does, since
    the Kinesis Producer Library sends its records again. ``off``: it is delivered as it is.
    """

    ON = "on"
    STRICT = "strict"
    OFF = "off"


def service_limits(page_records: int, calls_per_second: float) -> tuple[tuple[str, bool, str], ...]:
    """Of what authors may choose, too: its name, whether the service takes it, and what the service takes."""
    return (
        ("page_records", 1 <= page_records <= MOST_RECORDS, "1 to 10,000"),
        ("calls_per_second", 0 < calls_per_second <= MOST_CALLS_PER_SECOND, "above 0 and at most 5"),
    )


@dataclass(frozen=True)
class KinesisOptions:
    """How a stream is read.

    :param page_records: records that one answer may hold at most, default 10,000 (1 to 10,000, the service's limit);
        an answer with aggregates comes in pages of at most as many of their records.
    :param calls_per_second: GetRecords calls a second that this reader makes on one shard, default 4 (above 0, at most
        5). The service allows 5 for all polling readers of a shard together, so 4 leaves room for another one.
    :param idle_interval: time between calls on a shard that has nothing new, default 1 second (zero or more).
    :param listed_shards: shards that one listing page may hold at most, default 1,000 (1 to 1,000).
    :param attempts: answers in a row that may fail or be unbelievable before the read fails, default 6 (1 or more).
    :param throttles: refusals in a row before the read fails, default 40 (1 or more), about three minutes.
    :param creating_timeout: how long a stream that is still being created is waited for, default 1 minute.
    :param deaggregate: what is done with aggregates, default that all of their records are delivered.
    :param fan_out: whether shards are read by enhanced fan-out, default never. Needs ``app_name``.
    :param app_name: the application, whose name its consumer has; default none: shards are polled.
    :param budget: time that the reads of one source have together, by which ``FanOut.AUTO`` decides; default 10
        minutes.
    :raises ConfigurationError: for a value out of its range.
    """

    page_records: int = MOST_RECORDS
    calls_per_second: float = 4.0
    idle_interval: timedelta = timedelta(seconds=1)
    listed_shards: int = MOST_LISTED
    attempts: int = 6
    throttles: int = 40
    creating_timeout: timedelta = timedelta(minutes=1)
    deaggregate: Deaggregate = Deaggregate.ON
    fan_out: FanOut = FanOut.NEVER
    app_name: str = ""
    budget: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        zero = timedelta(0)
        ranges = (
            *service_limits(self.page_records, self.calls_per_second),
            ("idle_interval", self.idle_interval >= zero, "zero or more"),
            ("listed_shards", 1 <= self.listed_shards <= MOST_LISTED, "1 to 1,000"),
            ("attempts", self.attempts >= 1, "1 or more"),
            ("throttles", self.throttles >= 1, "1 or more"),
            ("creating_timeout", self.creating_timeout >= zero, "zero or more"),
        )
        for name, fits, words in ranges:
            if not fits:
                raise ConfigurationError(
                    f"KinesisOptions({name}={getattr(self, name)}) is out of range.", remedy=f"It is {words}."
                )


def no_stream(text: str) -> ConfigurationError:
    """The error for a text that names no stream."""
    return ConfigurationError(
        f"{text!r} is neither the name nor the ARN of a Kinesis stream.",
        remedy="Give a name, or an ARN like arn:aws:kinesis:REGION:ACCOUNT:stream/NAME.",
    )


@dataclass(frozen=True)
class StreamName:
    """A stream's name and, where it was given, its ARN, which then stands in every call (other accounts' streams)."""

    name: str
    arn: str | None = None

    @classmethod
    def parse(cls, text: str) -> StreamName:
        """From a stream's name or ARN.

        :raises ConfigurationError: for an empty text, or an ARN that is not that of a Kinesis stream.
        """
        if not text.startswith("arn:"):
            if not text or "/" in text or ":" in text:
                raise no_stream(text)
            return cls(text)
        parts = text.split(":", 5)
        kind, _, name = parts[-1].partition("/")
        if len(parts) != 6 or parts[2] != "kinesis" or kind != "stream" or not name or "/" in name:
            raise no_stream(text)
        return cls(name, text)

    @property
    def address(self) -> dict[str, str]:
        """The parameters that name the stream in a call that takes a name or an ARN."""
        return {"StreamARN": self.arn} if self.arn else {"StreamName": self.name}

    @property
    def owner(self) -> dict[str, str]:
        """The parameters of a call that needs the stream only if it is another account's (GetRecords)."""
        return {"StreamARN": self.arn} if self.arn else {}
