# SPDX-License-Identifier: Apache-2.0
"""One of the APIs that the server has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shardbatch.local.request import Request
from shardbatch.local.subscription import Subscription

JSON_1_0 = "application/x-amz-json-1.0"
JSON_1_1 = "application/x-amz-json-1.1"
Operation = Callable[[Request], "bytes | Subscription"]


@dataclass(frozen=True)
class Service:
    """An API: how calls name it, what it can do, and the form of its answers."""

    target: str
    """First part of the header X-Amz-Target."""
    operations: Mapping[str, Operation]
    note: Callable[[Request], None]
    """Writes on a request which stream and shard it seems to be about."""
    content_type: str = JSON_1_1
    error_space: str = ""
    """Stands before the name of an error."""
    scope: str = ""
    """What to do about an operation that is not here."""
