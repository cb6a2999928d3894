# SPDX-License-Identifier: Apache-2.0
"""From the body of a GetRecords answer to the columns of a page: nothing of an item is lost, however it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.errors import InvalidAnswer
from shardbatch.sources.dynamodb.decoder import CHANGES, adapt, decode, empty
from shardbatch.sources.records import SCHEMA

KEYS = {"id": {"S": 'é/"\n'}, "at": {"N": "-12345678901234567890.123456789012345678"}}
ITEM = {
    **KEYS,
    "empty": {"S": ""},
    "binary": {"B": "AP8="},
    "no": {"BOOL": False},
    "nothing": {"NULL": True},
    "numbers": {"NS": ["1E+126", "2.50"]},
    "binaries": {"BS": ["AA==", "/w=="]},
    "map": {"M": {"deep": {"L": [{"M": {}}, {"L": []}, {"S": "😀"}]}}},
}


def change(number: str = "9" * 21, **dynamodb: Any) -> dict[str, Any]:
    return {
        "eventID": "e1",
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_700_000_001.0,
            "Keys": KEYS,
            "SequenceNumber": number,
            "SizeBytes": 59,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            **dynamodb,
        },
    }


def body(*records: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"Records": records, **more}).encode()  # with blanks and escapes


def parsed(raw: bytes) -> Any:
    model = botocore.session.get_session().get_service_model("dynamodbstreams")
    shape = model.operation_model("GetRecords").output_shape
    return create_parser("json").parse({"body": raw, "status_code": 200, "headers": {}}, shape)


def test_a_change_becomes_a_record_with_all_its_columns() -> None:
    found = decode(body(change(NewImage=ITEM, OldImage={"id": {"S": "é"}}), NextShardIterator="on"))
    assert found.next_iterator == "on"
    assert found.records.schema == CHANGES
    (row,) = found.records.to_pylist()
    assert row["sequence_number"] == "9" * 21
    assert row["sub_sequence_number"] == 0
    assert row["arrival_time"] == datetime.fromtimestamp(1_700_000_001, UTC)
    assert row["partition_key"] == '{"at":{"N":"-12345678901234567890.123456789012345678"},"id":{"S":"é/\\"\\n"}}'
    compact = json.dumps(
        {"Keys": KEYS, "NewImage": ITEM, "OldImage": {"id": {"S": "é"}}}, separators=(",", ":"), ensure_ascii=False
    )
    assert row["data"].decode() == compact
    assert dict(row["attributes"]) == {
        "event_name": "MODIFY",
        "event_id": "e1",
        "event_version": "1.1",
        "size_bytes": "59",
        "stream_view_type": "NEW_AND_OLD_IMAGES",
    }


def test_parts_that_a_change_lacks_are_left_out() -> None:
    (row,) = decode(body(change())).records.to_pylist()
    assert json.loads(row["data"]) == {"Keys": KEYS}
    bare = {"dynamodb": {"Keys": KEYS, "SequenceNumber": "1"}}
    (row,) = decode(body(bare)).records.to_pylist()
    assert (row["arrival_time"], row["attributes"]) == (None, [])


def test_who_deleted_an_item_is_told() -> None:
    who = {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}
    (row,) = decode(body({**change(), "eventName": "REMOVE", "userIdentity": who})).records.to_pylist()
    assert json.loads(dict(row["attributes"])["user_identity"]) == who


def test_the_key_is_the_same_text_in_whatever_order_its_attributes_come() -> None:
    keys = [dict(order) for order in (KEYS.items(), reversed(list(KEYS.items())))]
    found = decode(body(*(change(Keys=key) for key in keys))).records.column("partition_key").to_pylist()
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("more", "expected"), [({}, None), ({"NextShardIterator": None}, None), ({"NextShardIterator": "on"}, "on")]
)
def test_a_null_iterator_is_none(more: dict[str, Any], expected: str | None) -> None:  # BV-10
    assert decode(body(**more)).next_iterator == expected
    assert adapt(parsed(body(**more))).next_iterator == expected


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"Records":[{}]}', b'{"Records":[{"dynamodb":{"Keys":{}}}]}', b'{"Reco'])
def test_an_answer_that_is_not_whole_is_not_believed(raw: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        decode(raw)
    if raw.endswith(b"}"):
        with pytest.raises(InvalidAnswer):
            adapt(parsed(raw))


def test_a_page_without_records_has_all_columns() -> None:
    assert empty().schema == decode(body()).records.schema == CHANGES
    assert empty().select(SCHEMA.names).schema == SCHEMA


VALUES = st.recursive(
    st.one_of(
        st.text().map(lambda text: {"S": text}),
        st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: {"N": str(number)}),
        st.just({"NULL": True}),
        st.booleans().map(lambda flag: {"BOOL": flag}),
        st.just({"B": "AP8="}),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: {"L": items}),
        st.dictionaries(st.text(max_size=3), inner, max_size=3).map(lambda items: {"M": items}),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), VALUES, max_size=4))
def test_no_item_loses_anything_whether_or_not_botocore_shows_the_body(item: dict[str, Any]) -> None:
    raw = body(change(NewImage=item, OldImage=item))
    for found in (decode(raw), adapt(parsed(raw))):
        (data,) = found.records.column("data").to_pylist()
        assert json.loads(data) == {"Keys": KEYS, "NewImage": item, "OldImage": item}
    assert decode(raw).records.equals(adapt(parsed(raw)).records)


@given(st.dictionaries(st.text(min_size=1, max_size=5), VALUES, max_size=4), st.booleans(), st.sampled_from([None, 2]))
def test_an_image_is_the_same_text_however_the_service_writes_it(
    item: dict[str, Any], escaped: bool, indent: int | None
) -> None:
    answer = {"Records": [change(NewImage=item)]}
    found = decode(json.dumps(answer, ensure_ascii=escaped, indent=indent).encode()).records.column("data").to_pylist()
    again = decode(body(change(NewImage=item))).records.column("data").to_pylist()
    assert found == again
    assert b" " not in found[0] or " " in json.dumps([KEYS, item], separators=(",", ":"))


@pytest.mark.parametrize(
    "image", [b'"text"', b"[]", b"1", b'{"a":{"S":"\xff"}}', b'{"a":{"S":"\\ud800"}}', b'{"a":tru}']
)
def test_an_image_that_is_no_item_is_not_believed(image: bytes) -> None:
    good = body(change(NewImage={"a": {"S": "b"}}))
    assert decode(good).records.num_rows == 1
    with pytest.raises(InvalidAnswer, match="cannot be parsed") as refused:
        decode(good.replace(b'{"a": {"S": "b"}}', image))
    assert "0xff" not in str(refused.value)


def test_an_image_that_is_null_is_none() -> None:
    (row,) = decode(body(change(NewImage=None, OldImage={}))).records.to_pylist()
    assert json.loads(row["data"]) == {"Keys": KEYS, "OldImage": {}}
