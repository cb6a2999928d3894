# SPDX-License-Identifier: Apache-2.0
"""What staging on S3 has of its own: uploads in parts, ranges, what is given up, and how readers find it."""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from functools import partial
from typing import Any

import boto3
import pyarrow.fs as pafs
import pytest
from botocore.config import Config

import shardbatch
from shardbatch import Staging
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.errors import StagingError
from shardbatch.hooks.staging import s3_file_system
from shardbatch.landing import s3_streams
from shardbatch.landing.area import StagingArea
from shardbatch.landing.files import Files
from shardbatch.landing.s3_files import s3_over
from shardbatch.landing.writer import ParquetSliceWriter
from tests.contract.landing_backends import SMALL, Bucket, make_bucket
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer
from tests.support.batches import NAMESPACE, freeze, page
from tests.support.recorder import Answer, Asked, Recorder, empty_s3, recorder

PART = s3_streams.PART
ODD = "my staging/50%, a=b; c+d:e #f/é"


@pytest.fixture(scope="module")
def bucket(moto_server: AwsServer) -> Bucket:
    return make_bucket(moto_server, "uploads")


@pytest.fixture
def client(moto_server: AwsServer) -> Any:
    return moto_server.client("s3", max_pool_connections=64)


def over(server: Recorder, attempts: int = 1) -> pafs.FileSystem:
    """A file system whose calls the recorder gets."""
    session = boto3.session.Session(ACCOUNT, SECRET, region_name=REGION)
    retries: Any = {"total_max_attempts": attempts, "mode": "standard"}
    return s3_over(session.client("s3", endpoint_url=server.url, config=Config(retries=retries)))


def land(writer: ParquetSliceWriter, megabytes: int) -> None:
    for first in range(0, megabytes * 1_000, 1_000):
        writer.write(page(first, 1_000, size=1_000))
    writer.finish()


def test_an_object_of_many_parts_is_seen_whole_once_it_is_closed(bucket: Bucket, client: Any, unique_name: str) -> None:
    content = os.urandom(PART * 2 + 12_345)
    path = f"{bucket.name}/{unique_name}/big"
    with bucket.filesystem.open_output_stream(path) as stream:
        for at in range(0, len(content), 3_000_001):
            stream.write(content[at : at + 3_000_001])
        assert stream.tell() == len(content)
        assert bucket.filesystem.get_file_info(path).type == pafs.FileType.NotFound

    found = client.head_object(Bucket=bucket.name, Key=f"{unique_name}/big", PartNumber=1)
    assert (found["ContentLength"], found["PartsCount"]) == (PART, 3)
    with bucket.filesystem.open_input_stream(path) as stream:
        assert stream.read() == content
    with bucket.filesystem.open_input_file(path) as file:
        assert file.size() == len(content)
        for start, size in ((0, 10), (PART - 5, 10), (len(content) - 7, 100), (5, PART * 2)):
            file.seek(start)
            assert file.read(size) == content[start : start + size]


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART])
def test_an_object_of_any_size_reads_back(bucket: Bucket, unique_name: str, size: int) -> None:
    path, content = f"{bucket.name}/{unique_name}", b"\x01" * size
    with bucket.filesystem.open_output_stream(path) as stream:
        stream.write(content)
    for opened in (bucket.filesystem.open_input_stream(path), bucket.filesystem.open_input_file(path)):
        with opened as stream:
            assert stream.read() == content


def test_an_abandoned_slice_leaves_neither_object_nor_parts(bucket: Bucket, client: Any, unique_name: str) -> None:
    area = StagingArea(f"s3://{bucket.name}/{unique_name}", bucket.filesystem, compression="none")
    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    for first in range(0, 50_000, 1_000):
        writer.write(page(first, 1_000, size=1_000))
    assert client.list_multipart_uploads(Bucket=bucket.name)["Uploads"]

    writer.abandon()

    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket.name)
    assert client.list_objects_v2(Bucket=bucket.name, Prefix=unique_name)["KeyCount"] == 0


def test_a_small_file_that_could_not_be_written_is_not_shown_in_part() -> None:
    with recorder() as server:
        files = Files(over(server))
        with pytest.raises(TypeError):
            files.write("lake/marker.json", object())  # type: ignore[arg-type]
        assert [asked for asked in server.asked if asked.method == "PUT"] == []


