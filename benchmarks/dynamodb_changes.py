# SPDX-License-Identifier: Apache-2.0
"""What typed changes of a DynamoDB stream cost on Spark, beside Spark's own JSON parser and a Python function.

    python benchmarks/dynamodb_changes.py [--json] [--records 100000] [--rounds 3]

See README.md beside this file for what is measured. The last line of the output is JSON; without ``--json`` a table
for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.readers import session
from benchmarks.tables import order
from shardbatch.landing.area import StagingArea
from shardbatch.spark import open_batch
from shardbatch.spark.attribute_values import Item
from shardbatch.spark.dynamodb import changes, latest_images
from tests.support.dynamodb_records import Change, freeze_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shardbatch.spark import SparkBatch

SCHEMA = """id STRING, amount DECIMAL(12, 2), pieces INT, weight DOUBLE, paid BOOLEAN, note STRING, tags ARRAY<STRING>,
    address STRUCT<street: STRING, zip: INT>, lines ARRAY<STRUCT<sku: STRING, price: DECIMAL(12, 2)>>"""


def land(folder: Path, records: int) -> str:
    """A batch of four shards, in which each item changes four times; the manifest's URI."""
    chance, items = random.Random(7), max(1, records // 4)
    folder.mkdir()
    shards: dict[str, list[Change]] = {f"s-{n}": [] for n in range(4)}
    for number in range(records):
        item = number % items
        key = {"id": {"S": f"order-{item}"}}
        change = Change(number + 1, number, key, order(chance, item), order(chance, item))
        shards[f"s-{item % 4}"].append(change)
    return freeze_changes(StagingArea(str(folder)), shards).uri


def parsed(batch: SparkBatch) -> DataFrame:
    """What Spark's parser alone makes of the records: the members of attribute values as text, tested by nothing."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    attributes = Item(batch.spark.createDataFrame([], SCHEMA).schema, "the item").attributes()
    wire = StructType([StructField(name, attributes) for name in ("Keys", "NewImage", "OldImage")])
    return batch.records().select("sequence_number", F.from_json(F.col("data").cast("string"), wire).alias("it"))


def by_python(batch: SparkBatch) -> DataFrame:
    """The same columns by a Python function with boto3's deserializer, as jobs often do it."""
    from boto3.dynamodb.types import TypeDeserializer
    from pyspark.sql import functions as F

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return [plain(one) for one in sorted(value) if one] if isinstance(value, set) else value

    def typed(data: bytes) -> dict[str, Any]:
        deserializer, found = TypeDeserializer(), {}
        for name, attributes in json.loads(data).items():
            one = {key: plain(deserializer.deserialize(value)) for key, value in attributes.items()}
            if "weight" in one:
                one["pieces"], one["weight"] = int(one["pieces"]), float(one["weight"])
                one["address"]["zip"] = int(one["address"]["zip"])
            found[name] = one
        return found

    struct = ", ".join(f"{name}: STRUCT<{SCHEMA}>" for name in ("Keys", "NewImage", "OldImage"))
    function = F.udf(typed, f"STRUCT<{struct}>", useArrow=False)
    return batch.records().select("sequence_number", function("data").alias("it"))


def measure(spark: SparkSession, uri: str, rounds: int) -> dict[str, float]:
    """Seconds of each way, which take turns; the best round counts."""
    batch = open_batch(spark, uri, 1)
    ways: dict[str, Callable[[], DataFrame]] = {
        "records": batch.records,
        "parsed": lambda: parsed(batch),
        "changes": lambda: changes(batch, SCHEMA).frame,
        "latest": lambda: latest_images(batch, SCHEMA).frame,
        "merged": batch.merged,
        "python": lambda: by_python(batch),
    }
    best = dict.fromkeys(ways, float("inf"))
    for done in range(rounds + 1):  # the first one warms up
        for name, way in ways.items():
            began = time.monotonic()
            way().write.format("noop").mode("overwrite").save()
            if done:
                best[name] = min(best[name], time.monotonic() - began)
    return best


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shardbatch-changes-") as folder:
        uri = land(Path(folder) / "staging", given.records)
        spark = session(folder)
        try:
            best = measure(spark, uri, given.rounds)
        finally:
            spark.stop()
    if not given.json:
        print(f"{'way':>10} {'seconds':>9} {'records/s':>10} {'to parsed':>10}")
        for name, seconds in best.items():
            rate, ratio = given.records / seconds, seconds / best["parsed"]
            print(f"{name:>10} {seconds:>9.2f} {rate:>10,.0f} {ratio:>10.2f}")
    result = {f"{name}_s": round(seconds, 3) for name, seconds in best.items()}
    result["changes_to_parsed"] = round(best["changes"] / best["parsed"], 2)
    result["python_to_changes"] = round(best["python"] / best["changes"], 2)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
