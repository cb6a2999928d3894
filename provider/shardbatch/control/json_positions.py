# SPDX-License-Identifier: Apache-2.0
"""An application as JSON: where each of its shards stands, and all that its rows know of losses and of intervals.

What is written is what is committed. Whatever the rows of the first application would have had the next claim do, that
of the second does: a shard without a row is not written, since the claim adds it by the same rules (PROTOCOL F4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.control.json_fields import entries, instant, place, text_of, texts, whole
from shardbatch.control.position_format import Exported, Standing
from shardbatch.core.carried import Carried, Noted
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Source
from shardbatch.core.position import Kind, Position
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import Gap
from shardbatch.core.taken import Taken, youngest_first
from shardbatch.errors import ConfigurationError, InvalidStream, InvalidToken

FORMAT, VERSION = "shardbatch", 1
_TOP = {"format", "version", "stream", "application", "shards", "intervals"}
_OF_APPLICATION = {"app_name", "stream_name", "start", "start_places", "shown_intervals"}
_KEPT = ("retention_ms", "gone_before_ms", "longest_retention_ms")
_OF_SHARD = {"shard_id", "position", "parents", "keys", "begins", "at_tip", "skipped"}
_TIMES = ("arrival_ms", "looked_ms", "committed_ms")
_OF_INTERVAL = {"from_ms", "to_ms", "number", "roots"}
_OF_GAP = {"after", "first_available", "from_ms", "to_ms", "reason", "accepted", "until", "records"}


@dataclass(frozen=True)
class KeptJson:
    """An application that was read from JSON."""

    stream: str
    carried: Carried
    shards: Mapping[str, Shard]
    places: Mapping[str, Position]
    noted: Mapping[str, Noted]

    @property
    def text(self) -> str:
        """What it is, for notes."""
        return f"the positions of {self.carried.namespace}, with {len(self.places)} shards"

    def plan(
        self, identity: str, listing: Sequence[Shard], start: Position | None, now: Callable[[], Position]
    ) -> Sequence[Taken]:
        """What becomes of each shard; children before their parents.

        :param start: refused: every place is named, so it would not be applied.
        :raises ConfigurationError: for a start.
        :raises InvalidStream: if the positions are of another stream.
        """
        if start is not None:
            raise ConfigurationError(
                "A start was given, but positions as JSON name the place of every shard.",
                remedy="Leave it out. To begin elsewhere, import them and then reset the shards.",
            )
        if identity != self.stream:
            raise InvalidStream(f"The positions are of the stream {self.stream}, and this one is {identity}.")
        listed = {shard.shard_id: shard for shard in listing}
        for name in self.shards.keys() & listed.keys():
            here, there = set(self.shards[name].parent_shard_ids), set(listed[name].parent_shard_ids)
            if here and there and here != there:
                raise InvalidStream(
                    f"In the positions the parents of {name} are {sorted(here)}, and in this stream {sorted(there)}.",
                    remedy="No shard changes its parents: the positions were edited. Export them again.",
                )
        return [self._taken(name, listed) for name in youngest_first(self.shards)]

    def _taken(self, name: str, listed: Mapping[str, Shard]) -> Taken:
        position, shard = self.places[name], self.shards[name]
        if name in listed and not shard.parent_shard_ids:
            shard = replace(shard, parent_shard_ids=listed[name].parent_shard_ids)
        meaning = f"goes on behind {position}"
        if position.kind is Kind.SHARD_END:
            meaning = "completed"
        elif not position.exact:
            meaning = f"begins at {position}"
        if name not in listed and position.kind is not Kind.SHARD_END:
            meaning += "; it has left the stream: what followed becomes a gap"
        return Taken(shard, position, meaning, noted=self.noted[name])


class JsonPositions:
    """Implements :class:`shardbatch.control.position_format.PositionFormat` for the streams of all sources."""

    who = "the JSON"
    complete = True

    def require_stream(self, identity: str) -> None:
        """It has words for all."""

    def write(self, standing: Standing, source: Source) -> Exported:
        """All that the application's rows know."""
        row = standing.application
        known = [lease for lease in standing.rows if lease.shard_id not in standing.fresh]
        application = {
            "app_name": row.namespace.app_name,
            "stream_name": row.namespace.stream_name,
            "start": str(row.start_position),
            "start_places": {name: str(at) for name, at in row.start_places},
            **_stated({name: getattr(row, name) for name in _KEPT}),
            "shown_intervals": [list(bounds) for bounds in row.shown_intervals],
        }
        return Exported(
            {
                "format": FORMAT,
                "version": VERSION,
                "stream": standing.identity,
                "application": application,
                "shards": [_shard_json(lease) for lease in known],
                "intervals": [_interval_json(interval) for interval in standing.intervals],
            },
            (),
        )

    def read(self, value: Any) -> KeptJson:
        """The application that some JSON is.

        :raises InvalidToken: if it is not one, or of a later version.
        """
        _require_version(value)
        top = entries(value, "The positions", _TOP, _TOP)
        try:
            return _kept(top)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidToken(f"The positions cannot be read: {error}.") from error


