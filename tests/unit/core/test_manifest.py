# SPDX-License-Identifier: Apache-2.0
"""The manifest's document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shardbatch.core.manifest import MANIFEST_VERSION, Manifest, ShardSlice, digest, plain, slice_in, totals_of
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.slice import Gap, LandedFile, Oddities, Slice
from shardbatch.errors import StagingError, UnsupportedSchema


def manifest(count: int = 3) -> Manifest:
    slices = tuple(
        ShardSlice(
            Slice(
                shard_id=f"shard-{n}",
                after=TRIM_HORIZON,
                until=SHARD_END if n == 0 else after(str(10**30 + n), 2),
                ended=n == 0,
                files=(LandedFile(f"a/s/slices/shard-{n}/x/part-00000.parquet", 10, 100),),
                records=10,
                raw_bytes=70,
                children=("shard-1", "shard-2") if n == 0 else (),
                gaps=(Gap(TRIM_HORIZON, "9", reason="trimmed"), Gap(after("12"), until=after("13"))) if n == 2 else (),
                oddities=Oddities(foreign=n, broken=2 * n, dropped=3 * n),
            ),
            shard_generation=min(n, 1),
        )
        for n in range(count)
    )
    return Manifest(
        "b-1", "etl", "orders", "arn:1", "", "me", 5, "starts", "s3://lake/staging", slices, totals_of(slices)
    )


def test_a_manifest_reads_back_as_it_was_and_its_bytes_are_always_the_same() -> None:
    content = manifest().dumps()

    assert Manifest.loads(content) == manifest()
    assert Manifest.loads(content).dumps() == content
    assert digest(content) == digest(manifest().dumps())
    assert len(digest(content)) == 64


def test_totals_count_records_bytes_gaps_and_what_was_odd() -> None:
    totals = manifest().totals

    assert (totals.records, totals.bytes, totals.gaps) == (30, 210, 2)
    assert totals.oddities == Oddities(foreign=3, broken=6, dropped=9)


def test_a_manifest_of_before_has_nothing_odd() -> None:
    value = json.loads(manifest().dumps())
    for name in ("foreign", "broken", "dropped"):
        del value["totals"][name]
    for entry in value["slices"]:
        del entry["oddities"]
    found = Manifest.loads(json.dumps(value).encode())

    assert found.totals.oddities == Oddities()
    assert [entry.slice.oddities for entry in found.slices] == [Oddities()] * 3


def test_files_are_told_by_generation() -> None:
    found = manifest().files_by_generation()

    assert {generation: len(files) for generation, files in found.items()} == {0: 1, 1: 2}
    assert sum(len(files) for files in found.values()) == len(manifest().files)


def test_fields_of_a_later_minor_version_are_passed_over() -> None:
    value = json.loads(manifest().dumps())
    value.update(schema_version="1.7", colour="blue")
    value["slices"][0].update(colour="blue")
    value["slices"][0]["files"][0].update(colour="blue")
    value["totals"].update(colour="blue")

    assert Manifest.loads(json.dumps(value).encode()).slices == manifest().slices


def test_another_major_version_is_refused_by_name() -> None:
    content = manifest().dumps().replace(b'"schema_version":"1.1"', b'"schema_version":"2.0"')

    with pytest.raises(UnsupportedSchema, match=f"version 2.0, this shardbatch reads {MANIFEST_VERSION}"):
        Manifest.loads(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"PAR1\xff",
        b'{"schema_version":"1.0"}',
        b'{"schema_version":"1.0","slices":[{}]}',
    ],
)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(StagingError, match="not a manifest"):
        Manifest.loads(content)


def test_five_thousand_shards_stay_a_small_document() -> None:
    # R94: the document carries what an XCom must not.
    content = manifest(5_000).dumps()

    assert len(content) < 4 << 20
    assert len(Manifest.loads(content).files) == 5_000


def test_the_slice_of_one_shard_is_found_without_the_others() -> None:
    made = manifest(12)
    content = made.dumps()
    for entry in made.slices:
        assert slice_in(content, entry.slice.shard_id) == entry.slice
    assert slice_in(content, "shard-") is None
    assert slice_in(content, "shard-12") is None
    assert slice_in(manifest(1).dumps(), "shard-1") is None  # named as a child only


def test_a_shard_whose_id_needs_quotes_is_found_too() -> None:
    odd = Slice('sh"ard-é', TRIM_HORIZON, after("9"), ended=False, gaps=(Gap(TRIM_HORIZON, reason='{"after":"x"}'),))
    content = replace(manifest(2), slices=(*manifest(2).slices, ShardSlice(odd))).dumps()
    assert slice_in(content, odd.shard_id) == odd


def test_as_plain_json_it_is_the_same_document() -> None:
    assert plain(manifest().dumps()) == manifest().to_json()
    with pytest.raises(UnsupportedSchema):
        plain(manifest().dumps().replace(b'"schema_version":"1.1"', b'"schema_version":"2.0"'))
    with pytest.raises(StagingError, match="not a manifest"):
        plain(b"[]")
