# SPDX-License-Identifier: Apache-2.0
"""The errors that DynamoDB Streams answers with, beside those of every service of AWS."""

from __future__ import annotations

from collections.abc import Mapping

from shardbatch.errors import IteratorExpired, ShardNotFound, SourceError
from shardbatch.sources.aws.refusals import WHICH_STREAM, Kind, common_kinds, kind_of
from shardbatch.sources.dynamodb.words import BUSY


class PlaceTrimmed(SourceError):
    """The service says that the place is older than the oldest record that it holds."""


class PlaceRefused(SourceError):
    """The service does not accept the position for this shard."""

    remedy = (
        "The checkpoint does not belong to this shard. If the stream was replaced by another one, choose another "
        "app_name; else 'airflow shardbatch reset --shard ... --to TRIM_HORIZON' reads all that the shard still "
        "holds, some of it again."
    )


_MALFORMED = (
    "The service takes the call for malformed: see that the connection's endpoint is one of DynamoDB Streams, and "
    "that the table's name or ARN and its region are right. If they are, report it with the log."
)

KINDS: Mapping[str, Kind] = {
    **common_kinds(busy=BUSY, malformed=_MALFORMED),
    "ExpiredIteratorException": Kind(IteratorExpired),
    "ResourceNotFoundException": Kind(ShardNotFound),
    "TrimmedDataAccessException": Kind(PlaceTrimmed),
}

#: The calls of which "not found" may mean a shard; of all others it means the table or the stream.
OF_A_SHARD = frozenset({"get_shard_iterator", "get_records"})


def named(operation: str, where: str, code: str, message: str, status: int = 0) -> SourceError:
    """The error that an error code of the service is, with the remedy of its kind."""
    text = f"{operation} of {where}: {code}: {message}"
    if code == "ValidationException" and operation == "get_shard_iterator":
        return PlaceRefused(text, retryable=False)
    kind = kind_of(KINDS, code, status)
    remedy = kind.remedy
    if kind.error is ShardNotFound and operation not in OF_A_SHARD:
        remedy = WHICH_STREAM
    return kind.error(text, remedy=remedy, retryable=False if kind.final else None)
