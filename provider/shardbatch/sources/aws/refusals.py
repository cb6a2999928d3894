# SPDX-License-Identifier: Apache-2.0
"""The errors that every service of AWS answers with: what kind each is, what to do about it, and whether waiting helps.

A refusal is final only if it cannot pass by waiting: a call that is not allowed, is malformed, or is not subscribed to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from botocore import exceptions as failed

from shardbatch.errors import SourceError, Throttled


class Unreachable(SourceError):
    """The service did not answer, or answered that it failed."""

    remedy = "Check the endpoint in the connection and the network; the task may be retried."


class PassingRefusal(Unreachable):
    """A call was refused for a reason that may pass by itself, so it is made again."""

    remedy = "The task may be retried."


@dataclass(frozen=True)
class Kind:
    """What an error code means. ``remedy``: default that of the error's class; ``final``: waiting cannot help."""

    error: type[SourceError]
    remedy: str | None = None
    final: bool = False


#: What to do about a stream that is not found.
WHICH_STREAM = "Check the stream's name, region and account in the DAG and in its connection."

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
NOT_SUBSCRIBED = Kind(
    SourceError, "Sign the AWS account up for the service that the message names; retrying does not help.", final=True
)
_UNKNOWN = Kind(SourceError, "shardbatch does not know this error; the service's documentation says what it means.")


def common_kinds(*, busy: str, malformed: str) -> dict[str, Kind]:
    """What each error code means that services of AWS have in common.

    :param busy: what to do about a call that was refused for its rate.
    :param malformed: what to do about one that the service takes for malformed.
    """
    return {
        **dict.fromkeys(
            (
                "LimitExceededException",
                "ProvisionedThroughputExceededException",
                "RequestLimitExceeded",
                "Throttling",
                "ThrottlingException",
                "ThrottledException",
                "TooManyRequestsException",
            ),
            Kind(Throttled, busy),
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
        **dict.fromkeys(("AccessDeniedException", "AccessDenied", "NotAuthorized", "UnauthorizedOperation"), _DENIED),
        **dict.fromkeys(("OptInRequired", "SubscriptionRequiredException"), NOT_SUBSCRIBED),
        **dict.fromkeys(
            ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException"),
            _CREDENTIALS,
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
            Kind(SourceError, malformed, final=True),
        ),
    }


def kind_of(kinds: Mapping[str, Kind], code: str, status: int) -> Kind:
    """The kind of an error code; one that is not known may be the server's fault by its HTTP status."""
    return kinds.get(code) or (Kind(Unreachable) if status >= 500 else _UNKNOWN)


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
