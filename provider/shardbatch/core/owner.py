# SPDX-License-Identifier: Apache-2.0
"""Who holds leases: the StreamBatch group of a DAG run, never a host."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from hashlib import sha256
from urllib.parse import quote, unquote

from shardbatch.core.choices import Choice

#: Most characters of a scope, in every store.
LONGEST_SCOPE = 768

#: How the text begins that stands as owner on leases while a reset has them.
_RESET = "reset:"


class Mode(Choice):
    """What a run reads. ``incremental``: on from the checkpoints. ``interval``: what arrived in a time of its own."""

    INCREMENTAL = "incremental"
    INTERVAL = "interval"


@dataclass(frozen=True)
class ResetHolder:
    """A reset that has leases: each is ``rewound`` or not yet.

    No run is such an owner, and none takes its leases, however long they stand still: half a lineage must not go on.
    A reset that died is finished by another.
    """

    reset_id: str
    rewound: bool = False

    def __str__(self) -> str:
        return "{}{}:{}".format(_RESET, self.reset_id, "rewound" if self.rewound else "taken")

    @classmethod
    def parse(cls, text: str | None) -> ResetHolder | None:
        """The reset of an owner's text, or ``None`` if the text names no reset."""
        if text is None or not text.startswith(_RESET):
            return None
        reset_id, _, phase = text[len(_RESET) :].partition(":")
        return cls(reset_id, phase == "rewound")


@dataclass(frozen=True)
class Owner:
    """The group of a run: its text, five quoted parts with slashes between, stands in the rows."""

    deployment: str
    dag_id: str
    run_id: str
    group_id: str
    mode: str = Mode.INCREMENTAL.value

    def __str__(self) -> str:
        return "/".join(quote(part, safe=":+=@,~ ") for part in astuple(self))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner of a text, or ``None`` if it is not an owner of this form (a person, another version)."""
        parts = [unquote(part) for part in text.split("/")]
        return cls(*parts) if len(parts) == 5 else None

    @property
    def scope(self) -> str:
        """The lease scope: empty for live leases, the run for an interval's side leases. A text that no key has room
        for (names beyond ASCII take six characters a letter) is told by its beginning and its hash."""
        text = "" if self.mode == Mode.INCREMENTAL else str(self)
        if len(text) <= LONGEST_SCOPE:
            return text
        digest = sha256(text.encode()).hexdigest()
        return f"{text[: LONGEST_SCOPE - len(digest) - 1]}~{digest}"
