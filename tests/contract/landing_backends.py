# SPDX-License-Identifier: Apache-2.0
"""The kinds of staging areas that the contract of landing is held to."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.fs as pafs
import pytest

from shardbatch.landing.area import StagingArea
from shardbatch.landing.files import appears_whole
from shardbatch.landing.location import locate
from shardbatch.landing.s3_files import s3_over
from shardbatch.landing.writer import Sizes
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer

#: So small that a few hundred records make several row groups and files.
SMALL = Sizes(row_group=4_096, file=6_000)

#: ``s3`` is how staging reaches it, ``pyarrow-s3`` how a reader without boto3 does.
NAMES = ("folder", "s3", "fsspec", pytest.param("pyarrow-s3", marks=pytest.mark.long))


@dataclass(frozen=True)
class Backend:
    """A staging area, one whose place is not there, and an output root on the same file system."""

    filesystem: pafs.FileSystem
    area: StagingArea
    missing: StagingArea
    out: str

    def put(self, uri: str, content: bytes) -> None:
        """Write a file as an application would."""
        path = locate(uri).path
        if not appears_whole(self.filesystem):
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def names(self, uri: str) -> list[str]:
        """Every file below a URI, relative to it."""
        path = locate(uri).path
        found = self.filesystem.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
        files = [info.path for info in found if info.type == pafs.FileType.File]
        return sorted(name[name.index(path) + len(path) + 1 :] for name in files)

    def read(self, uri: str) -> bytes:
        """A file's content."""
        with self.filesystem.open_input_stream(locate(uri).path) as stream:
            return bytes(stream.read())


def s3_filesystem(server: AwsServer) -> pafs.S3FileSystem:
    """pyarrow's own S3 client against a test server."""
    return pafs.S3FileSystem(
        access_key=ACCOUNT,
        secret_key=SECRET,
        region=REGION,
        scheme="http",
        endpoint_override=server.url.partition("://")[2],
        allow_bucket_creation=False,
    )


@dataclass(frozen=True)
class Bucket:
    """A bucket of a running server, as staging reaches it and as pyarrow does; a test takes a prefix of its own."""

    name: str
    filesystem: pafs.FileSystem
    pyarrow: pafs.S3FileSystem


def make_bucket(server: AwsServer, name: str = "lake") -> Bucket:
    """A new bucket."""
    server.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Bucket(name, s3_over(server.client("s3", max_pool_connections=64)), s3_filesystem(server))


def make_backend(name: str, request: pytest.FixtureRequest, unique_name: str) -> Backend:
    """The backend of a name; servers are started when the first test asks for one."""
    if name in ("s3", "pyarrow-s3"):
        bucket = request.getfixturevalue("staging_bucket")
        filesystem = bucket.filesystem if name == "s3" else bucket.pyarrow
        return _backend(filesystem, f"s3://{bucket.name}/{unique_name}", "s3://no-such-bucket-here/staging")
    if name == "fsspec":
        import fsspec

        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("memory")))
        filesystem.create_dir(f"{unique_name}/staging")
        return _backend(filesystem, f"memory://{unique_name}", "memory://nowhere/staging")
    folder = request.getfixturevalue("tmp_path")
    (folder / "staging").mkdir()
    return _backend(pafs.LocalFileSystem(), f"file://{folder}", f"file://{folder}/nowhere")


def _backend(filesystem: pafs.FileSystem, place: str, missing: str) -> Backend:
    return Backend(
        filesystem,
        StagingArea(f"{place}/staging", filesystem, sizes=SMALL),
        StagingArea(missing, filesystem),
        f"{place}/out",
    )
