# SPDX-License-Identifier: Apache-2.0
"""Stream and staging hear the same of an AWS connection: what reaches small servers on loopback shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch import Staging
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ConnectionUnknown, StagingError
from shardbatch.hooks.connections import aws_client
from tests.support.authority import Authority, make_authority
from tests.support.recorder import Answer, Asked, Recorder, recorder
from tests.support.silence import silent_proxy

NAMESPACE = Namespace("etl", "orders")
INSIDE = "aws.inside.invalid"
Connect = Callable[..., None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes the connection ``aws`` of an extra; without keys for ``keys=False``."""

    def make(keys: bool = True, **extra: Any) -> None:
        fields = {"conn_type": "aws", "extra": {"region_name": "eu-west-1", **extra}}
        if keys:
            fields |= {"login": "AKID", "password": "hidden"}
        monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps(fields))

    return make


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


def land(uri: str = "s3://lake/staging") -> None:
    Staging(uri, "aws").open().write_manifest(NAMESPACE, "b-1", b"{}")


def ask_both() -> None:
    """The stream and staging are each asked once; the lease store has its client from where the stream has its own."""
    aws_client("kinesis", "aws", None).list_streams()
    land()


def hosts(found: Recorder) -> set[str]:
    return {asked.host for asked in found.asked}


@pytest.mark.parametrize("said_by", ["connection", "environment"])
def test_all_go_through_the_proxy(connect: Connect, monkeypatch: pytest.MonkeyPatch, said_by: str) -> None:
    with recorder() as proxy:
        extra: dict[str, Any] = {"endpoint_url": f"http://{INSIDE}"}
        if said_by == "connection":
            extra["config_kwargs"] = {"proxies": {"http": proxy.url}}
        else:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        connect(**extra)
        ask_both()
        assert [asked.method for asked in proxy.asked] == ["POST", "PUT"]
        assert all(asked.target.startswith(f"http://{INSIDE}/") for asked in proxy.asked)


def test_all_go_through_the_proxy_to_an_encrypted_server(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    with recorder(authority=authority) as server, recorder(behind=server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        connect(endpoint_url=f"https://localhost:{server.port}", verify=str(authority.ca))
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        ask_both()
        assert len(server.asked) == 2
        assert proxy.passed_on == [f"localhost:{server.port}"] * 2


@pytest.mark.parametrize("said_by", ["path", "off", "environment"])
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_all_trust_whom_the_connection_trusts(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, authority: Authority, said_by: str
) -> None:
    with recorder(authority=authority) as server:
        extra: dict[str, Any] = {"path": {"verify": str(authority.ca)}, "off": {"verify": False}}.get(said_by, {})
        if said_by == "environment":
            monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.ca))
        connect(endpoint_url=server.url, **extra)
        ask_both()
        assert len(server.asked) == 2


def test_a_certificate_that_nobody_vouches_for_is_told_with_the_way_that_works(
    connect: Connect, authority: Authority
) -> None:
    with recorder(authority=authority) as server:
        connect(endpoint_url=server.url, config_kwargs={"retries": {"total_max_attempts": 1}})
        with pytest.raises(StagingError, match="certificate of https://127") as told:
            land()
        assert "verify" in told.value.remedy
        assert "AWS_CA_BUNDLE" in told.value.remedy
        assert server.asked == []