def test_a_folder_is_removed_with_what_other_tools_leave_for_it_and_no_file_of_its_name(
    bucket: Bucket, client: Any, unique_name: str
) -> None:
    for key in (unique_name, f"{unique_name}/", f"{unique_name}/below/", f"{unique_name}/below/x"):
        client.put_object(Bucket=bucket.name, Key=key, Body=b"x")
    bucket.filesystem.delete_dir(f"{bucket.name}/{unique_name}")
    left = client.list_objects_v2(Bucket=bucket.name, Prefix=unique_name)["Contents"]
    assert [one["Key"] for one in left] == [unique_name]


def refuse_the_second_part(asked: Asked) -> Answer | None:
    return Answer(403, "<Error><Code>AccessDenied</Code></Error>") if "partNumber=2" in asked.path else None


def test_closing_does_not_show_what_could_not_be_written() -> None:
    with recorder(refuse_the_second_part) as server:
        stream = over(server).open_output_stream("lake/big")
        with pytest.raises(PermissionError, match="AccessDenied"):
            stream.write(bytes(PART * 6))
        with pytest.raises(PermissionError, match="AccessDenied"):
            stream.close()
        assert_never_completed(server)
        assert all("uploadId" in one.path for one in server.asked if one.method == "PUT")


def test_an_upload_that_fails_is_ended_and_shows_nothing() -> None:
    with recorder(refuse_the_second_part) as server:
        area = StagingArea("s3://lake/staging", over(server), compression="none")
        writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
        with pytest.raises(StagingError, match="AccessDenied") as told:
            land(writer, 100)
        writer.abandon()

        assert "docs/iam.md" in told.value.remedy
        assert_never_completed(server)


def test_an_abandoned_slice_is_never_completed() -> None:
    with recorder() as server:
        writer = StagingArea("s3://lake/staging", over(server), compression="none").slice(
            NAMESPACE, "shard-0", TRIM_HORIZON, 1
        )
        for first in range(0, 50_000, 1_000):
            writer.write(page(first, 1_000, size=1_000))
        writer.abandon()
        assert_never_completed(server)


def assert_never_completed(server: Recorder) -> None:
    asked = Counter((one.method, one.path.partition("?")[2].partition("=")[0]) for one in server.asked)
    assert asked[("POST", "uploads")] == asked[("DELETE", "uploadId")] == 1
    assert asked[("POST", "uploadId")] == 0


def test_few_parts_are_held_while_the_store_is_slow() -> None:
    finished, parts, early = threading.Event(), [], []

    def slow(asked: Asked) -> Answer | None:
        if "partNumber" in asked.path:
            parts.append(len(asked.body))
            if "partNumber=1" in asked.path:  # the second may arrive before it
                early.append(finished.wait(0.3))  # it cannot be, however slow this machine is
        return None

    def write(stream: Any) -> None:
        for _ in range(s3_streams.IN_FLIGHT + 1):
            stream.write(bytes(PART))
        finished.set()

    with recorder(slow) as server:
        stream = over(server).open_output_stream("lake/big")
        writer = threading.Thread(target=write, args=(stream,))
        writer.start()
        writer.join()
        stream.close()
    assert parts == [PART] * (s3_streams.IN_FLIGHT + 1)
    assert early == [False]


def test_a_completion_whose_answer_was_lost_is_found_to_have_happened() -> None:
    completions = []

    def lose_the_answer(asked: Asked) -> Answer | None:
        if asked.method == "POST" and "uploadId" in asked.path:
            completions.append(asked)
            code, status = ("NoSuchUpload", 404) if len(completions) > 1 else ("InternalError", 500)
            return Answer(status, f"<Error><Code>{code}</Code></Error>")
        if asked.method == "HEAD":
            return Answer(200, headers={"Content-Length": str(PART), "Last-Modified": "Sat, 28 Nov 2026 20:00:00 GMT"})
        return None

    with recorder(lose_the_answer) as server, over(server, attempts=2).open_output_stream("lake/big") as stream:
        stream.write(bytes(PART))
    assert len(completions) == 2
    assert not [one for one in server.asked if one.method == "DELETE"]


