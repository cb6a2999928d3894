# SPDX-License-Identifier: Apache-2.0
"""Every error of the service has a remedy of its kind, and only those are final that cannot pass by waiting."""

from __future__ import annotations

import botocore.session
import pytest
from botocore import exceptions as failed

from shardbatch.errors import ConfigurationError, IteratorExpired, ShardNotFound, SourceError, Throttled
from shardbatch.hooks.connections import aws_session
from shardbatch.sources.aws.refusals import PassingRefusal, Unreachable, unsent
from shardbatch.sources.kinesis.refusals import KINDS, PlaceRefused, StreamBusy, TokenExpired, named

CALLS = (
    *("GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary", "SubscribeToShard"),
    *("RegisterStreamConsumer", "DescribeStreamConsumer", "DeregisterStreamConsumer"),
)
#: Of every API of AWS (Common Error Types of the API reference).
COMMON = (
    *("AccessDeniedException", "ExpiredTokenException", "IncompleteSignature", "InternalFailure"),
    *("MalformedHttpRequestException", "NotAuthorized", "OptInRequired", "RequestAbortedException"),
    *("RequestEntityTooLargeException", "RequestExpired", "RequestTimeoutException", "ServiceUnavailable"),
    *("ThrottlingException", "UnrecognizedClientException", "UnknownOperationException", "ValidationError"),
)
FINAL = (
    *("AccessDeniedException", "IncompleteSignature", "InvalidArgumentException", "KMSAccessDeniedException"),
    *("KMSOptInRequired", "MalformedHttpRequestException", "NotAuthorized", "OptInRequired"),
    *("RequestEntityTooLargeException", "UnknownOperationException", "ValidationError"),
)


def known() -> set[str]:
    model = botocore.session.get_session().get_service_model("kinesis")
    told = {shape.name for call in CALLS for shape in model.operation_model(call).error_shapes}
    return told - {"DryRunOperationException"} | {*COMMON}  # nobody asks for a dry run


def test_every_error_of_the_calls_that_are_made_has_its_kind() -> None:
    assert known() <= KINDS.keys()


def test_only_what_waiting_cannot_mend_is_final() -> None:
    final = {code for code in known() if not named("list_shards", "s", code, "no").retryable}
    assert final == set(FINAL)


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        ("AccessDeniedException", SourceError, "permissions"),
        ("KMSAccessDeniedException", SourceError, "kms:Decrypt"),
        ("KMSDisabledException", SourceError, "enable it"),
        ("KMSNotFoundException", SourceError, "key"),
        ("KMSOptInRequired", SourceError, "Sign the AWS account up"),
        ("KMSThrottlingException", Throttled, ""),
        ("ExpiredTokenException", PassingRefusal, "Credentials"),
        ("UnrecognizedClientException", PassingRefusal, "Credentials"),
        ("InvalidSignatureException", PassingRefusal, "clock"),
        ("RequestExpired", PassingRefusal, "clock"),
        ("ValidationException", SourceError, "malformed"),
        ("ExpiredNextTokenException", TokenExpired, ""),
        ("ResourceInUseException", StreamBusy, ""),
        ("ResourceNotFoundException", ShardNotFound, ""),
        ("RequestTimeoutException", Unreachable, "network"),
    ],
)
def test_the_remedy_fits_the_kind(code: str, kind: type[SourceError], remedy: str) -> None:
    error = named("list_shards", "stream s", code, "no")
    assert type(error) is kind
    assert remedy in error.remedy
    assert f"list_shards of stream s: {code}: no" in str(error)


def test_an_error_that_nobody_knows_is_neither_final_nor_about_permissions() -> None:
    error = named("list_shards", "s", "BrandNewException", "no", 400)
    assert (type(error), error.retryable) == (SourceError, True)
    assert "ermission" not in str(error)
    assert isinstance(named("list_shards", "s", "BrandNewException", "no", 503), Unreachable)


def test_what_is_not_found_is_a_shard_only_where_a_call_names_one() -> None:
    code = "ResourceNotFoundException"
    for operation in ("get_shard_iterator", "get_records", "subscribe_to_shard"):
        assert "retention" in str(named(operation, "s", code, "no"))
    for operation in ("describe_stream_summary", "list_shards", "register_stream_consumer"):
        assert "Check the stream's name" in str(named(operation, "s", code, "no"))


def test_an_argument_is_a_place_an_iterator_or_malformed() -> None:
    code = "InvalidArgumentException"
    assert isinstance(named("get_shard_iterator", "s", code, "no"), PlaceRefused)
    assert isinstance(named("subscribe_to_shard", "s", code, "no"), PlaceRefused)
    assert isinstance(named("get_records", "s", code, "no"), IteratorExpired)
    assert not named("list_shards", "s", code, "no").retryable


@pytest.mark.parametrize(
    ("error", "passing", "retryable"),
    [
        (failed.CredentialRetrievalError(provider="p", error_msg="busy"), True, True),
        (failed.NoCredentialsError(), True, True),
        (failed.ParamValidationError(report="wrong"), False, False),
        (failed.NoRegionError(), False, False),
        (failed.BotoCoreError(), False, True),
    ],
)
def test_a_call_that_could_not_be_sent_is_judged_by_its_cause(error: Exception, passing: bool, retryable: bool) -> None:
    found = unsent("list_shards", "s", error)
    assert (isinstance(found, PassingRefusal), found.retryable) == (passing, retryable)


@pytest.mark.parametrize(
    ("code", "final"),
    [("AccessDenied", True), ("Throttling", False), ("ExpiredToken", False), ("RequestExpired", False)],
)
def test_a_role_that_cannot_be_assumed_is_final_only_if_it_is_refused(code: str, final: bool) -> None:
    class Hook:
        aws_conn_id = "aws"
        verify = None

        def get_session(self, region_name: str | None) -> None:
            raise failed.ClientError({"Error": {"Code": code, "Message": "no"}}, "AssumeRole")

    with pytest.raises(ConfigurationError if final else failed.ClientError):
        aws_session(Hook(), None)  # type: ignore[arg-type]
