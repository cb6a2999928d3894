# SPDX-License-Identifier: Apache-2.0
"""The errors that Kinesis answers with, beside those of every service of AWS."""

from __future__ import annotations

from collections.abc import Mapping

from shardbatch.errors import IteratorExpired, ShardNotFound, SourceError, Throttled
from shardbatch.sources.aws.refusals import NOT_SUBSCRIBED, WHICH_STREAM, Kind, common_kinds, kind_of
from shardbatch.sources.kinesis.words import BUSY


class TokenExpired(SourceError):
    """The listing's token is older than its five minutes."""


class StreamBusy(SourceError):
    """The stream's state does not permit the call."""


class PlaceRefused(SourceError):
    """The service does not accept the position for this shard: it was trimmed, is beyond the end, or is another's."""

    remedy = (
        "A start that lies ahead of the service's clock is reached by waiting: retry the task later, or choose an "
        "earlier start."
    )


_MALFORMED = (
    "The service takes the call for malformed: see that the connection's endpoint is a Kinesis endpoint, and that the "
    "stream's name or ARN and its region are right. If they are, report it with the log."
)
_KEY = (
    "The KMS key of the records cannot be used now: enable it, or undo its deletion, before the records' retention has "
    "passed; then the task may be retried."
)

KINDS: Mapping[str, Kind] = {
    **common_kinds(busy=BUSY, malformed=_MALFORMED),
    "ExpiredIteratorException": Kind(IteratorExpired),
    "ExpiredNextTokenException": Kind(TokenExpired),
    "ResourceNotFoundException": Kind(ShardNotFound),
    "ResourceInUseException": Kind(StreamBusy),
    "KMSThrottlingException": Kind(Throttled, BUSY),
    "KMSOptInRequired": NOT_SUBSCRIBED,
    "KMSAccessDeniedException": Kind(
        SourceError, "Let the connection's role use kms:Decrypt on the stream's key (docs/iam.md).", final=True
    ),
    **dict.fromkeys(("KMSDisabledException", "KMSInvalidStateException"), Kind(SourceError, _KEY)),
    "KMSNotFoundException": Kind(
        SourceError,
        "The KMS key of the records is not found: it was deleted, or is in another region or account. Restore it, or "
        "choose another key for the stream; records that only it opens are lost with it.",
    ),
}

#: What says that it is the arguments of a call that are refused, and the calls of which that means a place.
ARGUMENT = "InvalidArgumentException"
PLACED = frozenset({"get_shard_iterator", "subscribe_to_shard"})
#: The calls of which "not found" may mean a shard; of all others it means the stream, or its consumer.
OF_A_SHARD = PLACED | {"get_records"}


def named(operation: str, where: str, code: str, message: str, status: int = 0) -> SourceError:
    """The error that an error code of the service is, with the remedy of its kind."""
    text = f"{operation} of {where}: {code}: {message}"
    if code == ARGUMENT and operation in PLACED:
        return PlaceRefused(text)
    if code == ARGUMENT and operation == "get_records":
        return IteratorExpired(text)  # its only argument of ours is the iterator, so another one is asked for
    kind = kind_of(KINDS, code, status)
    remedy = kind.remedy
    if kind.error is ShardNotFound and operation not in OF_A_SHARD:
        remedy = WHICH_STREAM
    return kind.error(text, remedy=remedy, retryable=False if kind.final else None)


def malformed(error: PlaceRefused) -> SourceError:
    """The error of a call with a refused argument other than the place: every shard has an oldest record."""
    found = SourceError(str(error).removesuffix(error.remedy).strip(), remedy=_MALFORMED, retryable=False)
    found.__cause__ = error
    return found