def test_an_upload_that_was_ended_by_others_is_no_lost_answer() -> None:
    def ended(asked: Asked) -> Answer | None:
        if asked.method == "POST" and "uploadId" in asked.path:
            return Answer(404, "<Error><Code>NoSuchUpload</Code></Error>")
        if asked.method == "HEAD":  # what stood there before, by chance of the same size
            return Answer(200, headers={"Content-Length": str(PART), "Last-Modified": "Sat, 28 Nov 2026 20:00:00 GMT"})
        return None

    with recorder(ended) as server, pytest.raises(StagingError, match="NoSuchUpload"):
        Files(over(server, attempts=2)).write("lake/big", bytes(PART))


def test_a_file_that_is_replaced_while_it_is_read_is_an_error() -> None:
    def replaced(asked: Asked) -> Answer | None:
        if asked.method != "GET":
            return None
        if "if-match" in asked.headers:
            return Answer(412, "<Error><Code>PreconditionFailed</Code></Error>")
        return Answer(206, "tail", {"ETag": '"one"', "Content-Range": "bytes 96-99/100"})

    with recorder(replaced) as server, over(server).open_input_file("lake/x") as file:
        assert file.read_at(4, 96) == b"tail"
        with pytest.raises(OSError, match="was replaced while it was read"):
            file.read_at(4, 0)


@pytest.mark.parametrize(("broken", "told"), [(2, "whole"), (3, "was not reached")])
def test_a_range_whose_answer_breaks_off_is_asked_for_three_times(broken: int, told: str) -> None:
    def cut(asked: Asked) -> Answer | None:
        content = "who" if len(server.asked) <= broken else "whole"
        headers = {"ETag": '"one"', "Content-Range": "bytes 0-4/5", "Content-Length": "5", "Connection": "close"}
        return Answer(206, content, headers) if asked.method == "GET" else None

    with recorder(cut) as server:
        try:
            said = over(server).open_input_stream("lake/x").read().decode()
        except OSError as error:
            said = str(error)
        assert told in said
        assert len(server.asked) == 3


def test_a_list_goes_on_beyond_its_first_page() -> None:
    def paged(asked: Asked) -> Answer | None:
        if "list-type" not in asked.path:
            return None
        name, more = ("b", "false") if "continuation-token" in asked.path else ("a%20a", "true")
        return Answer(
            200,
            f"<ListBucketResult><IsTruncated>{more}</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
            f"<EncodingType>url</EncodingType><Contents><Key>x/{name}</Key><Size>1</Size>"
            "<LastModified>2026-11-28T20:00:00Z</LastModified></Contents></ListBucketResult>",
        )

    with recorder(paged) as server:
        found = over(server).get_file_info(pafs.FileSelector("lake/x"))
    assert [info.path for info in found] == ["lake/x/a a", "lake/x/b"]


def test_an_empty_s3_has_neither_files_nor_folders() -> None:
    with recorder(empty_s3) as server:
        filesystem = over(server)
        assert filesystem.get_file_info("lake/x").type == pafs.FileType.NotFound
        assert filesystem.get_file_info(pafs.FileSelector("lake/x", allow_not_found=True)) == []
        with pytest.raises(FileNotFoundError):
            filesystem.get_file_info(pafs.FileSelector("lake/x"))


