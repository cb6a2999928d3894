# SPDX-License-Identifier: Apache-2.0
"""Where things stand, and how places are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.landing import layout
from shardbatch.landing.location import Location, joined, locate, rewritten
from tests.support.markers import highest_markers

ORDERS = Namespace("orders-etl", "orders")


def test_ordinary_names_stand_in_paths_as_they_are() -> None:
    folder = layout.slice_folder(ORDERS, "shardId-000000000001", after("495"), 41, "u1")

    assert folder == "orders-etl/orders/slices/shardId-000000000001/495-t41-u1"
    assert layout.manifest_path(ORDERS, "b-1") == "orders-etl/orders/batches/b-1/manifest.json"
    assert layout.attempt_path(ORDERS, "b-1", 3) == "orders-etl/orders/batches/b-1/attempts/3"


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_text_has_a_safe_name_of_its_own(one: str, two: str) -> None:
    try:
        names = layout.quoted(one), layout.quoted(two)
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no text
    assert (names[0] == names[1]) == (one == two)
    for name in names:
        assert name.isascii()
        assert not set(name) & set("/\\:*?[]{}%= \n")
        assert not name.startswith((".", "_"))


@pytest.mark.parametrize("position", [TRIM_HORIZON, LATEST, SHARD_END, after("12", 3), after("12"), at_timestamp(5)])
def test_every_position_is_a_safe_part_of_a_name(position: object) -> None:
    name = layout.place(position)  # type: ignore[arg-type]

    assert name
    assert not set(name) & set("/:")


def test_of_the_markers_of_a_batch_the_highest_number_counts() -> None:
    names = [
        "b.1.json",
        "b.10.json",
        "b.9.json",
        "c.d.2.json",
        ".b.99.json.ab12.tmp",
        ".b.77.json",
        "_SUCCESS",
        "b.x.json",
    ]

    assert highest_markers(names) == {"b": (10, "b.10.json"), "c.d": (2, "c.d.2.json")}
    assert highest_markers([layout.marker_name("b", 12)]) == {"b": (12, "b.12.json")}


@pytest.mark.parametrize("scheme", ["s3://lake/staging", "s3a://lake/staging", "file:///staging", "/staging"])
def test_the_staging_folder_is_found_from_the_manifest(scheme: str) -> None:
    uri = joined(scheme, layout.manifest_path(ORDERS, "b-1"))

    assert layout.staging_of(uri, ORDERS, "b-1") == scheme
    assert layout.staging_of(uri, ORDERS, "b-2") is None
    assert layout.staging_of("/elsewhere/manifest.json", ORDERS, "b-1") is None


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3://lake/out", Location("s3", "lake/out")),
        ("s3a://lake/out/", Location("s3", "lake/out")),
        ("S3N://lake/out", Location("s3", "lake/out")),
        ("/data/out", Location("file", "/data/out")),
        ("file:/data/out", Location("file", "/data/out")),
        ("file:///data/out/", Location("file", "/data/out")),
        ("file://localhost/data/out", Location("file", "/data/out")),
        ("file:///data/a%20b", Location("file", "/data/a%20b")),
        ("gs://lake/out", Location("gs", "lake/out")),
        ("abfss://box@account.dfs.core.windows.net/out", Location("abfs", "box/out")),
        ("hdfs://nn:8020/data/out", Location("hdfs", "/data/out")),
        ("/", Location("file", "/")),
    ],
)
def test_one_place_has_several_spellings(text: str, location: Location) -> None:
    assert locate(text) == location


def test_a_uri_is_written_for_a_cluster_that_knows_another_scheme() -> None:
    assert rewritten("s3://lake/x", {"s3": "s3a"}) == "s3a://lake/x"
    assert rewritten("s3a://lake/x", {"s3": "s3a"}) == "s3a://lake/x"
    assert rewritten("/plain", {"s3": "s3a"}) == "/plain"


def test_a_work_has_a_folder_however_long_its_name() -> None:
    long = "ü" * 250
    names = {layout.work_folder(name) for name in ("load", "load[0]", "", "~", long, long + "[1]", long + "[2]")}
    assert len(names) == 7
    assert all(len(name) < 200 and "/" not in name and not name.startswith(("_", ".")) for name in names)
