# SPDX-License-Identifier: Apache-2.0
"""The application row: which stream it reads, where it began, who has worked on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.core.position import Position
from shardbatch.core.rows import APPLICATION, SCHEMA_VERSION, Columns, Key, Namespace, Row, text_or_none


@dataclass(frozen=True)
class Application(Row):
    """An independent consumer of a stream.

    ``stream_id`` tells the stream from another one of the same name; ``start_position`` is resolved, never ``LATEST``.
    """

    namespace: Namespace
    stream_id: str
    start_position: Position
    row_count: int
    schema_version: int = SCHEMA_VERSION
    deployments: tuple[str, ...] = ()
    last_action: str | None = None

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(APPLICATION, self.namespace, ())

    @property
    def counter(self) -> int:
        """``row_count``."""
        return self.row_count

    def columns(self) -> Columns:
        """All columns but the key's."""
        return {
            "stream_id": self.stream_id,
            "start_position": str(self.start_position),
            "schema_version": self.schema_version,
            "deployments": json.dumps(list(self.deployments)),
            "last_action": self.last_action,
            "row_count": self.row_count,
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Application:
        """The row of its columns."""
        get = columns.get
        return cls(
            namespace=Namespace(columns["app_name"], columns["stream_name"]),
            stream_id=columns["stream_id"],
            start_position=Position.parse(columns["start_position"]),
            row_count=int(columns["row_count"]),
            schema_version=int(get("schema_version") or 1),
            deployments=tuple(json.loads(get("deployments") or "[]")),
            last_action=text_or_none(get("last_action")),
        )

    def joined(self, deployment: str) -> Application:
        """With a deployment among those that have worked on it."""
        known = tuple(sorted({*self.deployments, deployment}))
        return replace(self, deployments=known, row_count=self.row_count + 1)

    def acted(self, note: str) -> Application:
        """With the last thing a person did to it."""
        return replace(self, last_action=note, row_count=self.row_count + 1)
