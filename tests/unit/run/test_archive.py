# SPDX-License-Identifier: Apache-2.0
"""What the live application has of an interval: its rows, its manifests, and what a clean-up takes away meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardbatch.core.archive_plan import Copy, Over
from shardbatch.core.interval import Interval
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.errors import GapFound, ManifestChanged, StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.run import claim, freeze, land
from shardbatch.run.archive import Archive
from shardbatch.run.archived_source import ArchivedSource, with_archive
from tests.support.aged import HOUR, backfill, pass_time, put
from tests.support.clean_rig import clean
from tests.support.rig import Rig

RECORD = Policies(gap=GapPolicy.RECORD)


class Told:
    """Runs every twelve hours: when each one's records arrived, and which they were."""

    def __init__(self, folder: Path) -> None:
        self.rig = Rig(folder / "staging")
        self.rig.run("first")
        self.when: list[int] = []
        self.sent: list[list[str]] = []
        self.batches: list[str] = []
        for number in range(9):
            pass_time(self.rig, 12)
            self.when.append(self.rig.time.ms)
            self.sent.append(put(self.rig, "a", "b"))
            self.batches.append(str(self.rig.run(f"live-{number}").batch_id))

    def span(self, first: int, last: int) -> Interval:
        return Interval(self.when[first] - HOUR, self.when[last] + HOUR)

    def archive(self, span: Interval, **changes: Any) -> Archive:
        source = with_archive(self.rig.consumer(scope="side", interval=span, **changes)).source
        assert isinstance(source, ArchivedSource)
        return source.archive


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


class Watched(StagingArea):
    """A staging area that says which manifests are read, and lets something happen before a file is."""

    def __init__(self, uri: str, before: Callable[[LandedFile], None] = lambda file: None) -> None:
        super().__init__(uri)
        self.manifests: list[str] = []
        self._before = before

    def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        self.manifests += batch_ids
        return super().read_manifests(namespace, batch_ids)

    def records(self, file: LandedFile, rows: int) -> Iterator[pa.RecordBatch]:
        self._before(file)
        return super().records(file, rows)


def test_only_manifests_about_the_interval_are_read_if_they_suffice(told: Told) -> None:
    landing = Watched(str(told.rig.folder))
    span = Interval(told.when[2] - 60_000, told.when[4] + HOUR)
    archive = told.archive(span, landing=landing)
    (shard,) = told.rig.stream.shards
    pass_time(told.rig, 0.1)
    steps = archive.plan(shard, TRIM_HORIZON).steps
    assert isinstance(steps[-1], Over)
    copied = [step.archived.batch_id for step in steps if isinstance(step, Copy)]
    assert set(told.batches[2:5]) <= set(copied)
    assert len(landing.manifests) == len(set(landing.manifests)), "none is read twice"


class Halting(dict[str, "bytes | None"]):
    """Manifests of which the third is only handed out once the other reader is done, or surely waits."""

    def __init__(self, found: Mapping[str, bytes | None], done: threading.Event) -> None:
        super().__init__(found)
        self._done = done
        self._asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self._asked += 1
        if self._asked == 3:
            self._done.wait(0.5)
        return super().get(key, default)


def test_two_readers_of_one_task_never_see_half_an_archive(told: Told) -> None:
    other = threading.Event()

    class Slow(StagingArea):
        def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
            return Halting(super().read_manifests(namespace, batch_ids), other)

    (shard,) = told.rig.stream.shards
    whole = [type(step) for step in told.archive(told.span(1, 5)).plan(shard, TRIM_HORIZON).steps]
    archive = told.archive(told.span(1, 5), landing=Slow(str(told.rig.folder)))
    found: list[list[type]] = []

    def look() -> None:
        found.append([type(step) for step in archive.plan(shard, TRIM_HORIZON).steps])
        other.set()

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [whole, whole]


def retire_during(told: Told, number: int, *, once: bool = True) -> Watched:
    """A staging area in which a clean-up comes before the file of a batch is read."""
    path = told.rig.manifest(told.batches[number])["slices"][0]["files"][0]["path"]
    age = timedelta(milliseconds=told.rig.time.ms - told.when[number] - HOUR)

    def before(file: LandedFile) -> None:
        if file.path == path:
            clean(told.rig, archive_for=age)

    return Watched(str(told.rig.folder), before)


