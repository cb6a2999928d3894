# SPDX-License-Identifier: Apache-2.0
"""What every output root keeps to, whatever file system it lies on: looks before a decision, owners, markers."""

from __future__ import annotations

import json
import logging

import pytest

from shardbatch.core.decision import Decision
from shardbatch.errors import OutputTaken, StagingError
from shardbatch.landing import layout
from shardbatch.landing.area import StagingArea
from shardbatch.landing.location import locate
from shardbatch.landing.roots import OutputRoots
from tests.contract import landing_backends as backends
from tests.contract.landing_backends import Backend, Bucket
from tests.support.aws import AwsServer

OURS, THEIRS, THIRD = "orders-etl/orders", "orders-etl-v2/orders", "audit/orders"


@pytest.fixture(scope="module")
def staging_bucket(moto_server: AwsServer) -> Bucket:
    return backends.make_bucket(moto_server, "output-roots-contract")


@pytest.fixture
def roots(backend: Backend) -> OutputRoots:
    return backend.area.outputs


def written(backend: Backend, start_id: str = "s1", batch_id: str = "b-1", out: str | None = None) -> str:
    """What a start leaves; its folder."""
    folder = layout.output_folder(batch_id, start_id)
    backend.put(f"{out or backend.out}/{folder}/part-0", b"rows")
    return folder


def owners(backend: Backend) -> list[str]:
    """The applications that have the root, with the epoch of each."""
    folder = f"{backend.out}/_shardbatch/owners"
    found = [json.loads(backend.read(f"{folder}/{n}")) for n in backend.names(folder) if n.endswith(".owner.json")]
    return sorted(f"{item['app']} {item['epoch']}" for item in found)


def told(backend: Backend, batch_id: str = "b-1", decided: int = 1) -> dict[str, object]:
    return dict(json.loads(backend.read(f"{backend.out}/_shardbatch/{layout.marker_name(batch_id, decided)}")))


# A look before the decision


def test_a_look_at_a_new_root_claims_it_and_leaves_nothing_else(backend: Backend, roots: OutputRoots) -> None:
    roots.look(backend.out, [written(backend)], OURS, shared=False)

    assert owners(backend) == [f"{OURS} 1"]
    names = backend.names(f"{backend.out}/_shardbatch")
    assert len(names) == 2
    assert all(name.startswith("owners/") for name in names)


def test_a_second_look_of_the_owner_writes_nothing(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)
    before = backend.names(backend.out)

    roots.look(backend.out, [folder], OURS, shared=False)

    assert backend.names(backend.out) == before


def test_data_that_are_not_seen_are_named_and_nothing_is_written(backend: Backend, roots: OutputRoots) -> None:
    seen = written(backend)
    before = backend.names(backend.out)

    with pytest.raises(StagingError, match=r"batch_id=b-1/start=s2") as failure:
        roots.look(backend.out, [seen, layout.output_folder("b-1", "s2")], OURS, shared=False)

    assert "file system that the cluster and the Airflow workers share" in failure.value.remedy
    assert backend.names(backend.out) == before


def test_a_root_that_is_to_be_emptied_is_looked_at_too(backend: Backend, roots: OutputRoots) -> None:
    written(backend)
    roots.look(backend.out, [], OURS, shared=False)

    assert owners(backend) == [f"{OURS} 1"]


def test_an_earlier_root_that_is_gone_is_not_made_anew(backend: Backend) -> None:
    gone = backend.missing.uri.replace("staging", "out")  # no such bucket, or no such folder

    for call in (
        lambda: backend.missing.outputs.look(gone, [], OURS, shared=False),
        lambda: backend.missing.outputs.mark(gone, Decision("b-1", 2, app=OURS)),
    ):
        with pytest.raises(StagingError) as failure:
            call()
        assert failure.value.remedy or "bucket" in str(failure.value).lower()


def test_a_root_out_of_reach_is_named_with_a_remedy(roots: OutputRoots) -> None:
    with pytest.raises(StagingError, match="gs://lake/out"):
        roots.look("gs://lake/out", [], OURS, shared=False)
    with pytest.raises(StagingError, match="gs://lake/out"):
        roots.mark("gs://lake/out", Decision("b-1", 1))


