# SPDX-License-Identifier: Apache-2.0
"""S3 as a file system of pyarrow over a boto3 client, whose proxy, certificates, endpoint, renewed credentials, … hold
for files too. A path is ``bucket/key``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.fs as pafs
from botocore import exceptions as failed

from shardbatch.errors import ConfigurationError
from shardbatch.landing.s3_errors import S3Denied, S3Error, code_of, told
from shardbatch.landing.s3_streams import Object, Upload

#: Calls that are on their way at once, for all streams and lists of one file system.
THREADS = 16
#: What may be given with every call that takes it, in the words of boto3 (its ``ExtraArgs``).
EXTRA_ARGS = (
    *("ACL", "BucketKeyEnabled", "ChecksumAlgorithm", "ExpectedBucketOwner", "RequestPayer", "SSECustomerAlgorithm"),
    *("SSECustomerKey", "SSECustomerKeyMD5", "SSEKMSEncryptionContext", "SSEKMSKeyId", "ServerSideEncryption"),
    *("StorageClass", "Tagging"),
)


def s3_over(
    client: Any, extra_args: Mapping[str, Any] | None = None, again: Callable[[], pafs.PyFileSystem] | None = None
) -> pafs.PyFileSystem:
    """The file system of a boto3 client of S3.

    :param client: best with ``max_pool_connections`` of 32 or more.
    :param extra_args: what is given with every call that takes it, as ``{"ServerSideEncryption": "aws:kms"}``.
    :param again: makes it anew where it is unpickled, which a client cannot be; default: it cannot be pickled.
    :raises ConfigurationError: for a word that is not one of :data:`EXTRA_ARGS`.
    """
    if not isinstance(extra_args or {}, Mapping):
        raise ConfigurationError(f"extra_args of S3 is a {type(extra_args).__name__}.", remedy="Give a dictionary.")
    return pafs.PyFileSystem(S3Handler(client, dict(extra_args or {}), again))


def _made_again(again: Callable[[], pafs.PyFileSystem]) -> S3Handler:
    handler: S3Handler = again().handler
    return handler


class S3Handler(pafs.FileSystemHandler):  # type: ignore[misc]
    """What pyarrow asks. There are no folders: one is there while there is an object below it."""

    def __init__(
        self, client: Any, extra_args: dict[str, Any], again: Callable[[], pafs.PyFileSystem] | None = None
    ) -> None:
        unknown = sorted(set(extra_args) - set(EXTRA_ARGS))
        if unknown:
            raise ConfigurationError(
                "extra_args of S3 has {}, which staging cannot send.".format(", ".join(unknown)),
                remedy="Choose of {}.".format(", ".join(EXTRA_ARGS)),
            )
        self.client = client
        self._given = extra_args
        if getattr(client.meta.config, "request_checksum_calculation", None) == "when_supported":
            self._given = {"ChecksumAlgorithm": "CRC32", **extra_args}  # as boto3's own transfers do
        self._takes: dict[str, frozenset[str]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")
        self._process = os.getpid()
        self._again = again
        self._open: WeakValueDictionary[str, Upload] = WeakValueDictionary()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Handler) and self.client is other.client and self._given == other._given

    def __reduce__(self) -> tuple[Any, ...]:
        if self._again is None:
            raise TypeError("a file system over a client of S3 cannot be pickled; open it in the other process")
        return _made_again, (self._again,)

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """The threads. A forked process has none of them and would wait without end, on its parent's sockets."""
        if os.getpid() != self._process:
            error = S3Error("it was opened before this process was forked")
            error.remedy = "Open the batch, or the file system, in the process that uses it."
            raise error
        return self._threads

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "boto3+s3"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._look(paths[0])] if len(paths) == 1 else list(self._pool.map(self._look, paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        bucket, key = _split(selector.base_dir)
        prefix, found, there = key + "/" if key else "", [], False
        for page in self._pages(bucket, prefix, "" if selector.recursive else "/"):
            for one in page.get("Contents", ()):
                there, name = True, one["Key"]
                if not name.endswith("/"):  # what other tools leave for a folder
                    found.append(
                        pafs.FileInfo(
                            f"{bucket}/{name}", pafs.FileType.File, size=one["Size"], mtime=one["LastModified"]
                        )
                    )
            for one in page.get("CommonPrefixes", ()):
                there = True
                found.append(pafs.FileInfo(f"{bucket}/{one['Prefix'].rstrip('/')}", pafs.FileType.Directory))
        if not there and not selector.allow_not_found:
            raise FileNotFoundError(f"There is nothing below {selector.base_dir}")
        return found

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self._reader(path, through=True)

    def open_input_file(self, path: str) -> pa.PythonFile:
        return self._reader(path, through=False)

    def open_output_stream(self, path: str, metadata: Any = None) -> pa.PythonFile:
        bucket, key = _split(path)
        upload = self._open[path] = Upload(self.client, bucket, key, self._extra, self._pool)
        return pa.PythonFile(upload, mode="w")

    def open_append_stream(self, path: str, metadata: Any = None) -> pa.PythonFile:
        raise NotImplementedError("S3 has objects that are written whole; nothing is appended")

    def abandon(self, path: str) -> None:
        """See that what is being written there is not completed, and that S3 keeps nothing of it."""
        upload = self._open.get(path)
        if upload is not None:
            upload.abandon()

    def uploads(self, folder: str) -> list[tuple[str, str, int]]:
        """The uploads of objects below a folder that were begun and not completed: path, id and bytes of each."""
        bucket, key = _split(folder)
        asked: dict[str, Any] = {"Bucket": bucket, "Prefix": key + "/", **self._extra("ListMultipartUploads")}
        found: list[tuple[str, str]] = []
        while True:
            with _granted(), told(self.client, folder):
                page = self.client.list_multipart_uploads(**asked)
            found += [(one["Key"], one["UploadId"]) for one in page.get("Uploads", ())]
            if not page.get("IsTruncated"):
                break
            asked.update(KeyMarker=page["NextKeyMarker"], UploadIdMarker=page["NextUploadIdMarker"])
        sizes = self._pool.map(lambda one: self._size_of(bucket, *one), found)
        return [(f"{bucket}/{name}", upload_id, size) for (name, upload_id), size in zip(found, sizes)]

    def abort_upload(self, path: str, upload_id: str) -> None:
        """Drop the parts of an upload; one that is completed or gone is passed over."""
        bucket, key = _split(path)
        with told(self.client, path), _or_over():
            self.client.abort_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload_id, **self._extra("AbortMultipartUpload")
            )

    def _size_of(self, bucket: str, key: str, upload_id: str) -> int:
        """The bytes of an upload's first thousand parts, of which few have more; none if it is over by now."""
        with _granted(), told(self.client, f"{bucket}/{key}"), _or_over():
            found = self.client.list_parts(Bucket=bucket, Key=key, UploadId=upload_id, **self._extra("ListParts"))
            return sum(part["Size"] for part in found.get("Parts", ()))
        return 0

    def create_dir(self, path: str, recursive: bool) -> None:
        """Nothing: there are no folders."""

    def delete_file(self, path: str) -> None:
        """Remove an object; S3 does not say whether there was one."""
        self._delete(*_split(path))

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = True) -> None:
        bucket, key = _split(path)
        if not key:
            raise NotImplementedError("a whole bucket is not emptied")
        names = [one["Key"] for page in self._pages(bucket, key + "/", "") for one in page.get("Contents", ())]
        list(self._pool.map(lambda name: self._delete(bucket, name), names))

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("buckets are not removed")

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        (bucket, key), (from_bucket, from_key) = _split(dest), _split(src)
        with told(self.client, src):
            self.client.copy_object(
                Bucket=bucket, Key=key, CopySource={"Bucket": from_bucket, "Key": from_key}, **self._extra("CopyObject")
            )

    def _delete(self, bucket: str, key: str) -> None:
        with told(self.client, f"{bucket}/{key}"):
            self.client.delete_object(Bucket=bucket, Key=key, **self._extra("DeleteObject"))

    def _reader(self, path: str, *, through: bool) -> pa.PythonFile:
        bucket, key = _split(path)
        return pa.PythonFile(Object(self.client, bucket, key, self._extra, self._pool, through=through), mode="r")

    def _look(self, path: str) -> pafs.FileInfo:
        bucket, key = _split(path)
        try:
            with told(self.client, path):
                if not key:
                    self.client.head_bucket(Bucket=bucket, **self._extra("HeadBucket"))
                    return pafs.FileInfo(path, pafs.FileType.Directory)
                found = self.client.head_object(Bucket=bucket, Key=key, **self._extra("HeadObject"))
            return pafs.FileInfo(path, pafs.FileType.File, size=found["ContentLength"], mtime=found["LastModified"])
        except FileNotFoundError:
            pass
        there = bool(key) and any(page.get("KeyCount") for page in self._pages(bucket, key + "/", "", limit=1))
        return pafs.FileInfo(path, pafs.FileType.Directory if there else pafs.FileType.NotFound)

    def _pages(self, bucket: str, prefix: str, delimiter: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "Delimiter": delimiter}
        asked.update(self._extra("ListObjectsV2"))
        if limit:
            asked["MaxKeys"] = limit
        while True:
            with told(self.client, f"{bucket}/{prefix}"):
                page: dict[str, Any] = self.client.list_objects_v2(**asked)
            yield page
            if limit or not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def _extra(self, operation: str) -> dict[str, Any]:
        if operation not in self._takes:
            shape = self.client.meta.service_model.operation_model(operation).input_shape
            self._takes[operation] = frozenset(shape.members)
        return {name: value for name, value in self._given.items() if name in self._takes[operation]}


@contextmanager
def _granted() -> Iterator[None]:
    """A refusal names what only clean-up needs."""
    try:
        yield
    except S3Denied as error:
        error.remedy = (
            "Allow s3:ListBucketMultipartUploads on the bucket and s3:ListMultipartUploadParts on what is below the "
            "staging folder (docs/iam.md, Clean-up)."
        )
        raise


@contextmanager
def _or_over() -> Iterator[None]:
    """An upload that was completed or aborted meanwhile is passed over."""
    try:
        yield
    except failed.ClientError as error:
        if code_of(error) != "NoSuchUpload":
            raise


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key
