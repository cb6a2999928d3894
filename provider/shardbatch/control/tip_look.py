# SPDX-License-Identifier: Apache-2.0
"""A sensor's own look at the tips of idle shards, that no run reads (PROTOCOL C9)."""

from __future__ import annotations

from shardbatch.control.status import look_at
from shardbatch.control.stream_look import MOST_SHARDS, StreamLook
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.ports import SYSTEM_CLOCK, Clock, LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.core.shortlist import shortlist
from shardbatch.core.tips import Rows, asked_for, with_tips
from shardbatch.core.watermark import Watermark
from shardbatch.errors import ShardbatchError


def look_at_tips(
    store: LeaseStore,
    namespace: Namespace,
    stream: StreamLook,
    until_ms: int,
    known: Watermark,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[Watermark, str]:
    """The watermark with what the tips of idle shards add, and what is to be said of them.

    The stream is asked only if the answer can change: the instant, and M, are over; no run reads; and nothing but the
    tips of at most :data:`MOST_SHARDS` shards is missing. A stream without a key space is not asked: there, new shards
    hold the watermark back, too, and only a claim can enrol them (C4).

    :param known: the watermark by the rows alone.
    """
    if clock.now_ms() + CLOCKS_APART_MS < until_ms + MARGIN_MS:
        return known, ""
    before = Rows(*look_at(store, namespace))
    if before.application.key_space is None:
        return known, ""
    places = asked_for(before, until_ms)
    if not 0 < len(places) <= MOST_SHARDS:
        return known, ""
    rest = stream.rest()
    if rest:
        return known, rest
    try:
        from_ms = stream.clock_of(before.application.stream_id)
        if from_ms is None:
            missing = "The stream is not the one that the application has read; the next claim says what to do."
            stream.looked(missing)
            return known, missing
        if from_ms < until_ms + MARGIN_MS:
            return known, ""
        tips = stream.tips(places, from_ms)
        unread = sorted(set(places) - set(tips.places))
        missing = f"Not at their tips, so a run has to read them: {shortlist(unread)}." if unread else ""
    except ShardbatchError as error:
        missing = f"The stream could not be asked for its tips: {error}"
    stream.looked(missing)
    if missing:
        return known, missing
    found = with_tips(before, tips, [Rows(*look_at(store, namespace)) for _ in range(2)])
    return (found if found.ms is not None and (known.ms is None or found.ms > known.ms) else known), ""
