# SPDX-License-Identifier: Apache-2.0
"""Changes of a DynamoDB stream in Spark: typed images, rejects, the last image of each item."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from shardbatch.errors import ConfigurationError
from shardbatch.spark import open_batch
from shardbatch.spark.dynamodb import changes, latest_images
from tests.support.dynamodb_records import TTL, Change, freeze_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shardbatch.landing.area import StagingArea
    from shardbatch.spark import SparkBatch

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ORDER = """id STRING, amount DECIMAL(12, 2), pieces INT, paid BOOLEAN, photo BINARY, tags ARRAY<STRING>,
    prices ARRAY<DECIMAL(5, 2)>, address STRUCT<street: STRING, zip: INT>, seen MAP<STRING, BIGINT>"""
IMAGE = {
    "id": {"S": "1"},
    "amount": {"N": "12345.5"},
    "pieces": {"N": "7"},
    "paid": {"BOOL": True},
    "photo": {"B": "AQI="},
    "tags": {"SS": ["b", "", "a"]},
    "prices": {"NS": ["10", "9.5"]},
    "address": {"M": {"street": {"S": "Straße"}, "zip": {"NULL": True}, "floor": {"N": "3"}}},
    "seen": {"M": {"x": {"N": "1"}}},
    "unknown": {"L": [{"S": "passed over"}]},
}


@pytest.fixture
def batch_of(spark: SparkSession, area: StagingArea) -> Any:
    def made(*records: Change, **more: Any) -> SparkBatch:
        return open_batch(spark, freeze_changes(area, {"s-0": records}, **more).uri, 1)

    return made


def test_a_change_has_typed_keys_and_images(batch_of: Any) -> None:
    batch = batch_of(
        Change(10, 100, new=IMAGE),
        Change(11, 101, new=IMAGE, old={"id": {"S": "1"}}),
        Change(12, 102, old=IMAGE, identity=TTL),
    )
    frame = changes(batch, ORDER).frame

    struct = "struct<id:string,amount:decimal(12,2),pieces:int,paid:boolean,photo:binary,tags:array<string>"
    struct += ",prices:array<decimal(5,2)>,address:struct<street:string,zip:int>,seen:map<string,bigint>>"
    assert frame.dtypes == [
        ("event_name", "string"),
        *((name, struct) for name in ("keys", "new", "old")),
        ("created_at", "timestamp"),
        ("version", "string"),
        ("sequence_number", "string"),
        ("shard_id", "string"),
        ("shard_generation", "int"),
        ("record_index", "bigint"),
        ("partition_key", "string"),
        ("event_id", "string"),
        ("user_identity", "string"),
        ("expired", "boolean"),
    ]
    inserted, modified, removed = frame.orderBy("record_index").collect()
    assert [row.event_name for row in (inserted, modified, removed)] == ["INSERT", "MODIFY", "REMOVE"]
    assert (inserted.keys.id, inserted.keys.amount, inserted.old) == ("1", None, None)
    new = inserted.new
    assert (new.amount, new.pieces, new.paid, bytes(new.photo)) == (Decimal("12345.50"), 7, True, b"\1\2")
    assert (new.tags, new.prices) == (["", "a", "b"], [Decimal("9.50"), Decimal("10.00")])
    assert (new.address.street, new.address.zip, new.seen) == ("Straße", None, {"x": 1})
    assert (modified.old.id, modified.old.tags) == ("1", None)
    assert (removed.new, removed.old, removed.expired, inserted.expired) == (None, new, True, False)
    assert inserted.created_at.astimezone(UTC) == datetime(1970, 1, 1, 0, 1, 40, tzinfo=UTC)
    assert (inserted.partition_key, inserted.event_id, inserted.shard_id) == ('{"id":{"S":"1"}}', "e-10", "s-0")


PRICES = (
    "id STRING, price DECIMAL(5, 2), lines ARRAY<STRUCT<n: INT, of: MAP<STRING, ARRAY<BIGINT>>>>, set ARRAY<BINARY>"
)
GOOD = {"id": {"S": "good"}, "price": {"N": "1.50"}}


def misfit(**attributes: Any) -> dict[str, Any]:
    return {"id": {"S": "bad"}, **attributes}


MISFITS = [
    ({"price": {"N": "1.505"}}, "new.price", "does not fit DECIMAL(5,2) without loss"),
    ({"price": {"N": "1000"}}, "new.price", "does not fit DECIMAL(5,2) without loss"),
    ({"price": {"S": "1.50"}}, "new.price", "is not of the kind N, which DECIMAL(5,2) takes"),
    ({"lines": {"L": [{"M": {}}, {"M": {"n": {"N": "0.5"}}}]}}, "new.lines[1].n", "does not fit INT without loss"),
    (
        {"lines": {"L": [{"M": {"of": {"M": {"x y": {"NS": ["1", "1E19"]}}}}}]}},
        "new.lines[0].of.x y[]",
        "does not fit BIGINT without loss",
    ),
    ({"set": {"BS": ["AQI=", "A!"]}}, "new.set[]", "does not fit BINARY without loss"),
    ({"set": {"SS": ["AQI="]}}, "new.set", "is not of the kind L or BS, which ARRAY<BINARY> takes"),
]


def test_what_does_not_fit_goes_apart_with_its_path_and_fails_the_frame(batch_of: Any) -> None:
    bad = [Change(11 + n, new=misfit(**attributes)) for n, (attributes, _, _) in enumerate(MISFITS)]
    batch = batch_of(Change(10, new=GOOD), *bad, Change(99, old=GOOD))
    changed = changes(batch, PRICES)

    fitting, rejects = changed.apart()

    assert [row.sequence_number for row in fitting.orderBy("record_index").collect()] == ["10", "99"]
    assert rejects.columns == [*batch.records().columns, "version", "path", "reason"]
    rows = rejects.orderBy("record_index").collect()
    assert [row.version for row in rows] == [f"2026-01-01T00:00:00.000/{11 + n:040}" for n in range(len(bad))]
    assert [(row.path, row.reason) for row in rows] == [(path, reason) for _, path, reason in MISFITS]
    records = batch.records().orderBy("record_index").collect()[1:-1]
    assert [row[: len(batch.records().columns)] for row in rows] == [tuple(record) for record in records]
    with pytest.raises(Exception, match="sequence number 1") as error:
        changed.frame.collect()
    assert "new.price does not fit DECIMAL(5,2) without loss. Shard s-0, sequence number 11" in str(error.value)


def test_no_condition_or_choice_of_the_author_hides_a_record_that_does_not_fit(batch_of: Any) -> None:
    batch = batch_of(Change(10, new=GOOD), Change(11, new=misfit(price={"N": "1000"})))
    frame = changes(batch, PRICES).frame

    for asked in (frame.where("new.price > 1"), frame.select("keys.id"), frame.where("new.price IS NOT NULL")):
        with pytest.raises(Exception, match="sequence number 11"):
            asked.collect()
    with pytest.raises(Exception, match="sequence number 11"):
        frame.where("event_name = 'INSERT'").count()


@pytest.mark.parametrize(
    "data", [b"not JSON", b'{"Keys":{"id":{"S":"1"}},"NewImage":{"id":', b"{}", b'{"Keys":{"id":{"NULL":1}}}']
)
def test_data_of_another_form_are_rejects(batch_of: Any, data: bytes) -> None:
    batch = batch_of(Change(10, data=data), Change(11, new=GOOD))

    fitting, rejects = changes(batch, PRICES).apart()

    (row,) = rejects.collect()
    assert (row.sequence_number, row.path, row.reason) == ("10", "data", "is not a change of a DynamoDB stream")
    assert bytes(row.data) == data
    assert fitting.count() == 1


def test_what_must_not_be_null_is_asked_of_images_and_not_of_keys(batch_of: Any) -> None:
    batch = batch_of(
        Change(10, new=GOOD), Change(11, new={"id": {"S": "1"}}), Change(12, new=misfit(price={"NULL": True}))
    )

    fitting, rejects = changes(batch, "id STRING NOT NULL, price DECIMAL(5, 2) NOT NULL").apart()

    assert [row.keys.price for row in fitting.collect()] == [None]
    missing = "is missing or NULL, and the schema says NOT NULL"
    assert [(row.path, row.reason) for row in rejects.collect()] == [("new.price", missing)] * 2


def test_a_schema_that_no_item_has_is_refused(batch_of: Any) -> None:
    batch = batch_of(Change(10, new=GOOD))
    for schema, where in (
        ("id STRING, made TIMESTAMP", r"the item\.made as TIMESTAMP"),
        ("id STRING, days ARRAY<DATE>", r"the item\.days\[\] as DATE"),
        ("id STRING, seen MAP<INT, STRING>", r"the item\.seen as MAP<INT,STRING>"),
    ):
        with pytest.raises(ConfigurationError, match=where):
            changes(batch, schema)


def test_the_last_image_of_each_item_follows_it_into_the_children_of_its_shard(
    spark: SparkSession, area: StagingArea
) -> None:
    def put(number: int, item: str, price: str | None, old: str | None = None, **more: Any) -> Change:
        key = {"id": {"S": item}}
        images = [None if p is None else {**key, "price": {"N": p}} for p in (price, old)]
        return Change(number, number, key, *images, **more)

    shards = {
        "z-parent": [put(8, "a", "1"), put(9, "b", "1"), put(10, "c", "1"), put(11, "d", "1000"), put(12, "e", "1")],
        "b-child": [put(13, "a", "2", "1"), put(14, "d", "2", "1000"), put(16, "a", "3", "2")],
        "a-child": [put(15, "b", None, "1"), put(17, "e", "1000", "1")],
    }
    parents = {"a-child": ["z-parent"], "b-child": ["z-parent"]}
    batch = open_batch(spark, freeze_changes(area, shards, parents=parents).uri, 1)

    fitting, rejects = latest_images(batch, "id STRING, price DECIMAL(5, 2)").apart()

    assert "old" not in fitting.columns
    found = {row.keys.id: (row.deleted, row.new and row.new.price, row.sequence_number) for row in fitting.collect()}
    assert found == {"a": (False, 3, "16"), "b": (True, None, "15"), "c": (False, 1, "10"), "d": (False, 2, "14")}
    assert [(row.sequence_number, row.path) for row in rejects.collect()] == [("17", "new.price")]


KEY_A, KEY_B, KEY_C = ({"id": {"S": name}} for name in "abc")


def priced(number: int, key: dict[str, Any], price: str | None, seconds: int = 0) -> Change:
    return Change(number, seconds, key, None if price is None else {**key, "price": {"N": price}}, old=key)


#: Batches in the order in which they were read: the clock runs backwards, and a number gains a digit.
HISTORY = [
    [priced(97, KEY_A, "1", 50), priced(98, KEY_B, "1", 50), priced(99, KEY_C, "1", 50)],
    [priced(100, KEY_A, "2", 40), priced(101, KEY_B, None, 40)],
    [priced(1000, KEY_C, "1000", 30)],
]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 1, 2, 0), (1, 0, 2, 1, 0)])
def test_a_table_that_takes_greater_versions_is_right_in_whatever_order_batches_come(
    spark: SparkSession, area: StagingArea, order: tuple[int, ...]
) -> None:
    table: dict[str, Any] = {}
    for at in order:
        frozen = freeze_changes(area, {f"s-{at}": HISTORY[at]}, batch_id=f"batch-{at}")
        latest, unfit = latest_images(open_batch(spark, frozen.uri, 1), "id STRING, price DECIMAL(5, 2)").apart()
        marked = latest.unionByName(unfit.select("partition_key", "version", "reason"), allowMissingColumns=True)
        for row in marked.collect():
            if row.partition_key not in table or row.version > table[row.partition_key].version:
                table[row.partition_key] = row
    assert {name: (row.deleted, row.new and row.new.price) for name, row in table.items()} == {
        '{"id":{"S":"a"}}': (False, Decimal(2)),
        '{"id":{"S":"b"}}': (True, None),
        '{"id":{"S":"c"}}': (None, None),
    }


def test_a_new_stream_of_the_table_has_greater_versions(spark: SparkSession, area: StagingArea) -> None:
    found = []
    for label, number in (("2026-01-01T00:00:00.000", 10**25), ("2026-01-02T00:00:00.000", 1)):
        arn = f"arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/{label}"
        frozen = freeze_changes(area, {"s-0": [priced(number, KEY_A, "1")]}, batch_id=label[:10], stream_id=arn)
        found += [row.version for row in changes(open_batch(spark, frozen.uri, 1), PRICES).frame.collect()]
    assert found == sorted(found)
    assert len(set(found)) == 2


@pytest.mark.parametrize("view", ["KEYS_ONLY", "OLD_IMAGE"])
def test_without_new_images_there_are_no_latest_ones(batch_of: Any, view: str) -> None:
    batch = batch_of(Change(10, view=view))
    assert changes(batch, PRICES).frame.select("keys.id", "new").collect() == [("1", None)]
    with pytest.raises(ConfigurationError, match=f"view {view}.*NEW_AND_OLD_IMAGES"):
        latest_images(batch, PRICES)


def test_a_change_without_the_image_that_its_view_promises_is_a_reject(batch_of: Any) -> None:
    batch = batch_of(Change(10, data=b'{"Keys":{"id":{"S":"1"}}}', new=GOOD), Change(11, key={"id": {"S": "2"}}))

    fitting, rejects = latest_images(batch, PRICES).apart()

    assert [(row.path, row.reason) for row in rejects.collect()] == [("new", "is missing")]
    assert [row.deleted for row in fitting.collect()] == [True]


def test_an_empty_batch_has_the_same_columns(spark: SparkSession, area: StagingArea) -> None:
    batch = open_batch(spark, freeze_changes(area, {}).uri, 1)
    assert changes(batch, ORDER).frame.collect() == latest_images(batch, ORDER).frame.collect() == []
    assert changes(batch, ORDER).apart().rejects.count() == 0
