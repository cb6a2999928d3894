# SPDX-License-Identifier: Apache-2.0
"""What S3 answers, and the way to it, become errors that say what to change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore import exceptions as failed

from shardbatch.errors import StagingError
from shardbatch.landing.files import explained
from shardbatch.landing.s3_errors import told

CLIENT = SimpleNamespace(
    meta=SimpleNamespace(region_name="eu-west-1", endpoint_url="https://s3.eu-west-1.amazonaws.com")
)


def answer(status: int, code: str, message: str = "", region: str = "", headers: dict[str, str] | None = None) -> Any:
    error = {"Code": code, "Message": message, **({"Region": region} if region else {})}
    given = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return failed.ClientError({"Error": error, "ResponseMetadata": given}, "PutObject")  # type: ignore[typeddict-item]


def staging_error(raised: Exception) -> StagingError:
    with pytest.raises(StagingError) as caught, explained("write", "lake/x"), told(CLIENT, "lake/x"):
        raise raised
    return caught.value


@pytest.mark.parametrize(
    ("raised", "says", "remedy"),
    [
        (answer(403, "AccessDenied", "no"), "AccessDenied: no", "docs/iam.md"),
        (answer(403, "AccessDenied", "not authorized: kms:GenerateDataKey"), "kms:", "kms:GenerateDataKey and kms:D"),
        (answer(400, "KMS.DisabledException", "off"), "KMS.DisabledException", "the key is enabled"),
        (answer(403, "403", "Forbidden"), "403", "docs/iam.md"),
        (answer(403, "InvalidAccessKeyId", "who"), "InvalidAccessKeyId", "renewed"),
        (answer(400, "ExpiredToken", "over"), "ExpiredToken", "renewed"),
        (answer(404, "NoSuchBucket", "none"), "there is no bucket 'lake'", "Create the bucket"),
        (answer(503, "SlowDown", "later"), "SlowDown", "passes"),
        (answer(400, "InvalidRequest", "nonsense"), "nonsense", "S3's words"),
        (answer(301, "301", headers={"x-amz-bucket-region": "eu-central-1"}), "in eu-central-1", "'eu-central-1'"),
        (answer(400, "400", headers={"x-amz-bucket-region": "eu-central-1"}), "in eu-central-1", "'eu-central-1'"),
        (answer(400, "AuthorizationHeaderMalformed", region="us-west-2"), "in us-west-2", "'us-west-2'"),
        (answer(301, "PermanentRedirect"), "in another region", "the bucket's region"),
        (failed.SSLError(endpoint_url="https://s3", error="self-signed"), "certificate", "AWS_CA_BUNDLE"),
        (failed.ReadTimeoutError(endpoint_url="https://s3"), "in time", "staging_timeout"),
        (failed.ConnectTimeoutError(endpoint_url="https://s3"), "in time", "staging_timeout"),
        (failed.EndpointConnectionError(endpoint_url="https://s3"), "not reached", "proxy"),
        (failed.ProxyConnectionError(proxy_url="http://proxy"), "not reached", "HTTPS_PROXY"),
        (failed.NoCredentialsError(), "no AWS credentials", "renewed"),
        (RuntimeError("The refreshed credentials are still expired."), "are over", "renewed"),
        (failed.ParamValidationError(report="Invalid bucket name"), "Invalid bucket name", "Correct the URI"),
    ],
)
def test_each_refusal_has_its_remedy(raised: Exception, says: str, remedy: str) -> None:
    error = staging_error(raised)
    assert says in str(error)
    assert remedy in error.remedy
    assert error.retryable


def test_a_missing_object_stays_a_missing_file() -> None:
    error = staging_error(answer(404, "NoSuchKey"))
    assert isinstance(error.__cause__, FileNotFoundError)
    assert "No such file" in str(error)


def test_a_missing_bucket_is_no_missing_file() -> None:
    assert not isinstance(staging_error(answer(404, "NoSuchBucket")).__cause__, FileNotFoundError)
