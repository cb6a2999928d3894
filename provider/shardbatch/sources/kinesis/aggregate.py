# SPDX-License-Identifier: Apache-2.0
"""Records that a producer packed into one: the aggregated record format of the Kinesis Producer Library.

Four magic bytes, a protobuf message, and the MD5 of that message (amazon-kinesis-producer, ``aggregation-format.md``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from shardbatch.core.shard import KeyRange
from shardbatch.sources.kinesis.hash_space import HASH_KEYS, hash_key

MAGIC = b"\xf3\x89\x9a\xc2"
DIGEST_SIZE = 16
#: Characters of a partition key, at most (Kinesis API reference, PutRecord). A message names each of its keys once and
#: its records by number, so that a longer key would make gigabytes of a few hundred kilobytes.
LONGEST_KEY = 256


def _message_class() -> Any:
    """The message's class. Its pool is its own, since a process may hold another library's definition of it; texts are
    declared as bytes, which is the same on the wire, so that only this module decides what a wrong text means."""
    of = FieldDescriptorProto
    file = FileDescriptorProto(name="aggregated_record.proto", syntax="proto2")
    record = file.message_type.add(name="Record").field
    record.add(name="partition_key_index", number=1, type=of.TYPE_UINT64, label=of.LABEL_REQUIRED)
    record.add(name="explicit_hash_key_index", number=2, type=of.TYPE_UINT64, label=of.LABEL_OPTIONAL)
    record.add(name="data", number=3, type=of.TYPE_BYTES, label=of.LABEL_REQUIRED)
    aggregate = file.message_type.add(name="AggregatedRecord").field
    aggregate.add(name="partition_key_table", number=1, type=of.TYPE_BYTES, label=of.LABEL_REPEATED)
    aggregate.add(name="explicit_hash_key_table", number=2, type=of.TYPE_BYTES, label=of.LABEL_REPEATED)
    aggregate.add(name="records", number=3, type=of.TYPE_MESSAGE, type_name="Record", label=of.LABEL_REPEATED)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("AggregatedRecord"))


AggregatedRecord = _message_class()


@dataclass(frozen=True)
class Aggregate:
    """The records of an aggregate, in order, at least one.

    ``hash_keys`` has the explicit hash key of each that has one; it is empty where none has.
    """

    partition_keys: list[str]
    data: list[bytes]
    hash_keys: list[bytes | None]

    def __len__(self) -> int:
        return len(self.data)

    def outside(self, span: KeyRange | None) -> list[bool]:
        """For each record, whether its hash key is outside of this range; empty if all are inside.

        A range that is not known leaves out nothing.
        """
        if span is None or span == HASH_KEYS:
            return []
        by_key = {key: hash_key(key) not in span for key in set(self.partition_keys)}
        found = [by_key[key] for key in self.partition_keys]
        for at, text in enumerate(self.hash_keys):
            if text is not None:
                # The largest hash key has 39 digits; a text that is not a number is in no range.
                found[at] = not (text.isdigit() and len(text) <= 39 and int(text) in span)
        return found if any(found) else []


def look_aggregated(data: pa.Array) -> pa.Array:
    """For each of these payloads, whether it begins as an aggregate does."""
    return pc.starts_with(data, pattern=MAGIC)


def take_apart(payload: bytes) -> Aggregate | None:
    """The records of an aggregate; ``None`` if it is not one, is damaged (K-42), or has keys that no record may have.

    The answer depends on the bytes alone, for positions count the records that it has.
    """
    if not payload.startswith(MAGIC) or len(payload) <= len(MAGIC) + DIGEST_SIZE:
        return None
    body, digest = payload[len(MAGIC) : -DIGEST_SIZE], payload[-DIGEST_SIZE:]
    if hashlib.md5(body, usedforsecurity=False).digest() != digest:
        return None
    try:
        message = AggregatedRecord.FromString(body)
        if not message.records or not message.IsInitialized():
            return None
        keys = [key.decode() for key in message.partition_key_table]
        if any(len(key) > LONGEST_KEY for key in keys):
            return None
        partition_keys = [keys[record.partition_key_index] for record in message.records]
        return Aggregate(partition_keys, [record.data for record in message.records], _hash_keys(message))
    except (DecodeError, UnicodeDecodeError, IndexError):
        return None


def _hash_keys(message: Any) -> list[bytes | None]:
    table = list(message.explicit_hash_key_table)
    if not table:
        return []
    named = "explicit_hash_key_index"
    return [table[record.explicit_hash_key_index] if record.HasField(named) else None for record in message.records]
