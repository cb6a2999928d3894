# SPDX-License-Identifier: Apache-2.0
"""An answer that is an error of the service, by the service's own names."""

from __future__ import annotations

_STATUS = {
    "InternalFailure": 500,
    "InternalFailureException": 500,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
}


def status_of(code: str) -> int:
    """HTTP status that goes with an error name: 400, except for the service's own failures."""
    return _STATUS.get(code, 400)


class ServiceError(Exception):
    """The server answers this call with an error.

    :param code: error name as the service spells it, e.g. ``ResourceNotFoundException``
    :param message: what a person reads
    :param status: HTTP status; default by the name
    """

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status_of(code) if status is None else status


def invalid(message: str) -> ServiceError:
    """An argument that is well formed and wrong."""
    return ServiceError("InvalidArgumentException", message)


def not_found(message: str) -> ServiceError:
    """A stream or a shard that is not there."""
    return ServiceError("ResourceNotFoundException", message)


def in_use(message: str) -> ServiceError:
    """A stream or a shard whose state does not permit the call."""
    return ServiceError("ResourceInUseException", message)


def malformed(message: str) -> ServiceError:
    """An argument outside the shape that the service publishes."""
    return ServiceError("ValidationException", message)
