# SPDX-License-Identifier: Apache-2.0
"""An S3 object as a file: written in parts that are sent while the next one fills, read by ranges."""

from __future__ import annotations

import base64
import io
import logging
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, wait
from typing import Any

from botocore import exceptions as failed

from shardbatch.landing.s3_errors import S3Error, code_of, told

log = logging.getLogger("shardbatch")

#: Bytes of a part; all of an object but its last are equal, which some stores ask for. S3 takes 10,000 of them.
PART = 8 << 20
#: Parts of one object that are on their way while the next one fills. So many and one more are held in memory.
IN_FLIGHT = 2
#: Bytes that are read with one call.
_RANGE = 8 << 20
#: Bytes that the first call of a file takes from its end: a Parquet file's footer, in most cases whole.
_TAIL = 64 << 10
#: How often a range is asked for whose answer breaks off.
_TRIES = 3

#: Names of an operation's parameters that are given with every call of it.
Extra = Callable[[str], Mapping[str, Any]]


class Upload:
    """An object in the making. It is seen whole once it is closed; before, and if anything fails, it is not seen.

    :param client: a boto3 client of S3.
    :param extra: what is given with an operation (encryption headers, …).
    :param pool: threads that send the parts.
    """

    mode = "wb"

    def __init__(self, client: Any, bucket: str, key: str, extra: Extra, pool: Executor) -> None:
        self._client = client
        self._object = {"Bucket": bucket, "Key": key}
        self._path = f"{bucket}/{key}"
        self._extra = extra
        self._pool = pool
        self._part = bytearray()
        self._size = 0
        self._upload_id: str | None = None
        self._sending: deque[Future[dict[str, Any]]] = deque()
        self._sent: list[dict[str, Any]] = []
        self._failure: BaseException | None = None
        self._abandoned = False
        self.closed = False

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is seen before the end."""

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size

    def write(self, content: Any) -> int:
        """Append bytes; waits while :data:`IN_FLIGHT` parts are on their way."""
        view = memoryview(content).cast("B")
        if not self._abandoned:
            self._go_on()
            try:
                self._take(view)
            except BaseException as error:
                self._fail(error)
                raise
        self._size += len(view)
        return len(view)

    def close(self) -> None:
        """Complete the object; only now can it be seen.

        :raises OSError: if it could not be written; then nothing of it is seen.
        """
        if self.closed:
            return
        self.closed = True
        if self._abandoned:
            return
        self._go_on()
        try:
            self._complete()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._part = bytearray()

    def abandon(self) -> None:
        """Drop what was written. What is still written is taken and dropped; closing shows nothing."""
        if not self.closed and not self._abandoned:
            self._abandoned = True
            self._abort()

    def _go_on(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _take(self, view: memoryview) -> None:
        while len(view):
            room = PART - len(self._part)
            self._part += view[:room]
            view = view[room:]
            if len(self._part) == PART:
                part, self._part = self._part, bytearray()
                self._send(part)

    def _send(self, part: bytearray) -> None:
        if self._upload_id is None:
            with told(self._client, self._path):
                answer = self._client.create_multipart_upload(**self._object, **self._extra("CreateMultipartUpload"))
            self._upload_id = answer["UploadId"]
        while len(self._sending) >= IN_FLIGHT:
            self._sent.append(self._sending.popleft().result())
        self._sending.append(self._pool.submit(self._upload, 1 + len(self._sent) + len(self._sending), part))

    def _upload(self, number: int, part: bytearray) -> dict[str, Any]:
        with told(self._client, self._path):
            answer = self._client.upload_part(
                **self._object,
                UploadId=self._upload_id,
                PartNumber=number,
                Body=part,
                **_summed(part, self._extra("UploadPart")),
            )
        sums = {name: value for name, value in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
        return {"PartNumber": number, "ETag": answer["ETag"], **sums}

    def _complete(self) -> None:
        if self._upload_id is None:
            with told(self._client, self._path):
                self._client.put_object(
                    **self._object, Body=self._part, **_summed(self._part, self._extra("PutObject"))
                )
            return
        if self._part:
            self._send(self._part)
        while self._sending:
            self._sent.append(self._sending.popleft().result())
        with told(self._client, self._path):
            try:
                self._client.complete_multipart_upload(
                    **self._object,
                    UploadId=self._upload_id,
                    MultipartUpload={"Parts": self._sent},
                    **self._extra("CompleteMultipartUpload"),
                )
            except failed.ClientError as error:
                # An answer was lost, the call was sent again, and the upload is over: the object tells.
                again = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
                if code_of(error) != "NoSuchUpload" or not again or not self._stands():
                    raise

    def _stands(self) -> bool:
        try:
            found = self._client.head_object(**self._object, **self._extra("HeadObject"))
        except failed.ClientError:
            return False
        return bool(found["ContentLength"] == self._size)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._abort()

    def _abort(self) -> None:
        self._part = bytearray()
        for sending in self._sending:
            sending.cancel()
        wait(self._sending)  # a part that arrives later would stay
        self._sending.clear()
        upload_id, self._upload_id = self._upload_id, None
        if upload_id is None:
            return
        try:
            self._client.abort_multipart_upload(
                **self._object, UploadId=upload_id, **self._extra("AbortMultipartUpload")
            )
        except (failed.BotoCoreError, failed.ClientError, RuntimeError) as problem:  # RuntimeError: no credentials
            log.warning("Parts of the object %s stay, unseen, until the bucket removes them: %s", self._path, problem)


def _summed(body: bytearray, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the body's checksum. botocore would work it out while it sends, piece by piece, which costs more CPU."""
    if extra.get("ChecksumAlgorithm") != "CRC32":
        return extra
    return {**extra, "ChecksumCRC32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode("ascii")}


class Object(io.RawIOBase):
    """An object that is read by ranges.

    :param begin: how the first call asks: for the beginning of what is read through, for the end of what is sought in.
    """

    def __init__(self, client: Any, bucket: str, key: str, extra: Extra, pool: Executor, *, through: bool) -> None:
        super().__init__()
        self._client = client
        self._object = {"Bucket": bucket, "Key": key}
        self._path = f"{bucket}/{key}"
        self._extra = extra
        self._pool = pool
        self._at = 0
        self._etag: dict[str, str] = {}
        with told(client, self._path):
            self._known_from, self._known, self.length = self._first(
                f"bytes=0-{_RANGE - 1}" if through else f"bytes=-{_TAIL}"
            )

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """The object's bytes."""
        return self.length

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.length}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Up to so many bytes; all that are left without a size."""
        end = self.length if size is None or size < 0 else min(self._at + size, self.length)
        if end <= self._at:
            return b""
        start, self._at = self._at, end
        known_to = self._known_from + len(self._known)
        if start >= self._known_from and end <= known_to:
            return self._known[start - self._known_from : end - self._known_from]
        found = bytearray(end - start)
        if self._known_from <= start < known_to:  # goes on after what is known
            head = self._known[start - self._known_from :]
            found[: len(head)] = head
            start += len(head)
        view = memoryview(found)[start - end :]
        cuts = [(n, min(n + _RANGE, end)) for n in range(start, end, _RANGE)]
        if len(cuts) == 1:
            self._fill(start, view)
        else:
            list(self._pool.map(lambda cut: self._fill(cut[0], view[cut[0] - start : cut[1] - start]), cuts))
        return bytes(found)

    def _first(self, asked: str) -> tuple[int, bytes, int]:
        try:
            answer, content = self._ask(asked)
        except failed.ClientError as error:
            if code_of(error) in ("InvalidRange", "416"):  # it is empty
                return 0, b"", 0
            raise
        self._etag = {"IfMatch": answer["ETag"]} if answer.get("ETag") else {}
        place, _, length = answer.get("ContentRange", "").rpartition(" ")[2].partition("/")
        return (int(place.partition("-")[0]), content, int(length)) if length else (0, content, len(content))

    def _fill(self, start: int, view: memoryview) -> None:
        with told(self._client, self._path):
            try:
                _, content = self._ask(f"bytes={start}-{start + len(view) - 1}")
            except failed.ClientError as error:
                if code_of(error) in ("PreconditionFailed", "412"):
                    raise S3Error(f"{self._path} was replaced while it was read") from error
                raise
        if len(content) != len(view):
            raise S3Error(f"{self._path} gave {len(content)} bytes where {len(view)} were asked for")
        view[:] = content

    def _ask(self, asked: str) -> tuple[dict[str, Any], bytes]:
        """The answer for a range and its bytes; botocore tries again what is not answered, but not what breaks off."""
        tries = 0
        while True:
            tries += 1
            answer = self._client.get_object(**self._object, Range=asked, **self._etag, **self._extra("GetObject"))
            try:
                return answer, answer["Body"].read()
            except (failed.ReadTimeoutError, failed.ResponseStreamingError, failed.IncompleteReadError):
                if tries == _TRIES:
                    raise