def test_every_spelling_of_a_root_reaches_the_same_files(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    head, _, tail = backend.out.rpartition("/")
    spelled = f"{head}//./{tail}/"

    roots.look(spelled, [folder], OURS, shared=False)
    roots.mark(spelled, Decision("b-1", 1, (("s1", 1),), OURS))

    assert roots.place(spelled) == roots.place(backend.out)
    assert owners(backend) == [f"{OURS} 1"]
    assert told(backend)["folders"] == [folder]


@pytest.mark.parametrize("end", ["[prod]", "{a,b}*?"])
def test_characters_that_mean_patterns_elsewhere_are_names_here(backend: Backend, roots: OutputRoots, end: str) -> None:
    if backend.out.startswith("memory:"):
        pytest.skip("fsspec itself takes the source of a move for a pattern")
    out = backend.out + end
    folder = written(backend, out=out)

    roots.look(out, [folder], OURS, shared=False)
    roots.mark(out, Decision("b-1", 1, (("s1", 1),), OURS))

    assert "b-1.1.json" in backend.names(f"{out}/_shardbatch")
    with pytest.raises(OutputTaken):
        roots.look(out, [folder], THEIRS, shared=False)


# Whose a root is


def test_another_application_is_refused_by_name_and_writes_nothing(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)
    before = backend.names(backend.out)

    for shared in (False, True):
        with pytest.raises(OutputTaken, match=f"belongs to {OURS}") as failure:
            roots.look(backend.out, [folder], THEIRS, shared=shared)
        assert "adopt-root" in failure.value.remedy

    assert backend.names(backend.out) == before
    roots.look(backend.out, [folder], OURS, shared=False)


def test_those_that_say_that_they_share_a_root_do(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    for app in (OURS, THEIRS, OURS):
        roots.look(backend.out, [folder], app, shared=True)

    assert owners(backend) == sorted([f"{OURS} 1", f"{THEIRS} 1"])
    with pytest.raises(OutputTaken, match=r"belongs to"):
        roots.look(backend.out, [folder], THIRD, shared=False)


def test_an_owner_that_comes_to_share_lets_others_in_and_cannot_go_back(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)
    roots.look(backend.out, [folder], OURS, shared=True)
    roots.look(backend.out, [folder], THEIRS, shared=True)

    with pytest.raises(OutputTaken, match=f"belongs to {THEIRS}"):
        roots.look(backend.out, [folder], OURS, shared=False)
    roots.look(backend.out, [folder], OURS, shared=True)
    roots.look(backend.out, [folder], THEIRS, shared=True)


def test_an_owner_that_stops_sharing_while_it_is_alone_keeps_others_out(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=True)
    roots.look(backend.out, [folder], OURS, shared=False)

    with pytest.raises(OutputTaken):
        roots.look(backend.out, [folder], THEIRS, shared=True)


def test_a_root_with_markers_of_the_first_version_is_whose_who_claims_it_first(
    backend: Backend, roots: OutputRoots, caplog: pytest.LogCaptureFixture
) -> None:
    folder = written(backend)
    old = {"batch_id": "b-0", "decided": 1, "folders": [], "starts": []}
    backend.put(f"{backend.out}/_shardbatch/b-0.1.json", json.dumps(old).encode())

    with caplog.at_level(logging.WARNING):
        roots.look(backend.out, [folder], OURS, shared=False)
        roots.look(backend.out, [folder], OURS, shared=False)

    assert len([line for line in caplog.messages if "does not say whose it is" in line and OURS in line]) == 1
    with pytest.raises(OutputTaken):
        roots.look(backend.out, [folder], THEIRS, shared=False)


def test_a_claim_that_was_left_behind_does_not_stop_its_own_application(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    dead = {"app": OURS, "epoch": 1, "shared": False}
    backend.put(f"{backend.out}/_shardbatch/owners/orders-etl~2forders.7f.claim.json", json.dumps(dead).encode())

    with pytest.raises(OutputTaken, match=f"is being claimed by {OURS}"):
        roots.look(backend.out, [folder], THEIRS, shared=False)
    roots.look(backend.out, [folder], OURS, shared=False)

    assert owners(backend) == [f"{OURS} 1"]


def test_a_damaged_owner_file_is_named(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    backend.put(f"{backend.out}/_shardbatch/owners/x.1-alone.owner.json", b"{")

    with pytest.raises(StagingError, match=r"x\.1-alone\.owner\.json"):
        roots.look(backend.out, [folder], OURS, shared=False)


# Handing over


def test_while_a_root_is_handed_over_its_owner_is_refused(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)

    change = roots.begin_change(backend.out, THEIRS)
    with pytest.raises(OutputTaken, match=f"is being claimed by {THEIRS}"):
        roots.look(backend.out, [folder], OURS, shared=False)
    with pytest.raises(OutputTaken, match=f"belongs to {OURS}"):
        roots.look(backend.out, [folder], THEIRS, shared=False)

    roots.withdraw_change(backend.out, change)
    roots.look(backend.out, [folder], OURS, shared=False)


def test_after_a_handover_the_new_owner_alone_passes(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)
    roots.finish_change(backend.out, roots.begin_change(backend.out, THEIRS))

    roots.look(backend.out, [folder], THEIRS, shared=False)
    with pytest.raises(OutputTaken, match=f"belongs to {THEIRS}"):
        roots.look(backend.out, [folder], OURS, shared=False)

    roots.finish_change(backend.out, roots.begin_change(backend.out, OURS))
    roots.look(backend.out, [folder], OURS, shared=False)
    assert owners(backend) == sorted([f"{OURS} 1", f"{THEIRS} 2", f"{OURS} 3"])


def test_a_handover_that_died_is_passed_by_the_next(backend: Backend, roots: OutputRoots) -> None:
    folder = written(backend)
    roots.look(backend.out, [folder], OURS, shared=False)
    late = roots.begin_change(backend.out, THIRD)

    roots.finish_change(backend.out, roots.begin_change(backend.out, THEIRS))
    roots.finish_change(backend.out, late)  # it was not dead

    roots.look(backend.out, [folder], THEIRS, shared=False)
    for app in (OURS, THIRD):
        with pytest.raises(OutputTaken):
            roots.look(backend.out, [folder], app, shared=False)


# Markers


def test_a_marker_tells_the_decision_and_its_folders(backend: Backend, roots: OutputRoots) -> None:
    written(backend)
    decision = Decision(
        "b-1", 3, (("s2", 3), ("s1", 2)), OURS, (5, 9), 2, False, 5, 8, 100, roots=(backend.out, "s3://lake/rejects")
    )

    roots.mark(backend.out, decision)
    text = backend.read(f"{backend.out}/_shardbatch/b-1.3.json")
    roots.mark(backend.out, Decision(**{**vars(decision), "starts": (("s1", 2), ("s2", 3))}))  # by whoever does it

    assert backend.names(f"{backend.out}/_shardbatch") == ["b-1.3.json"]
    assert backend.read(f"{backend.out}/_shardbatch/b-1.3.json") == text
    marker = told(backend, decided=3)
    assert marker["folders"] == ["batch_id=b-1/start=s1", "batch_id=b-1/start=s2"]
    assert sorted(Decision.from_json(marker).starts) == sorted(decision.starts)
    assert Decision.from_json(marker).roots == decision.roots


def test_a_marker_may_say_that_nothing_of_a_batch_counts_here(backend: Backend, roots: OutputRoots) -> None:
    written(backend)
    roots.mark(backend.out, Decision("b-1", 2, app=OURS))

    assert (told(backend, decided=2)["folders"], told(backend, decided=2)["starts"]) == ([], [])


def test_a_marker_is_never_overwritten(backend: Backend, roots: OutputRoots) -> None:
    written(backend)
    roots.mark(backend.out, Decision("b-1", 1, (("s1", 1),), OURS))

    with pytest.raises(StagingError, match="another start") as failure:
        roots.mark(backend.out, Decision("b-1", 1, (("s2", 1),), OURS))
    roots.mark(backend.out, Decision("b-1", 2, (("s2", 2),), OURS))

    assert "remove the marker" in failure.value.remedy
    assert told(backend)["folders"] == ["batch_id=b-1/start=s1"]
    assert told(backend, decided=2)["folders"] == ["batch_id=b-1/start=s2"]


def test_a_marker_of_the_first_version_stands_for_the_same_starts(backend: Backend, roots: OutputRoots) -> None:
    start = {"start_id": "s1", "attempt": 1, "work": "load", "outputs": [backend.out]}
    old = {"batch_id": "b-1", "decided": 1, "folders": [written(backend)], "starts": [start]}
    backend.put(f"{backend.out}/_shardbatch/b-1.1.json", json.dumps(old).encode())

    roots.mark(backend.out, Decision("b-1", 1, (("s1", 1),), OURS))
    with pytest.raises(StagingError, match="another start"):
        roots.mark(backend.out, Decision("b-1", 1, (("s2", 1),), OURS))


def test_a_damaged_marker_is_named(backend: Backend, roots: OutputRoots) -> None:
    backend.put(f"{backend.out}/_shardbatch/b-1.1.json", b"{")

    with pytest.raises(StagingError, match=r"b-1\.1\.json"):
        roots.mark(backend.out, Decision("b-1", 1, (("s1", 1),), OURS))


def test_a_root_on_another_kind_of_file_system_than_staging(backend: Backend) -> None:
    kind = locate(backend.out).kind
    area = StagingArea("s4://elsewhere/staging", backend.filesystem, filesystems={kind: backend.filesystem})

    area.outputs.look(backend.out, [written(backend)], OURS, shared=False)
    area.outputs.mark(backend.out, Decision("b-1", 1, (("s1", 1),), OURS))

    assert owners(backend) == [f"{OURS} 1"]
    assert told(backend)["decided"] == 1
