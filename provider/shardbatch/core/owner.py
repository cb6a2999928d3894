# SPDX-License-Identifier: Apache-2.0
"""Who holds leases: the StreamBatch group of a DAG run, never a host."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from urllib.parse import quote, unquote

MODES = ("incremental", "interval")


@dataclass(frozen=True)
class Owner:
    """The group of a run: its text, five quoted parts with slashes between, stands in the rows."""

    deployment: str
    dag_id: str
    run_id: str
    group_id: str
    mode: str = "incremental"

    def __str__(self) -> str:
        return "/".join(quote(part, safe=":+=@,~ ") for part in astuple(self))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner of a text, or ``None`` if it is no owner of this form (a person, another version)."""
        parts = [unquote(part) for part in text.split("/")]
        return cls(*parts) if len(parts) == 5 else None

    @property
    def scope(self) -> str:
        """The lease scope: empty for live leases, the run for an interval's side leases."""
        return "" if self.mode == "incremental" else str(self)