@pytest.fixture
def environment(moto_server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader finds who is told nothing but a URI."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": moto_server.url,
        "AIRFLOW_CONN_LAKE": moto_server.connection(),
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
@pytest.mark.usefixtures("environment")
def test_readers_open_what_staging_takes(bucket: Bucket, unique_name: str, scheme: str) -> None:
    area = Staging(f"{scheme}://{bucket.name}/{unique_name}/{ODD}", "lake").open()
    assert isinstance(area, StagingArea)
    frozen = freeze(area, {"shard-0": 30, "shard-1": 3})

    batch = shardbatch.open_batch(frozen.uri, digest=frozen.digest)

    assert batch.to_arrow().num_rows == 33
    assert all(file.startswith(f"s3://{bucket.name}/{unique_name}/{ODD}/") for file in batch.files)

    out = f"{scheme}://{bucket.name}/{unique_name}/out {ODD}"
    assert shardbatch.read_committed_files(out) == []


@pytest.mark.usefixtures("environment")
def test_a_batch_is_handed_to_another_process(bucket: Bucket, unique_name: str) -> None:
    frozen = freeze(StagingArea(f"s3://{bucket.name}/{unique_name}", bucket.filesystem), {"shard-0": 30})
    batch = pickle.loads(pickle.dumps(shardbatch.open_batch(frozen.uri)))
    assert batch.to_arrow().num_rows == 30
    lake = pickle.loads(pickle.dumps(s3_file_system("lake", REGION)))
    assert lake.handler.client.meta.region_name == REGION
    with pytest.raises(TypeError, match="in the other process"):
        pickle.dumps(s3_over(lake.handler.client))


def test_a_process_that_was_forked_is_told_to_open_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with recorder() as server:
        files = Files(over(server))
        monkeypatch.setattr(os, "getpid", lambda: 0)
        for ask in (
            partial(files.read, "lake/x"),
            partial(files.write, "lake/x", b""),
            partial(files.present, ["a/b"] * 2),
        ):
            with pytest.raises(StagingError, match="forked") as told:
                ask()
            assert "Open" in told.value.remedy


def test_the_sizes_of_a_small_slice_are_those_of_the_objects(bucket: Bucket, client: Any, unique_name: str) -> None:
    area = StagingArea(f"s3://{bucket.name}/{unique_name}", bucket.filesystem, sizes=SMALL)
    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    writer.write(page(0, 300, size=100))
    for file in writer.finish():
        assert client.head_object(Bucket=bucket.name, Key=f"{unique_name}/{file.path}")["ContentLength"] == file.bytes


def test_the_uploads_of_dead_reads_are_found_and_aborted_and_others_stay(
    bucket: Bucket, client: Any, unique_name: str
) -> None:
    area = StagingArea(f"s3://{bucket.name}/{unique_name}", bucket.filesystem)
    folders = [f"etl/orders/slices/shard-0/5-t{tenure}-{'0a' * 8}" for tenure in (7, 8)]
    begun = {}
    for folder in folders:
        key = f"{unique_name}/{folder}/part-00000.parquet"
        begun[folder] = client.create_multipart_upload(Bucket=bucket.name, Key=key)["UploadId"]
        client.upload_part(Bucket=bucket.name, Key=key, UploadId=begun[folder], PartNumber=1, Body=b"x" * 1_000)
    elsewhere = client.create_multipart_upload(Bucket=bucket.name, Key=f"{unique_name}/etl/orders/other")["UploadId"]
    namespace = Namespace("etl", "orders")

    dead, living = area.cleaner.slices(namespace)
    assert [(one.tenure, one.files, one.bytes) for one in (dead, living)] == [(7, 0, 0), (8, 0, 0)]
    assert [(one.upload_id, one.bytes) for one in dead.uploads] == [(begun[folders[0]], 1_000)]
    for _ in range(2):  # another clean-up may have been first
        area.cleaner.remove_slice(dead)

    left = client.list_multipart_uploads(Bucket=bucket.name, Prefix=unique_name)["Uploads"]
    assert {one["UploadId"] for one in left} == {begun[folders[1]], elsewhere}
    assert [one.tenure for one in area.cleaner.slices(namespace)] == [8]


def test_uploads_of_more_than_one_page_are_all_found() -> None:
    """A server tells up to a thousand at once."""

    def answer(asked: Asked) -> Answer:
        if "?uploads" not in asked.path:
            parts = "<Part><PartNumber>1</PartNumber><Size>7</Size></Part>"
            return Answer(200, f"<ListPartsResult>{parts}</ListPartsResult>")
        number = 2 if "key-marker" in asked.path else 1
        more = "true" if number == 1 else "false"
        return Answer(
            200,
            f"<ListMultipartUploadsResult><IsTruncated>{more}</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
            f"<NextUploadIdMarker>u</NextUploadIdMarker><Upload><Key>s/f{number}/p</Key><UploadId>u{number}</UploadId>"
            "</Upload></ListMultipartUploadsResult>",
        )

    with recorder(answer) as server:
        assert over(server).handler.uploads("lake/s") == [("lake/s/f1/p", "u1", 7), ("lake/s/f2/p", "u2", 7)]


def test_a_role_that_may_not_list_uploads_is_told_what_to_allow() -> None:
    body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    with recorder(lambda asked: Answer(403, body)) as server:
        area = StagingArea("s3://lake/staging", over(server))
        with pytest.raises(StagingError, match="s3:ListBucketMultipartUploads") as caught:
            area.cleaner.slices(Namespace("etl", "orders"))
    assert "docs/iam.md" in caught.value.remedy
