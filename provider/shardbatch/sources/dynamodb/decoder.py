# SPDX-License-Identifier: Apache-2.0
"""From the body of a GetRecords answer to Arrow columns; the one place that knows the shape of a change.

An item stays in DynamoDB's own JSON, where a number is a text and bytes are base64: so nothing of it is lost. Its text
is cut out of the answer, which costs a tenth of taking the item apart and writing it anew.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from shardbatch.errors import InvalidAnswer
from shardbatch.sources.aws.calls import unreadable
from shardbatch.sources.records import SCHEMA, batch_of, times_of

Json = dict[str, Any]
ABSENT = msgspec.Raw(b"null")
ATTRIBUTES = pa.field("attributes", pa.map_(pa.string(), pa.string()))
CHANGES = SCHEMA.append(ATTRIBUTES)


@dataclass(frozen=True)
class Decoded:
    """One answer of GetRecords; ``next_iterator`` is ``None`` at the end of a shard."""

    records: pa.RecordBatch
    next_iterator: str | None


class _Change(msgspec.Struct, gc=False):
    SequenceNumber: str
    Keys: Json
    NewImage: msgspec.Raw = ABSENT
    OldImage: msgspec.Raw = ABSENT
    ApproximateCreationDateTime: float | None = None
    SizeBytes: int | None = None
    StreamViewType: str | None = None


class _Record(msgspec.Struct, gc=False):
    dynamodb: _Change
    eventName: str | None = None
    eventID: str | None = None
    eventVersion: str | None = None
    userIdentity: Json | None = None


class _Answer(msgspec.Struct, gc=False):
    Records: list[_Record]
    NextShardIterator: str | None = None


_parse = msgspec.json.Decoder(_Answer).decode
_parse_item = msgspec.json.Decoder(Json | None).decode
_write = msgspec.json.Encoder().encode
_write_sorted = msgspec.json.Encoder(order="sorted").encode


def empty() -> pa.RecordBatch:
    """No records, with all columns."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in CHANGES], schema=CHANGES)


def decode(body: bytes) -> Decoded:
    """The answer that a body holds.

    :raises InvalidAnswer: if it cannot be parsed.
    """
    try:
        body.decode()  # the parser does not look at the characters of what is cut out
        return _columns(_parse(msgspec.json.format(body, indent=-1)))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise unreadable("A GetRecords answer", body, error) from error


def adapt(response: Mapping[str, Any]) -> Decoded:
    """The answer that botocore has parsed, for versions of it that do not show the body.

    :raises InvalidAnswer: if it lacks its records, as botocore makes of a body that was cut short, or they lack what
        every change has.
    """
    if "Records" not in response:
        raise InvalidAnswer("A GetRecords answer lacks its records.")
    try:
        return _columns(_parse(_write({name: _unparsed(response.get(name)) for name in _Answer.__struct_fields__})))
    except msgspec.MsgspecError as error:
        raise InvalidAnswer(f"A GetRecords answer is not whole: {error}.") from error


def _unparsed(value: Any) -> Any:
    """Values as the service writes them: botocore has decoded bytes and times."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {name: _unparsed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_unparsed(item) for item in value]
    return value.timestamp() if hasattr(value, "timestamp") else value


def _columns(answer: _Answer) -> Decoded:
    changes = [record.dynamodb for record in answer.Records]
    plain = batch_of(
        [change.SequenceNumber for change in changes],
        [_write_sorted(change.Keys).decode() for change in changes],
        times_of([change.ApproximateCreationDateTime for change in changes]),
        [_images(change) for change in changes],
    )
    columns = [*plain.columns, _attributes(answer.Records)]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=CHANGES), answer.NextShardIterator or None)


def _images(change: _Change) -> bytes:
    """The parts of a change that it has, as compact JSON."""
    parts = [b'{"Keys":', _write(change.Keys)]
    for name, image in ((b',"NewImage":', change.NewImage), (b',"OldImage":', change.OldImage)):
        text = _compact(image)
        if text is not None:
            parts += (name, text)
    return b"".join((*parts, b"}"))


def _compact(image: msgspec.Raw) -> bytes | None:
    """The text of an image; ``None`` if there is none.

    :raises msgspec.MsgspecError: if it is not an item.
    """
    text = bytes(image)
    if text[:1] == b"{" and b"\\" not in text:
        return text
    item = _parse_item(text)  # characters are escaped in one way only, whatever the service does
    return None if item is None else _write(item)


def _attributes(records: Sequence[_Record]) -> pa.Array:
    offsets, names, values = [0], [], []
    for record in records:
        change = record.dynamodb
        for name, value in (
            ("event_name", record.eventName),
            ("event_id", record.eventID),
            ("event_version", record.eventVersion),
            ("size_bytes", None if change.SizeBytes is None else str(change.SizeBytes)),
            ("stream_view_type", change.StreamViewType),
            ("user_identity", None if record.userIdentity is None else _write(record.userIdentity).decode()),
        ):
            if value is not None:
                names.append(name)
                values.append(value)
        offsets.append(len(names))
    texts = [pa.array(names, pa.string()), pa.array(values, pa.string())]
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), *texts)