def test_a_batch_that_is_retired_while_it_is_copied_is_a_gap_and_nothing_is_frozen(told: Told) -> None:
    owner = replace(told.rig.owner("backfill"), mode="interval")
    consumer = told.rig.consumer(scope=owner.scope, interval=told.span(2, 4), landing=retire_during(told, 3))
    found = claim(consumer, owner)
    with pytest.raises(GapFound, match=f"{told.batches[3]} was retired while its slices were copied") as error:
        land(consumer, owner, found.groups[0].group, told.rig.stream.now_ms + 1)
    assert error.value.retryable
    with pytest.raises(GapFound, match=f"batch {told.batches[3]} was retired on .*archive_for"):
        land(told.rig.consumer(scope=owner.scope, interval=told.span(2, 4)), owner, "000", told.rig.stream.now_ms + 1)
    with pytest.raises(Exception, match="not read, or not to its end"):
        freeze(consumer, owner, None)


def test_under_gap_record_the_next_try_goes_on_behind_what_was_retired(told: Told) -> None:
    owner = replace(told.rig.owner("backfill"), mode="interval")
    chosen = {"scope": owner.scope, "interval": told.span(2, 5), "policies": RECORD}
    consumer = told.rig.consumer(**chosen, landing=retire_during(told, 3))
    group = claim(consumer, owner).groups[0].group
    with pytest.raises(GapFound):
        land(consumer, owner, group, told.rig.stream.now_ms + 1)
    again = told.rig.consumer(**chosen)
    land(again, owner, group, told.rig.stream.now_ms + 1)
    frozen = freeze(again, owner, None)
    assert told.rig.records(str(frozen.batch_id)) == told.sent[2] + told.sent[4] + told.sent[5]
    (gap,) = told.rig.manifest(str(frozen.batch_id))["slices"][0]["gaps"]
    assert gap["after"] == told.sent[2][-1]
    assert gap["first_available"] == told.sent[4][0]
    assert told.when[2] <= gap["from_ms"] < told.when[3] < told.when[4] <= gap["to_ms"] < told.when[5]


def test_a_file_that_is_missing_although_its_batch_is_kept_is_an_error(told: Told) -> None:
    path = told.rig.manifest(told.batches[3])["slices"][0]["files"][0]["path"]
    (told.rig.folder / path).unlink()
    with pytest.raises(StagingError, match="Could not read"):
        backfill(told.rig, told.span(2, 4))
    assert not [batch for batch in told.rig.store.list(*_batches(told)) if batch.scope]  # type: ignore[attr-defined]


def test_a_file_that_holds_other_records_than_its_slice_says_is_an_error(told: Told) -> None:
    files = [told.rig.folder / told.rig.manifest(b)["slices"][0]["files"][0]["path"] for b in told.batches[2:4]]
    put(told.rig, "c")
    short = told.rig.folder / told.rig.manifest(str(told.rig.run("one").batch_id))["slices"][0]["files"][0]["path"]
    files[1].write_bytes(short.read_bytes())
    with pytest.raises(StagingError, match="holds 1 records, not 2"):
        backfill(told.rig, told.span(2, 4))


def test_a_manifest_that_was_edited_is_refused_and_a_missing_one_is_an_error(told: Told) -> None:
    document = told.rig.folder / "etl" / "orders" / "batches" / told.batches[3] / "manifest.json"
    content = document.read_bytes()
    document.write_bytes(content + b" ")
    with pytest.raises(ManifestChanged, match=told.batches[3]):
        backfill(told.rig, told.span(2, 4), "edited")
    document.unlink()
    with pytest.raises(StagingError, match=f"manifest of batch {told.batches[3]}.* is not in staging"):
        backfill(told.rig, told.span(2, 4), "missing")
    document.write_bytes(content)
    assert backfill(told.rig, told.span(2, 4), "mended") == told.sent[2] + told.sent[3] + told.sent[4]


def test_clean_up_never_takes_what_an_interval_run_has_copied(told: Told) -> None:
    owner = replace(told.rig.owner("backfill"), mode="interval")
    consumer = told.rig.consumer(scope=owner.scope, interval=told.span(2, 4))
    group = claim(consumer, owner).groups[0].group
    land(consumer, owner, group, told.rig.stream.now_ms + 1)
    pass_time(told.rig, 24 * 10)
    clean(told.rig, archive_for=timedelta(0))
    frozen = freeze(consumer, owner, None)
    assert told.rig.records(str(frozen.batch_id)) == told.sent[2] + told.sent[3] + told.sent[4]


def test_two_runs_over_one_interval_copy_the_same(told: Told) -> None:
    first, second = backfill(told.rig, told.span(2, 4), "one"), backfill(told.rig, told.span(2, 4), "two")
    assert first == second == told.sent[2] + told.sent[3] + told.sent[4]
    assert told.rig.committed() == [place for sent in told.sent for place in sent], "live batches are as they were"


def _batches(told: Told) -> Any:
    from shardbatch.core.rows import BATCH

    return BATCH, told.rig.namespace, None
