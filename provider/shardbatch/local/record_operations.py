# SPDX-License-Identifier: Apache-2.0
"""The operations on records. Answers are put together from JSON that was made when the records came in."""

from __future__ import annotations

import json
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.engine import parse_hash_key
from shardbatch.local.failure import ServiceError, invalid, malformed
from shardbatch.local.faults import FaultKind
from shardbatch.local.fields import NUMBER, Fields, mistyped
from shardbatch.local.records import IteratorType, Records, require_place
from shardbatch.local.request import Request
from shardbatch.local.stream import Stream, hash_of

MOST_RECORDS = 10_000
MOST_ENTRIES = 500
MOST_ENTRY_BYTES = 10 * 1024 * 1024
LONGEST_KEY = 256


class RecordOperations:
    """GetShardIterator, GetRecords, PutRecord, PutRecords."""

    def __init__(self, addressing: Addressing, records: Records) -> None:
        self._addressing = addressing
        self._records = records
        self._options = addressing.engine.options

    def get_shard_iterator(self, request: Request) -> bytes:
        """GetShardIterator."""
        fields = request.fields
        shard_id = fields.need("ShardId")
        kind = fields.choice("ShardIteratorType", IteratorType)
        if kind is None:
            raise malformed("ShardIteratorType is required")
        sequence_number = fields.text("StartingSequenceNumber", NUMBER)
        timestamp_ms = fields.timestamp_ms("Timestamp")
        require_place(kind, "StartingSequenceNumber", sequence_number, timestamp_ms)
        stream = self._addressing.find(request, readable=True)
        iterator = self._records.make_iterator(stream, shard_id, kind, sequence_number or "", timestamp_ms or 0)
        return b'{"ShardIterator":"%s"}' % iterator.encode()

    def get_records(self, request: Request) -> bytes:
        """GetRecords."""
        fields = request.fields
        iterator = self._records.open_iterator(fields.any_text("ShardIterator", 512))
        if fields.has("StreamARN") and self._addressing.named(request) != (iterator.home, iterator.stream):
            raise invalid("StreamARN is not that of the iterator's stream")
        limit = fields.integer("Limit", 1, 2**31 - 1) or MOST_RECORDS
        if limit > MOST_RECORDS:
            raise invalid(f"Limit must be from 1 to {MOST_RECORDS}, got {limit}")
        answer = self._records.read(iterator, limit, empty=request.fault(FaultKind.EMPTY) is not None)
        request.records = len(answer.records)
        tail = b'],"MillisBehindLatest":%d' % answer.behind_ms
        if request.fault(FaultKind.NO_ITERATOR) is None:
            if answer.next_iterator is not None:
                tail += b',"NextShardIterator":"%s"' % answer.next_iterator.encode()
            elif answer.children:
                tail += b',"ChildShards":' + json.dumps([child.describe_child() for child in answer.children]).encode()
        return b"".join((b'{"Records":[', b",".join(answer.records), tail, b"}"))

    def put_record(self, request: Request) -> bytes:
        """PutRecord."""
        stream = self._addressing.find(request, readable=True)
        key, data, size, hash_key = self._check_entry(request.fields.values, self._most_bytes(stream))
        request.fields.text("SequenceNumberForOrdering", NUMBER)
        now_ms = self._addressing.engine.clock.now_ms()
        shard, number = self._records.write(stream, key, data, size, hash_key, now_ms)
        request.shard, request.records = shard.shard_id, 1
        return f'{{"ShardId":"{shard.shard_id}","SequenceNumber":"{number}"}}'.encode()

    def put_records(self, request: Request) -> bytes:
        """PutRecords: all entries are checked before the first one is written."""
        stream = self._addressing.find(request, readable=True)
        entries = request.fields.array("Records", 1, MOST_ENTRIES)
        most = self._most_bytes(stream)
        checked = [self._check_entry(entry, most) for entry in entries]
        total = sum(size + len(key) for key, _, size, _ in checked)
        if total > MOST_ENTRY_BYTES:
            raise invalid(f"the records have {total} bytes; one call takes {MOST_ENTRY_BYTES}")
        write, now_ms = self._records.write, self._addressing.engine.clock.now_ms()
        results: list[str] = []
        failed = 0
        partial = request.fault(FaultKind.PARTIAL)
        taken = len(checked) if partial is None else int(len(checked) * partial.keep)
        for number_of, (key, data, size, hash_key) in enumerate(checked):
            try:
                if partial is not None and number_of >= taken:
                    raise ServiceError(partial.error, partial.message)
                shard, number = write(stream, key, data, size, hash_key, now_ms)
                results.append(f'{{"SequenceNumber":"{number}","ShardId":"{shard.shard_id}"}}')
            except ServiceError as error:
                failed += 1
                results.append(json.dumps({"ErrorCode": error.code, "ErrorMessage": error.message}))
        request.records = len(results) - failed
        return f'{{"FailedRecordCount":{failed},"Records":[{",".join(results)}]}}'.encode()

    def _most_bytes(self, stream: Stream) -> int:
        return stream.max_record_bytes or self._options.max_record_bytes

    @staticmethod
    def _check_entry(entry: Any, most_bytes: int) -> tuple[str, str, int, int]:
        if not isinstance(entry, dict):
            raise mistyped("Records", "a list of objects")
        key, data, explicit = entry.get("PartitionKey"), entry.get("Data"), entry.get("ExplicitHashKey")
        if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY:
            Fields(entry).any_text("PartitionKey", LONGEST_KEY)
        if not isinstance(data, str):
            raise malformed("Data is required") if data is None else mistyped("Data", "base64 text")
        try:
            size = len(a2b_base64(data, strict_mode=True))
        except (Base64Error, ValueError):
            raise mistyped("Data", "base64 text") from None
        if size > most_bytes:
            raise malformed(f"Data must have at most {most_bytes} bytes, has {size}")
        try:
            hash_key = hash_of(str(key))
        except UnicodeEncodeError:
            raise mistyped("PartitionKey", "a string of whole characters") from None
        if explicit is None:
            return str(key), data, size, hash_key
        if not isinstance(explicit, str):
            raise mistyped("ExplicitHashKey", "a string")
        return str(key), data, size, parse_hash_key("ExplicitHashKey", explicit)
