# SPDX-License-Identifier: Apache-2.0
"""The use-cases, over the ports: claim, land, freeze, commit, and the turn of an attempt."""

from shardbatch.consumer.attempt import Turn, beat, begin, end, older_application
from shardbatch.consumer.claim import Claim, Outcome, claim
from shardbatch.consumer.commit import Committed, commit
from shardbatch.consumer.consumer import SYSTEM_CLOCK, Consumer
from shardbatch.consumer.freeze import Frozen, freeze
from shardbatch.consumer.land import Landed, land

__all__ = [
    "SYSTEM_CLOCK",
    "Claim",
    "Committed",
    "Consumer",
    "Frozen",
    "Landed",
    "Outcome",
    "Turn",
    "beat",
    "begin",
    "claim",
    "commit",
    "end",
    "freeze",
    "land",
    "older_application",
]
