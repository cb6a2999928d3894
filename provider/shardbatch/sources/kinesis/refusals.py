# SPDX-License-Identifier: Apache-2.0
"""The errors that the service answers with: what kind each is, what to do about it, and whether waiting may help.

A refusal is final only if it cannot pass by waiting: a call that is not allowed, is malformed, or is not subscribed to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from botocore import exceptions as failed

from shardbatch.errors import IteratorExpired, ShardNotFound, SourceError, StreamNotFound, Throttled


class Unreachable(SourceError):
    """The service did not answer, or answered that it failed."""

    remedy = "Check the endpoint in the connection and the network; the task may be retried."


class PassingRefusal(Unreachable):
    """A call was refused for a reason that may pass by itself, so it is made again."""

    remedy = "The task may be retried."


class TokenExpired(SourceError):
    """The listing's token is older than its five minutes."""


class StreamBusy(SourceError):
    """The stream's state does not permit the call."""


class PlaceRefused(SourceError):
    """The service takes the place for none of this shard: it was trimmed, lies beyond the end, or is another's."""

    remedy = (
        "A start that lies ahead of the service's clock is reached by waiting: retry the task later, or choose an "
        "earlier start."
    )


@dataclass(frozen=True)
class Kind:
    """What an error code means. ``remedy``: default that of the error's class; ``final``: waiting cannot help."""

    error: type[SourceError]
    remedy: str | None = None
    final: bool = False


_DENIED = Kind(
    SourceError, "Check the permissions of the connection's role and the stream's policy (docs/iam.md).", final=True
)
_CREDENTIALS = Kind(
    PassingRefusal,
    "Credentials that renew themselves are used anew when the task is retried. Those that are fixed in the connection "
    "must be replaced there.",
)
_CLOCK = Kind(
    PassingRefusal,
    "The worker's clock differs from the service's by minutes, or the secret key is wrong: set the clock (NTP) or "
    "correct the connection; the task may be retried.",
)
_NOT_SUBSCRIBED = Kind(
    SourceError, "Sign the AWS account up for the service that the message names; retrying does not help.", final=True
)
_MALFORMED = Kind(
    SourceError,
    "The service takes the call for malformed: see that the connection's endpoint is a Kinesis endpoint, and that the "
    "stream's name or ARN and its region are right. If they are, report it with the log.",
    final=True,
)
_KEY = (
    "The KMS key of the records cannot be used now: enable it, or undo its deletion, before the records' retention has "
    "passed; then the task may be retried."
)

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        (
            "KMSThrottlingException",
            "LimitExceededException",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "TooManyRequestsException",
        ),
        Kind(Throttled),
    ),
    **dict.fromkeys(
        (
            "InternalFailure",
            "InternalFailureException",
            "InternalServerError",
            "RequestAbortedException",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
        ),
        Kind(Unreachable),
    ),
    "ExpiredIteratorException": Kind(IteratorExpired),
    "ExpiredNextTokenException": Kind(TokenExpired),
    "ResourceNotFoundException": Kind(ShardNotFound),
    "ResourceInUseException": Kind(StreamBusy),
    **dict.fromkeys(("AccessDeniedException", "AccessDenied", "NotAuthorized", "UnauthorizedOperation"), _DENIED),
    "KMSAccessDeniedException": Kind(
        SourceError, "Let the connection's role use kms:Decrypt on the stream's key (docs/iam.md).", final=True
    ),
    **dict.fromkeys(("KMSDisabledException", "KMSInvalidStateException"), Kind(SourceError, _KEY)),
    "KMSNotFoundException": Kind(
        SourceError,
        "The KMS key of the records is not found: it was deleted, or is in another region or account. Restore it, or "
        "choose another key for the stream; records that only it opens are lost with it.",
    ),
    **dict.fromkeys(("KMSOptInRequired", "OptInRequired", "SubscriptionRequiredException"), _NOT_SUBSCRIBED),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException"), _CREDENTIALS
    ),
    **dict.fromkeys(
        ("InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch"), _CLOCK
    ),
    **dict.fromkeys(
        (
            "IncompleteSignature",
            "IncompleteSignatureException",
            "InvalidAction",
            "InvalidArgumentException",
            "InvalidParameterCombination",
            "InvalidParameterValue",
            "MalformedHttpRequestException",
            "MalformedQueryString",
            "MissingAction",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "MissingParameter",
            "RequestEntityTooLargeException",
            "SerializationException",
            "UnknownOperationException",
            "ValidationError",
            "ValidationException",
        ),
        _MALFORMED,
    ),
}
_UNKNOWN = Kind(SourceError, "shardbatch does not know this error; the service's documentation says what it means.")

#: What says that it is the arguments of a call that are refused, and the calls of which that means a place.
ARGUMENT = "InvalidArgumentException"
PLACED = frozenset({"get_shard_iterator", "subscribe_to_shard"})
#: The calls of which "not found" may mean a shard; of all others it means the stream, or its consumer.
OF_A_SHARD = PLACED | {"get_records"}

#: Of what is raised before a call is sent: credentials that cannot be had at this moment, and what is set up wrongly.
WITHOUT_CREDENTIALS = (
    failed.CredentialRetrievalError,
    failed.NoCredentialsError,
    failed.TokenRetrievalError,
    failed.UnauthorizedSSOTokenError,
)
SET_UP_WRONGLY = (
    failed.InvalidRegionError,
    failed.NoRegionError,
    failed.ParamValidationError,
    failed.PartialCredentialsError,
    failed.UnknownSignatureVersionError,
)


def named(operation: str, where: str, code: str, message: str, status: int = 0) -> SourceError:
    """The error that an error code of the service is, with the remedy of its kind."""
    text = f"{operation} of {where}: {code}: {message}"
    if code == ARGUMENT and operation in PLACED:
        return PlaceRefused(text)
    if code == ARGUMENT and operation == "get_records":
        return IteratorExpired(text)  # its only argument of ours is the iterator, so another one is asked for
    kind = KINDS.get(code)
    if kind is None:
        kind = Kind(Unreachable) if status >= 500 else _UNKNOWN
    remedy = kind.remedy
    if kind.error is ShardNotFound and operation not in OF_A_SHARD:
        remedy = StreamNotFound.remedy
    return kind.error(text, remedy=remedy, retryable=False if kind.final else None)


def malformed(error: PlaceRefused) -> SourceError:
    """The error of a call with a refused argument other than the place: every shard has an oldest record."""
    found = SourceError(str(error).removesuffix(error.remedy).strip(), remedy=_MALFORMED.remedy, retryable=False)
    found.__cause__ = error
    return found


def unsent(operation: str, where: str, error: Exception) -> SourceError:
    """The error of a call that could not be sent."""
    text = f"{operation} of {where} could not be sent: {error}"
    if isinstance(error, WITHOUT_CREDENTIALS):
        return PassingRefusal(text, remedy="See that the worker can get its credentials; the task may be retried.")
    return SourceError(
        text,
        remedy="Check the credentials and the region in the connection.",
        retryable=not isinstance(error, SET_UP_WRONGLY),
    )
