# SPDX-License-Identifier: Apache-2.0
"""The use-cases, over the ports: claim, land, freeze, commit, and the turn of an attempt."""

from shardbatch.consumer.attempt import Ended, Turn, beat, begin, end, nothing_ended
from shardbatch.consumer.claim import Claim, Outcome, claim
from shardbatch.consumer.commit import Committed, commit, send_event
from shardbatch.consumer.consumer import SYSTEM_CLOCK, Consumer
from shardbatch.consumer.end_reading import end_reading
from shardbatch.consumer.freeze import Frozen, freeze
from shardbatch.consumer.land import Landed, land

__all__ = [
    "SYSTEM_CLOCK",
    "Claim",
    "Committed",
    "Consumer",
    "Ended",
    "Frozen",
    "Landed",
    "Outcome",
    "Turn",
    "beat",
    "begin",
    "claim",
    "commit",
    "end",
    "end_reading",
    "freeze",
    "land",
    "nothing_ended",
    "send_event",
]