def test_the_role_is_asked_for_as_the_connection_says(connect: Connect, authority: Authority) -> None:
    def sts(asked: Asked) -> Answer | None:
        if b"AssumeRole" not in asked.body:
            return None
        return Answer(
            200,
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE</AccessKeyId>"
            "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
            "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
        )

    with recorder(sts, authority) as server:
        connect(
            endpoint_url=server.url,
            verify=str(authority.ca),
            role_arn="arn:aws:iam::111122223333:role/reader",
            service_config={"sts": {"endpoint_url": server.url}},
        )
        ask_both()
        keys = [asked.signed[0] for asked in server.asked]
        assert keys == ["AKID", "ROLE"] * 2


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_staging_asks_the_endpoint_of_the_environment(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with recorder() as server:
        monkeypatch.setenv(name, server.url)
        connect()
        land()
        assert [asked.path for asked in server.asked] == ["/lake/staging/etl/orders/batches/b-1/manifest.json"]


@pytest.mark.parametrize(("style", "host"), [("virtual", f"lake.{INSIDE}"), (None, INSIDE)])
def test_a_bucket_is_addressed_as_the_connection_says(connect: Connect, style: str | None, host: str) -> None:
    with recorder() as proxy:
        connect(
            endpoint_url=f"http://{INSIDE}",
            config_kwargs={"proxies": {"http": proxy.url}, **({"s3": {"addressing_style": style}} if style else {})},
        )
        land()
        assert hosts(proxy) == {host}


def test_uploads_have_the_encryption_that_the_connection_names(connect: Connect) -> None:
    given = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/lake", "ExpectedBucketOwner": "111122223333"}
    with recorder() as server:
        connect(endpoint_url=server.url, service_config={"s3": {"extra_args": given}})
        area = Staging("s3://lake/staging", "aws").open()
        area.write_manifest(NAMESPACE, "b-1", b"{}")
        with area._files.filesystem.open_output_stream("lake/big") as stream:
            stream.write(b"x" * (9 << 20))
        area.missing_files(NAMESPACE, "b-2")
        asked = {(one.method, one.path.partition("?")[2].partition("=")[0]): one.headers for one in server.asked}
        for call in (("PUT", ""), ("POST", "uploads")):
            assert asked[call]["x-amz-server-side-encryption"] == "aws:kms"
            assert asked[call]["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/lake"
        assert "x-amz-server-side-encryption" not in asked[("HEAD", "")]
        assert {one.headers["x-amz-expected-bucket-owner"] for one in server.asked} == {"111122223333"}


@pytest.mark.parametrize("wrong", [{"Bucket": "other"}, "aws:kms"])
def test_what_an_upload_cannot_have_is_refused_by_name(connect: Connect, wrong: Any) -> None:
    connect(service_config={"s3": {"extra_args": wrong}})
    with pytest.raises(ConfigurationError, match="extra_args") as told:
        Staging("s3://lake/staging", "aws").open()
    assert told.value.remedy


def test_what_stands_where_nobody_reads_it_is_refused_by_name(connect: Connect) -> None:
    connect(service_config={"s3": {"ServerSideEncryption": "aws:kms", "bucket_name": "lake"}})
    with pytest.raises(ConfigurationError, match="ServerSideEncryption") as told:
        Staging("s3://lake/staging", "aws").open()
    assert "extra_args" in told.value.remedy


# Regions


def elsewhere(asked: Asked) -> Answer:
    body = "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
    return Answer(301, "" if asked.method == "HEAD" else body, {"x-amz-bucket-region": "eu-central-1"})


def wrongly_signed(asked: Asked) -> Answer:
    body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>"
    return Answer(400, "" if asked.method == "HEAD" else body, {"x-amz-bucket-region": "eu-central-1"})


@pytest.mark.parametrize("answer", [elsewhere, wrongly_signed])
def test_a_bucket_of_another_region_is_told_with_its_region_and_the_setting(
    connect: Connect, answer: Callable[[Asked], Answer]
) -> None:
    with recorder(answer) as server:
        connect(endpoint_url=server.url)
        area = Staging("s3://lake/staging", "aws").open()
        for ask in (
            lambda: area.write_manifest(NAMESPACE, "b-1", b"{}"),
            lambda: area.read_manifest(NAMESPACE, "b-1"),
            lambda: area.missing_files(NAMESPACE, "b-1"),
            lambda: area.finished_starts(NAMESPACE, "b-1"),
        ):
            with pytest.raises(StagingError, match=r"'lake' is in eu-central-1, .* eu-west-1") as told:
                ask()
            assert "Staging(region_name='eu-central-1')" in told.value.remedy
            assert "region_name in the connection's extra" in told.value.remedy


def test_a_bucket_of_another_region_is_used_where_the_way_to_it_is_open(connect: Connect) -> None:
    def right(asked: Asked) -> Answer | None:
        return None if asked.signed[1] == "eu-central-1" else wrongly_signed(asked)

    with recorder(right) as server:
        connect(endpoint_url=server.url)
        area = Staging("s3://lake/staging", "aws").open()
        area.write_manifest(NAMESPACE, "b-1", b"{}")
        area.write_manifest(NAMESPACE, "b-2", b"{}")
        assert [asked.signed[1] for asked in server.asked] == ["eu-west-1", "eu-central-1", "eu-central-1"]


# Credentials

_PROCESS = """
import datetime, json, pathlib, sys
count = pathlib.Path(sys.argv[1])
n = int(count.read_text()) + 1
count.write_text(str(n))
ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)  # so soon that each call renews
print(json.dumps({"Version": 1, "AccessKeyId": f"AKID{n}", "SecretAccessKey": "s", "SessionToken": f"t{n}",
                  "Expiration": ends.isoformat()}))
"""


def test_each_call_is_signed_with_the_keys_of_that_moment(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "process.py").write_text(_PROCESS)
    (tmp_path / "count").write_text("0")
    command = f"{sys.executable} {tmp_path / 'process.py'} {tmp_path / 'count'}"
    (tmp_path / "config").write_text(f"[profile rotating]\ncredential_process = {command}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with recorder() as server:
        connect(keys=False, endpoint_url=server.url, profile_name="rotating")
        stream = aws_client("kinesis", "aws", None)
        area = Staging("s3://lake/staging", "aws").open()
        for n in range(2):
            stream.list_streams()
            area.write_manifest(NAMESPACE, f"b-{n}", b"{}")
        keys = [asked.signed[0] for asked in server.asked]
        tokens = [asked.headers["x-amz-security-token"] for asked in server.asked]
    assert len(set(keys)) == len(set(tokens)) == 4
    assert keys == [token.replace("t", "AKID") for token in tokens]


def test_a_connection_that_gives_no_credentials_says_so(connect: Connect) -> None:
    connect(keys=False)
    with pytest.raises(ConnectionUnknown, match="'aws' gives no AWS credentials for the staging area"):
        Staging("s3://lake/staging", "aws").open()


def test_a_public_bucket_needs_none(connect: Connect) -> None:
    with recorder() as server:
        connect(keys=False, endpoint_url=server.url, config_kwargs={"signature_version": "unsigned"})
        land()
        assert "authorization" not in server.asked[0].headers


def test_a_bucket_that_accepts_and_says_nothing_is_asked_three_times(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING_TIMEOUT", "1")
    with silent_proxy() as proxy:
        connect(endpoint_url=f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(StagingError, match="did not answer in time"):
            Staging("s3://lake/staging", "aws").open().read_manifest(NAMESPACE, "b-1")
        assert proxy.accepted == 3
