# SPDX-License-Identifier: Apache-2.0
"""What OpenLineage is told: datasets under their usual names, and a facet of bounded size with the ranges of shards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from openlineage.client.serde import Serde

from shardbatch import KinesisStream, SQLLeases, Staging
from shardbatch.assets import committed_batches
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import Slice
from shardbatch.hooks.names import SCHEME
from shardbatch.stores.sql import SQLStore
from shardbatch.tasks import lineage
from shardbatch.tasks.application import ApplicationSpec
from shardbatch.tasks.lineage import FACET, NAMED_SHARDS, content_of, folder_names, staging_names, stream_names
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

STREAM, ASSET = ("arn:aws:kinesis:eu-west-1:1234", "orders"), ("x-shardbatch://etl", "orders")


class Named(ScriptedStream):
    def identity(self) -> str:
        return "arn:aws:kinesis:eu-west-1:1234:stream/orders@1767323045678"


@pytest.fixture
def rig(connection: Callable[..., None], tmp_path: Path) -> Iterator[Rig]:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    store = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    store.prepare()
    yield Rig(tmp_path / "staging", stream=Named(shards=2), store=store)
    store.close()


@pytest.fixture
def spec(rig: Rig) -> ApplicationSpec:
    return ApplicationSpec("etl", KinesisStream("orders"), SQLLeases("leases_db"), Staging(str(rig.folder)))


def plain(datasets: list[Any]) -> dict[tuple[str, str], Any]:
    """The datasets as they are sent, by their names, with our facet."""
    found = [json.loads(Serde.to_json(one)) for one in datasets]
    return {(one["namespace"], one["name"]): one["facets"][FACET] for one in found}


def test_read_work_and_commit_are_a_chain_from_the_stream_to_what_readers_see(rig: Rig, spec: ApplicationSpec) -> None:
    names = sorted(rig.stream.shards)
    sent = {name: rig.stream.put("a", "b", "c", shard_id=name) for name in names}
    landed = [one for task in rig.land("r1", rig.claim("r1")) for one in task.slices]
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert frozen.batch_id is not None
    staging, out = ("file", f"{rig.folder}/etl/orders"), ("file", str(rig.folder.parent / "out"))

    read = lineage.of_read(spec, landed)
    assert (plain(read.inputs).keys(), plain(read.outputs).keys()) == ({STREAM}, {staging})
    work = lineage.of_work(spec, frozen.batch_id, [str(rig.folder.parent / "out"), f"file://{rig.folder.parent}/out/"])
    assert (plain(work.inputs).keys(), plain(work.outputs).keys()) == ({staging}, {out})
    done = lineage.of_commit(spec, "", frozen.batch_id)
    assert (plain(done.inputs).keys(), plain(done.outputs).keys()) == ({staging}, {out, ASSET})

    for datasets in (read.inputs, read.outputs, work.inputs, work.outputs, done.inputs, done.outputs):
        for facet in plain(datasets).values():
            assert (facet["shards"], facet["records"], facet["gaps"], facet["leftOut"]) == (2, 6, 0, 0)
            assert facet["ranges"] == [
                {
                    "shardId": name,
                    "after": "TRIM_HORIZON",
                    "until": str(after(sent[name][-1])),
                    "last": sent[name][-1],
                    "records": 3,
                    "gaps": 0,
                }
                for name in names
            ]
    ids = [facet.get("batchId") for found in (read, work, done) for facet in plain(found.inputs).values()]
    assert ids == [None, frozen.batch_id, frozen.batch_id]


def many(count: int) -> list[Slice]:
    one = Slice("s", TRIM_HORIZON, after("1"), ended=False, records=2, raw_bytes=20)
    return [replace(one, shard_id=f"shardId-{number:012d}", last="9" * 56) for number in reversed(range(count))]


def test_the_facet_of_thousands_of_shards_names_the_first_and_counts_all() -> None:
    content = content_of(many(5000), "b1")
    assert len(json.dumps(content)) < 40_000
    assert [entry["shardId"] for entry in content["ranges"]] == [f"shardId-{n:012d}" for n in range(NAMED_SHARDS)]
    counted = {name: content[name] for name in ("shards", "records", "bytes", "leftOut")}
    assert counted == {"shards": 5000, "records": 10_000, "bytes": 100_000, "leftOut": 5000 - NAMED_SHARDS}
    assert content_of(many(NAMED_SHARDS))["leftOut"] == 0


@pytest.mark.parametrize(
    ("identity", "names"),
    [
        ("arn:aws:kinesis:eu-west-1:1234:stream/orders@1767323045678", STREAM),
        ("arn:aws:kinesis:eu-west-1:1234:stream/orders@unknown", STREAM),
        (
            "arn:aws:dynamodb:eu-west-1:1234:table/orders/stream/2026-11-01T00:00:00.000",
            ("arn:aws:dynamodb:eu-west-1:1234", "orders"),
        ),
        ("file:/lines/orders", ("shardbatch", "orders")),
        ("", ("shardbatch", "orders")),
    ],
)
def test_a_stream_has_one_name_even_if_it_is_made_anew(identity: str, names: tuple[str, str]) -> None:
    assert stream_names(identity, "orders") == names


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("/data/out/", ("file", "/data/out")),
        ("file:///data/out", ("file", "/data/out")),
        ("s3a://lake/etl//out/", ("s3://lake", "etl/out")),
        ("s3://lake", ("s3://lake", "/")),
        ("hdfs://Name:8020/out", ("hdfs://name", "/out")),
        ("s3://key:s3cr3t@lake/out", ("s3://lake", "out")),
        ("abfss://box@account.dfs.core.windows.net/out", ("abfs://box@account", "out")),
    ],
)
def test_a_folder_has_one_name_however_it_is_written(uri: str, names: tuple[str, str]) -> None:
    assert folder_names(uri) == names


def test_two_applications_in_one_staging_folder_have_two_datasets() -> None:
    uri = "s3://lake/staging"
    assert staging_names(uri, Namespace("etl", "orders")) == ("s3://lake", "staging/etl/orders")
    assert staging_names(uri, Namespace("other", "orders")) == ("s3://lake", "staging/other/orders")


def test_our_asset_is_the_dataset_that_a_commit_writes_also_for_a_dag_that_has_it_as_an_inlet() -> None:
    from airflow.providers.openlineage.utils.utils import translate_airflow_asset

    found = translate_airflow_asset(committed_batches("e t-l", "orders"), None)
    assert found is not None
    assert (found.namespace, found.name) == ("x-shardbatch://e%20t-l", "orders")
    assert translate_airflow_asset(Asset(uri=f"{SCHEME}://etl/orders", name="x"), None) is not None


def test_nothing_of_openlineage_is_imported_until_lineage_is_asked_for() -> None:
    program = (
        "import sys, shardbatch.operators.read, shardbatch.operators.commit\n"
        "import shardbatch.tasks.lineage\n"
        "print(any(name.startswith('openlineage') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
