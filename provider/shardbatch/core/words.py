# SPDX-License-Identifier: Apache-2.0
"""How the users of a service speak of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """How those who use a service speak of it, for errors and logs of code that knows no service.

    ``busy`` says who shares the limits and what to do. It ends without a full stop, because text follows. ``look``
    says, after "look at the stream", how to see its shards. ``foreign``, ``broken`` and ``dropped`` say, after a number
    of records, what happened to them (:class:`~shardbatch.core.slice.Oddities`).
    """

    busy: str = "Other readers share what the service allows: lower their rate"
    look: str = ""
    foreign: str = "belong to another shard by their key; they were delivered"
    broken: str = "look like several in one and cannot be taken apart; they were delivered as they are"
    dropped: str = "came in one with some of another shard; these were DROPPED, as the stream says"
