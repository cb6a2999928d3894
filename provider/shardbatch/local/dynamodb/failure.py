# SPDX-License-Identifier: Apache-2.0
"""What DynamoDB says no with, and what this server says no to."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.local.failure import ServiceError, malformed, not_found
from shardbatch.local.fields import Fields

ELSEWHERE = "use an emulator of DynamoDB"


def not_done(what: str) -> ServiceError:
    """A request of DynamoDB's that this server does not do."""
    return malformed(f"the local server does not do {what}; leave it out, or {ELSEWHERE}")


def refuse_others(fields: Fields, operation: str, known: Iterable[str]) -> None:
    """See that a request asks for nothing that this server does not do.

    :param known: members that are served, or may be ignored
    :raises ServiceError: ValidationException
    """
    others = sorted(name for name in fields.values if fields.has(name) and name not in known)
    if others:
        raise not_done(f"{', '.join(others)} of {operation}")


def no_shard() -> ServiceError:
    """A shard that its stream does not list, by the service's own text, on which clients rely."""
    return not_found("Requested resource not found: Shard does not exist")


def trimmed(message: str) -> ServiceError:
    """A place whose records are gone."""
    return ServiceError("TrimmedDataAccessException", f"The data you are trying to access has been trimmed: {message}")