def stream_of(value: Any) -> str:
    """The identity of the stream that some positions are of.

    :raises InvalidToken: if they name none.
    """
    _require_version(value)
    return text_of(value.get("stream"), "'stream'")


def _require_version(value: Any) -> None:
    if not isinstance(value, Mapping) or value.get("format") != FORMAT:
        raise InvalidToken(
            f'These positions were not written by shardbatch: they lack "format": "{FORMAT}".',
            remedy="Give what 'airflow shardbatch positions export --format json' wrote, or name another --format.",
        )
    if value.get("version") != VERSION or isinstance(value.get("version"), bool):
        raise InvalidToken(
            f"The positions have version {value.get('version')!r}; this shardbatch reads version {VERSION}.",
            remedy="Import them with the version of shardbatch that wrote them, or a later one.",
        )


def _kept(top: Mapping[str, Any]) -> KeptJson:
    carried = _carried(top)
    shards: dict[str, Shard] = {}
    places: dict[str, Position] = {}
    noted: dict[str, Noted] = {}
    for item in _list(top["shards"], "'shards'"):
        entry = entries(item, "A shard", {"shard_id", "position"}, {*_OF_SHARD, *_TIMES})
        name = text_of(entry["shard_id"], "'shard_id'")
        if name in shards:
            raise InvalidToken(f"The positions have shard {name} twice.", remedy="Export them again.")
        places[name] = place(entry["position"], f"the position of {name}")
        keys = entry.get("keys")
        shards[name] = Shard(name, texts(entry.get("parents", []), "'parents'"), keys and KeyRange.parse(keys))
        noted[name] = _noted(entry, name)
    youngest_first(shards)  # a lineage does not run in a circle
    return KeptJson(text_of(top["stream"], "'stream'"), carried, shards, places, noted)


def _noted(entry: Mapping[str, Any], name: str) -> Noted:
    begins, at_tip = entry.get("begins"), entry.get("at_tip", False)
    if not isinstance(at_tip, bool):
        raise InvalidToken(f"'at_tip' of {name} is {at_tip!r}, and not true or false.")
    skipped = [_gap(gap) for gap in _list(entry.get("skipped", []), "'skipped'")]
    return Noted(
        **{time: instant(entry.get(time), f"'{time}' of {name}") for time in _TIMES},
        at_tip=at_tip,
        begins=None if begins is None else place(begins, f"'begins' of {name}"),
        skipped=tuple(skipped),
    )


def _gap(value: Any) -> Gap:
    entry = entries(value, "A gap", {"after"}, _OF_GAP)
    for name in ("after", "until"):
        if entry.get(name) is not None:
            place(entry[name], f"'{name}' of a gap", tip=True)
    for name in ("from_ms", "to_ms", "records"):
        instant(entry.get(name), f"'{name}' of a gap")
    for name in ("first_available", "reason", "accepted"):
        if entry.get(name):
            text_of(entry[name], f"'{name}' of a gap")
    return Gap.from_json(dict(entry))


def _carried(top: Mapping[str, Any]) -> Carried:
    needed = {"app_name", "stream_name", "start"}
    row = entries(top["application"], "'application'", needed, {*_OF_APPLICATION, *_KEPT})
    namespace = Namespace(text_of(row["app_name"], "'app_name'"), text_of(row["stream_name"], "'stream_name'"))
    places = entries(row.get("start_places", {}), "'start_places'")
    return Carried(
        namespace=namespace,
        start=place(row["start"], "'start'", tip=True),
        start_places=tuple((name, place(at, f"the start of {name}")) for name, at in places.items()),
        **{name: instant(row.get(name), f"'{name}'") for name in _KEPT},
        shown_intervals=tuple(map(_bounds, _list(row.get("shown_intervals", []), "'shown_intervals'"))),
        intervals=tuple(_interval(item, namespace) for item in _list(top["intervals"], "'intervals'")),
    )


def _interval(item: Any, namespace: Namespace) -> IntervalOutput:
    entry = entries(item, "An interval", _OF_INTERVAL, _OF_INTERVAL)
    bounds, number = _bounds((entry["from_ms"], entry["to_ms"])), whole(entry["number"], "'number'")
    return IntervalOutput(namespace, bounds, 0, number, texts(entry["roots"], "'roots'"))


def _bounds(pair: Sequence[Any]) -> tuple[int, int]:
    start, end = pair
    return whole(start, "'from_ms'"), whole(end, "'to_ms'")


def _list(value: Any, what: str) -> Iterable[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidToken(f"{what} of the positions is not a list.")
    return value


def _shard_json(row: Lease) -> dict[str, Any]:
    noted = Noted.of(row)
    return {
        "shard_id": row.shard_id,
        "position": str(row.checkpoint),
        "parents": list(row.parent_shard_ids),
        **_stated({"keys": row.hash_range and str(row.hash_range), "begins": noted.begins and str(noted.begins)}),
        **_stated({name: getattr(noted, name) for name in _TIMES}),
        "at_tip": noted.at_tip,
        "skipped": [gap.to_json() for gap in noted.skipped],
    }


def _interval_json(row: IntervalOutput) -> dict[str, Any]:
    start, end = row.interval
    return {"from_ms": start, "to_ms": end, "number": row.number, "roots": list(row.roots)}


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
