# SPDX-License-Identifier: Apache-2.0
"""The steps of a DAG run, over the ports: claim, land, freeze, commit, and the attempts of a batch."""

from shardbatch.run.attempt import Ended, Turn, beat, begin, end, nothing_ended
from shardbatch.run.claim import Claim, Outcome, claim
from shardbatch.run.commit import Committed, commit, send_event
from shardbatch.run.consumer import Consumer, Rows
from shardbatch.run.end_reading import end_reading
from shardbatch.run.freeze import Frozen, freeze
from shardbatch.run.land import Landed, land

__all__ = [
    "Claim",
    "Committed",
    "Consumer",
    "Ended",
    "Frozen",
    "Landed",
    "Outcome",
    "Rows",
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
