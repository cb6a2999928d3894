# SPDX-License-Identifier: Apache-2.0
"""Which slice folders can never be used any more, by the lease rows and what live batches name (PROTOCOL A)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core.cleaning import SliceFolder, unused
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile, Slice

FOLDER = SliceFolder("slices/s-1/5-t7-x", "s-1", after("5"), tenure=7)
HELD = Lease(Namespace("etl", "orders"), "", "s-1", "me", 9, after("5"), tenure=7)
LANDED = Slice("s-1", after("5"), after("6"), ended=False, files=(LandedFile(f"{FOLDER.path}/0.parquet", 1, 1),))
ELSEWHERE = replace(LANDED, files=(LandedFile("slices/s-1/5-t7-y/0.parquet", 1, 1),))


@pytest.mark.parametrize(
    ("lease", "goes"),
    [
        (HELD, False),
        (replace(HELD, lease_owner=None), True),
        (replace(HELD, tenure=8), True),
        (replace(HELD, shard_id="s-2"), True),
        (replace(HELD, pending=LANDED), False),
        (replace(HELD, pending=ELSEWHERE), True),
        (replace(HELD, pending=ELSEWHERE, scope="backfill"), False),
        (replace(HELD, pending=replace(ELSEWHERE, ended=True), scope="backfill"), True),
    ],
    ids=[
        "its read is at work", "given back", "taken again", "another shard", "landed", "another try landed",
        "an interval reads on", "an interval has ended",
    ],
)  # fmt: skip
def test_a_folder_goes_once_no_read_can_store_it(lease: Lease, goes: bool) -> None:
    assert unused([FOLDER], [lease], []) == ([FOLDER] if goes else [])


def test_what_a_live_batch_names_stays() -> None:
    assert unused([FOLDER], [], [f"{FOLDER.path}/0.parquet"]) == []


@pytest.mark.parametrize(
    ("lease", "goes"),
    [(replace(HELD, checkpoint=after("6")), True), (HELD, False), (replace(HELD, checkpoint=TRIM_HORIZON), False)],
    ids=["passed", "stands there", "may come there"],
)
@pytest.mark.parametrize("tenure", [None, 0])
def test_a_folder_of_version_0_1_0_goes_once_the_checkpoint_has_passed_it(
    tenure: int | None, lease: Lease, goes: bool
) -> None:
    """A tenure of zero is of a lease that a worker took that knows none, and so may come back."""
    lease, old = replace(lease, lease_owner=None, tenure=0), replace(FOLDER, tenure=tenure)
    assert unused([old], [lease], []) == ([old] if goes else [])
