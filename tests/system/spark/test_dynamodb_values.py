# SPDX-License-Identifier: Apache-2.0
"""Spark converts attribute values as a slow conversion in plain Python does, for random schemas and items."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from shardbatch.landing.area import StagingArea
from shardbatch.spark import open_batch
from shardbatch.spark.dynamodb import changes
from tests.support.attribute_values import TYPES, Misfit, images, item, structs
from tests.support.dynamodb_records import Change, freeze_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

Rejected = tuple[str, str]


@st.composite
def cases(draw: st.DrawFn) -> tuple[T.StructType, list[dict[str, Any]]]:
    """A schema, and images of items."""
    schema = draw(structs(TYPES))
    return schema, draw(st.lists(images(schema), min_size=20, max_size=60))


def plain(value: Any) -> Any:
    """A value of Spark as plain Python has it."""
    if isinstance(value, T.Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def right(schema: T.StructType, image: dict[str, Any], name: str) -> Any:
    try:
        return item(image, schema, name)
    except Misfit as misfit:
        return str(misfit)


def test_native_conversion_is_the_plain_one(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = {"fitting": 0, "rejected": 0}

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def holds(case: tuple[T.StructType, list[dict[str, Any]]]) -> None:
        schema, made = case
        area = StagingArea(str(tmp_path_factory.mktemp("area")))
        records = [Change(n, new=image) if n % 2 else Change(n, old=image) for n, image in enumerate(made)]
        batch = open_batch(spark, freeze_changes(area, {"s-0": records}).uri, 1)

        fitting, rejects = changes(batch, schema).apart()
        assert fitting.schema["new"].dataType.simpleString() == schema.simpleString()
        found = {int(row.sequence_number): plain(row.new or row.old) for row in fitting.collect()}
        found |= {int(row.sequence_number): row.path for row in rejects.collect()}

        wanted = {n: right(schema, image, "new" if n % 2 else "old") for n, image in enumerate(made)}
        assert found == wanted
        rejected = sum(isinstance(value, str) for value in wanted.values())
        seen["rejected"] += rejected
        seen["fitting"] += len(wanted) - rejected

    holds()
    assert min(seen.values()) > 20  # of 240 and more


NUMBERS = [
    *("0", "-0", "0.000", "0E-5", "1", "-1", "1.0", "1.00", "1E0", "10E-1", "1.50", "127", "128", "-128", "-129"),
    *("32767", "32768", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "1E18", "1E19", "1E37", "1E38", "9.99E125", "-9.99E+125"),
    *("1E-130", "-1E-130", "1e-2", "1E-2", "0.01", "0.010", "0.001", "0.0049999", "0.005", "100E-2", "12300E-4"),
    "12345678901234567890123456789012345678",
    "0.12345678901234567890123456789012345678",
    "-99999999999999999999999999999999999999",
    "1234567890123456789.0123456789012345678",
    "123456789012345678.90123456789012345678E18",
]


def test_numbers_of_all_forms_fit_without_loss_or_not_at_all(spark: SparkSession, tmp_path_factory: Any) -> None:
    types = [T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.DecimalType(38, 0)]
    types += [T.DecimalType(38, 38), T.DecimalType(38, 19), T.DecimalType(5, 2), T.DecimalType(2, 2)]
    area = StagingArea(str(tmp_path_factory.mktemp("area")))
    key = {"id": {"S": "1"}}
    records = [
        Change(n, new={**key, f"t{m}": {"N": text}}) for n, text in enumerate(NUMBERS) for m in range(len(types))
    ]
    records = [Change(n, new=change.new) for n, change in enumerate(records)]
    schema = T.StructType([T.StructField(f"t{m}", kind) for m, kind in enumerate(types)])
    batch = open_batch(spark, freeze_changes(area, {"s-0": records}).uri, 1)

    fitting, rejects = changes(batch, schema).apart()

    found = {int(row.sequence_number): plain(row.new) for row in fitting.collect()}
    found |= {int(row.sequence_number): row.path for row in rejects.collect()}
    assert found == {n: right(schema, change.new, "new") for n, change in enumerate(records) if change.new}
    assert len([value for value in found.values() if isinstance(value, str)]) > 100


def test_floats_are_the_nearest_and_none_is_infinite(spark: SparkSession, tmp_path_factory: Any) -> None:
    area = StagingArea(str(tmp_path_factory.mktemp("area")))
    records = [Change(n, new={"f": {"N": text}}) for n, text in enumerate(["0.1", "1E39", "-1E125", "3.4E38"])]
    batch = open_batch(spark, freeze_changes(area, {"s-0": records}).uri, 1)

    fitting, rejects = changes(batch, "f FLOAT").apart()

    values = [row.new.f for row in fitting.orderBy("record_index").collect()]
    assert values == [pytest.approx(0.1, rel=1e-7), pytest.approx(3.4e38, rel=1e-7)]
    assert all(math.isfinite(value) for value in values)
    assert sorted(row.sequence_number for row in rejects.collect()) == ["1", "2"]
    assert Decimal("0.1") != Decimal(values[0])
