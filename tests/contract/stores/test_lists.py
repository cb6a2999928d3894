# SPDX-License-Identifier: Apache-2.0
"""Lists: all pages, in key order, of one namespace and scope or of all its scopes, while rows change."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from shardbatch.core import batch, lease
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL, SHARD_LEASE, Namespace
from tests.contract.stores.rows import fresh, frozen


def test_a_list_has_all_pages_in_key_order(store: Any, namespace: Namespace) -> None:
    # K-17; pages of 3 rows
    names = [f"shardId-{n:04}" for n in range(46)] + ["A", "a", "$x", "~z", "ü"]
    rows = [fresh(namespace, name) for name in names]
    for each in reversed(rows):
        assert store.create(each)
    assert [each.shard_id for each in store.list(SHARD_LEASE, namespace)] == sorted(names)
    assert list(store.list(SHARD_LEASE, namespace)) == sorted(rows, key=lambda each: each.shard_id)


def test_a_list_is_filtered_by_columns(store: Any, namespace: Namespace) -> None:
    for n in range(20):
        owner, group = ("w1", f"g{n % 2}") if n % 4 else (None, None)
        made = dataclasses.replace(fresh(namespace, f"s-{n:02}"), lease_owner=owner, read_group=group)
        assert store.create(dataclasses.replace(made, batch_id="b-1" if n == 7 else None))
        assert store.create(frozen(namespace, f"b-{n:02}", f"w{n % 3}"))

    def shards(**equal: str) -> list[int]:
        return [int(each.shard_id[2:]) for each in store.list(SHARD_LEASE, namespace, **equal)]

    assert shards(lease_owner="w1") == [n for n in range(20) if n % 4]
    assert shards(lease_owner="w1", read_group="g0") == [n for n in range(20) if n % 4 == 2]
    assert shards(lease_owner="w2") == []
    assert shards(batch_id="b-1") == [7]
    mine = list(store.list(BATCH, namespace, owner="w1"))
    assert [each.batch_id for each in mine] == [f"b-{n:02}" for n in range(20) if n % 3 == 1]
    decided = dataclasses.replace(mine[0], row_count=2, state=BatchState.COMMITTED)
    assert store.replace(mine[0], decided)
    assert list(store.list(BATCH, namespace, owner="w1", state="COMMITTED")) == [decided]
    assert len(list(store.list(BATCH, namespace, state="FROZEN"))) == 19


def test_a_batch_is_found_by_its_owner_of_now(store: Any, namespace: Namespace) -> None:
    made = frozen(namespace, "b-1", "w1")
    assert store.create(made)
    adopted = batch.adopt(made, "w2")
    assert store.replace(made, adopted)
    assert list(store.list(BATCH, namespace, owner="w1")) == []
    assert list(store.list(BATCH, namespace, owner="w2")) == [adopted]
    assert store.delete(adopted)
    assert list(store.list(BATCH, namespace, owner="w2")) == []


def test_the_applications_of_every_namespace_are_found_whatever_their_version(store: Any) -> None:
    mark = uuid.uuid4().hex[:12]
    spaces = [
        Namespace(mark + app, stream) for app in ("a", "A", "b#", "c!") for stream in ("s", "S", "application", "x")
    ]
    for number, space in enumerate(spaces):
        assert store.create(Application(space, str(space), TRIM_HORIZON, 1, schema_version=2 + number % 2 * 97))
        assert store.create(fresh(space, "application"))
        assert store.create(frozen(space, "application", "w1"))
    found = {(each["app_name"], each["stream_name"]): each for each in store.applications()}
    ours = {name: each for name, each in found.items() if name[0].startswith(mark)}
    assert set(ours) == {(space.app_name, space.stream_name) for space in spaces}  # of pages of 3 rows
    for number, space in enumerate(spaces):
        columns = ours[space.app_name, space.stream_name]
        assert (columns["stream_id"], columns["schema_version"]) == (str(space), 2 + number % 2 * 97)


def test_namespaces_and_scopes_never_mix(store: Any) -> None:
    # R54, K-17: what could run into one another if keys were only glued together, or compared without case
    mark = uuid.uuid4().hex[:12]
    pairs = (("a", "s"), ("A", "s"), ("a", "s#w"), ("a#s", "w"), ("a!", "s"))
    spaces = [Namespace(mark + app, stream) for app, stream in pairs]
    scopes = ["", "x", "X", "x#y", "x/y", "x%23y", "x!-y", "!"]
    rows = [
        dataclasses.replace(fresh(space, shard, scope=scope), lease_owner=f"{space}|{scope}|{shard}")
        for space in spaces
        for scope in scopes
        for shard in ("s", "y#s")
    ]
    for each in rows:
        assert store.create(each)
    for space in spaces:
        assert store.create(frozen(space, "b", "w#1"))
        assert store.create(Application(space, str(space), TRIM_HORIZON, 1))
    for space in spaces:
        for scope in scopes:
            mine = [each for each in rows if (each.namespace, each.scope) == (space, scope)]
            assert list(store.list(SHARD_LEASE, space, scope)) == sorted(mine, key=lambda each: each.shard_id)
        assert [each.namespace for each in store.list(BATCH, space, owner="w#1")] == [space]
        assert [each.stream_id for each in store.list(APPLICATION, space)] == [str(space)]
    one = rows[0]
    assert store.replace(one, lease.take(one, "thief", None, 9))
    assert all(store.get(each.key) == each for each in rows[1:])


def test_a_list_goes_on_while_rows_change(store: Any, other: Any, namespace: Namespace) -> None:
    rows = {n: fresh(namespace, f"s-{n:02}") for n in range(40)}
    for each in rows.values():
        assert store.create(each)
    found = []
    for each in store.list(SHARD_LEASE, namespace):
        found.append(each.shard_id)
        number = int(each.shard_id[2:4])
        if number % 10 == 0:
            assert other.delete(rows[number + 5]), "of a page that was not read yet"
        elif number % 10 == 1 and not each.shard_id.endswith("x"):
            assert other.replace(each, lease.take(each, "w2", None, 9))
            assert other.create(fresh(namespace, each.shard_id + "x"))
    assert found == sorted(found)
    stayed = [each.shard_id for number, each in rows.items() if number % 10 != 5]
    assert [each for each in found if not each.endswith("x")] == stayed


#: As owners' texts are, among them one that begins as another does, or goes on where it ends.
SCOPES = ["", "dep/dag/r/g/interval", "dep/dag/r:1/g/interval", "dep/dag a/r/g/interval", "dep/dag/r/g%2F1/interval"]


def test_a_list_of_every_scope_has_all_pages_scope_after_scope_in_key_order(store: Any, namespace: Namespace) -> None:
    # pages of 3 rows: some end inside of a scope, some with it
    rows = [frozen(namespace, f"b-{n}", scope=scope) for at, scope in enumerate(SCOPES) for n in range(9, 5 - at, -1)]
    for each in rows:
        assert store.create(each)
    assert store.create(frozen(Namespace(namespace.app_name, "orders-2"), "b-0", scope=SCOPES[1]))
    assert store.create(fresh(namespace, "s", scope=SCOPES[1]))
    assert store.create(Application(namespace, "arn:1", TRIM_HORIZON, 1))
    assert store.create(IntervalOutput(namespace, (1, 2), 1))
    wanted = sorted(rows, key=lambda each: (each.scope, each.batch_id))
    assert list(store.list(BATCH, namespace, None)) == wanted
    assert [each.scope for each in store.list(SHARD_LEASE, namespace, None)] == [SCOPES[1]]
    assert [each.stream_id for each in store.list(APPLICATION, namespace, None)] == ["arn:1"]
    assert [each.interval for each in store.list(INTERVAL, namespace, None)] == [(1, 2)]


def test_a_scope_of_whatever_text_comes_whole_in_a_list_of_all(store: Any, namespace: Namespace) -> None:
    rows = [
        frozen(namespace, key, scope=scope) for scope in ("", "x", "x#y", "x!", "x!-y", " x") for key in ("k", "y#k")
    ]
    for each in rows:
        assert store.create(each)
    found = list(store.list(BATCH, namespace, None))
    assert sorted(each.key.values for each in found) == sorted(each.key.values for each in rows)
    for scope in {each.scope for each in rows}:
        places = [at for at, each in enumerate(found) if each.scope == scope]
        assert [found[at].batch_id for at in places] == ["k", "y#k"]
        assert places[1] == places[0] + 1


def test_a_list_of_every_scope_is_filtered_by_columns(store: Any, namespace: Namespace) -> None:
    for scope in SCOPES[:3]:
        for n in range(5):
            made = frozen(namespace, f"b-{n}", f"w{n % 2}", scope=scope)
            assert store.create(dataclasses.replace(made, state=BatchState.COMMITTED if n == 3 else made.state))

    def found(**equal: str) -> list[tuple[str, str]]:
        return [(each.scope, each.batch_id) for each in store.list(BATCH, namespace, None, **equal)]

    assert found(batch_id="b-2") == [(scope, "b-2") for scope in sorted(SCOPES[:3])]
    assert found(owner="w1") == [(scope, f"b-{n}") for scope in sorted(SCOPES[:3]) for n in (1, 3)]
    assert found(owner="w1", state="COMMITTED") == [(scope, "b-3") for scope in sorted(SCOPES[:3])]
    assert found(owner="w2") == []


def test_the_latest_rows_come_last_first_and_no_more_than_asked_for(store: Any, namespace: Namespace) -> None:
    # pages of 3 rows
    rows = [frozen(namespace, f"b-{n:02}", "w1") for n in range(11)]
    for each in rows:
        assert store.create(each)
    assert store.create(dataclasses.replace(frozen(namespace, "b-99", "w1"), scope="another run"))
    newest_first = sorted(rows, key=lambda each: each.batch_id, reverse=True)
    for limit in (1, 3, 4, 11, 50):
        assert list(store.latest(BATCH, namespace, "", limit)) == newest_first[:limit]
    assert [each.batch_id for each in store.latest(BATCH, namespace, "another run", 5)] == ["b-99"]
    assert list(store.latest(BATCH, namespace, "no such run", 5)) == []
