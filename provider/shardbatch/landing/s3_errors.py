# SPDX-License-Identifier: Apache-2.0
"""What S3, or the way to it, answers: as errors of a file system, each with its remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as failed

MISSING = ("404", "NoSuchKey", "NotFound")
_CREDENTIALS = (
    *("ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "RequestExpired"),
    *("RequestTimeTooSkewed", "SignatureDoesNotMatch", "TokenRefreshRequired"),
)
_ELSEWHERE = ("AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect")
_PASSING = ("InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException")

_GRANT = (
    "Allow the connection's role or user what docs/iam.md lists for this prefix; the bucket's policy must not deny it."
)
_GRANT_KEY = "Allow kms:GenerateDataKey and kms:Decrypt on the bucket's key, and see that the key is enabled."
_CREATE = "Create the bucket, or correct the URI, the region or the endpoint."
_RENEW = "See that the connection's credentials are right and renewed, and the clocks too; the task may be retried."
_TRUST = (
    'Name the authority: "verify" in the connection\'s extra (path of a file of certificates), or AWS_CA_BUNDLE on '
    "every worker."
)
_REACH = (
    "See that the endpoint and region are right and what stands between lets it through: a proxy is named by "
    '"config_kwargs": {"proxies": {…}} in the connection\'s extra, or by HTTPS_PROXY. The task may be retried.'
)
_WAIT = (
    "Look at the way there; the time is [shardbatch] staging_timeout, or read_timeout and connect_timeout in the "
    "connection's config_kwargs. The task may be retried."
)
_LATER = "It passes: the task may be retried."


class S3Error(OSError):
    """S3 refused a call, or was not reached."""

    remedy = _LATER


class S3Denied(S3Error, PermissionError):
    """S3 does not allow a call."""

    remedy = _GRANT


@contextmanager
def told(client: Any, path: str) -> Iterator[None]:
    """Turn what botocore raises into an :class:`OSError` with a ``remedy``; a missing object into
    :class:`FileNotFoundError`.
    """
    try:
        yield
    except failed.ClientError as error:
        raise _refused(error, client, path) from error
    except failed.BotoCoreError as error:
        raise _unreached(error, client) from error
    except RuntimeError as error:
        if "credentials" not in str(error):
            raise
        # Botocore's only word for credentials that were renewed and have expired all the same.
        raise _made(S3Error, f"the AWS credentials are over: {error}", _RENEW) from error


def code_of(error: failed.ClientError) -> str:
    """S3's word for a refusal; of an answer without a body, the status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def region_of(error: failed.ClientError) -> str | None:
    """The region that the answer names as the bucket's."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    found = headers.get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region")
    return str(found) if found else None


def _refused(error: failed.ClientError, client: Any, path: str) -> OSError:
    code, said = code_of(error), str(error.response.get("Error", {}).get("Message", "")).strip()
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    bucket, asked = path.partition("/")[0], client.meta.region_name
    region = region_of(error)
    if status in (301, 302, 307) or code in _ELSEWHERE or (status == 400 and region not in (None, asked)):
        return _elsewhere(bucket, region, asked, client.meta.endpoint_url)
    if code == "NoSuchBucket":
        return _made(S3Error, f"there is no bucket {bucket!r} at {client.meta.endpoint_url}", _CREATE)
    if code in MISSING:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    words = f"S3 answered {status} {code}" + (f": {said[:300]}" if said and said != code else "")
    if code in _CREDENTIALS:
        return _made(S3Error, words, _RENEW)
    if code.startswith("KMS.") or "kms:" in said.lower():
        return _made(S3Denied, words, _GRANT_KEY)
    if status == 403:
        return _made(S3Denied, words, _GRANT)
    if code in _PASSING or status >= 500:
        return _made(S3Error, words, _LATER)
    return _made(S3Error, words, "Correct the URI or the connection after S3's words.")


def _elsewhere(bucket: str, region: str | None, asked: str, endpoint: str) -> OSError:
    return _made(
        S3Error,
        f"the bucket {bucket!r} is in {region or 'another region'}, and was asked for in {asked} at {endpoint}",
        "Give Staging(region_name={0}), or {0} as region_name in the connection's extra; an endpoint, if one is set "
        "there or in AWS_ENDPOINT_URL, has to be one of that region.".format(
            repr(region) if region else "the bucket's region"
        ),
    )


def _unreached(error: failed.BotoCoreError, client: Any) -> OSError:
    endpoint, words = client.meta.endpoint_url, " ".join(str(error).split())[:300]
    if isinstance(error, failed.SSLError):
        return _made(S3Error, f"the certificate of {endpoint} was not accepted: {words}", _TRUST)
    if isinstance(error, (failed.ConnectTimeoutError, failed.ReadTimeoutError)):
        return _made(S3Error, f"{endpoint} did not answer in time", _WAIT)
    if isinstance(error, (failed.HTTPClientError, failed.ConnectionError, failed.IncompleteReadError)):
        return _made(S3Error, f"{endpoint} was not reached: {words}", _REACH)
    if isinstance(error, (failed.NoCredentialsError, failed.CredentialRetrievalError, failed.TokenRetrievalError)):
        return _made(S3Error, f"there are no AWS credentials: {words}", _RENEW)
    return _made(S3Error, words, "Correct the URI or the connection after these words.")


def _made(kind: type[S3Error], words: str, remedy: str) -> S3Error:
    error = kind(words)
    error.remedy = remedy
    return error
