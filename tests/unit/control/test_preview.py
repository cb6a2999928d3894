# SPDX-License-Identifier: Apache-2.0
"""The token of a preview: the same until a row that it named, its arguments or the person are another."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from shardbatch.control.preview import Watched, chosen_of, token_of
from shardbatch.control.verbs import VERBS
from shardbatch.core.rows import BATCH, SHARD_LEASE, Key
from shardbatch.errors import ConfigurationError
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE, filled


def token(store: MemoryStore, verb: str = "park", actor: str = "ann", **given: Any) -> str:
    """The token of a preview, as the page makes it."""
    given = given or {"batch_id": "b2"}
    watched = Watched(store)
    chosen = chosen_of(VERBS[verb], given)
    rows = VERBS[verb].act(watched.store(), NAMESPACE, actor=actor, reason="", **chosen)
    return token_of(verb, given, actor, [asdict(row) for row in rows], watched.rows.values())


def change(store: MemoryStore, key: Key, **changes: Any) -> None:
    row: Any = store.get(key)
    counter = row.table.counter
    assert store.replace(row, replace(row, **{counter: row.counter + 1, **changes}))


FROZEN = Key(BATCH, NAMESPACE, ("", "b2"))
LEASE = Key(SHARD_LEASE, NAMESPACE, ("", "s-held"))


def test_it_is_the_same_as_long_as_nothing_has_changed_but_signs_of_life() -> None:
    store = filled()
    before = token(store)
    assert token(store) == before
    change(store, FROZEN, attempt_seen_ms=1)
    change(store, LEASE, note="of another row")
    assert token(store) == before


def test_it_changes_with_every_column_of_a_row_that_it_named() -> None:
    store = filled()
    before = token(store)
    change(store, FROZEN, note="somebody was here")
    assert token(store) != before
    held = {"owner": "", "shards": ["s-held"]}
    before = token(store, "release", **held)
    change(store, LEASE, millis_behind_latest=3)
    assert token(store, "release", **held) != before


def test_it_is_of_one_verb_one_choice_and_one_person() -> None:
    store = filled()
    found = {
        token(store),
        token(store, actor="vic"),
        token(store, "set-aside"),
        token(store, batch_id="b2", scope=""),
        token(store, "drop", batch_id="b2", force=True),
    }
    assert len(found) == 5


def test_what_is_left_out_takes_the_default_of_the_command_line() -> None:
    chosen = chosen_of(VERBS["release"], {"owner": "", "shards": [], "batch_id": None})
    assert chosen == {"owner": None, "shards": [], "batch_id": None, "scope": ""}
    assert chosen_of(VERBS["drop"], {"batch_id": "b2"}) == {"batch_id": "b2", "scope": "", "force": False}
    assert chosen_of(VERBS["accept-gap"], {"shards": ["a", "b"]})["shards"] == ["a", "b"]


@pytest.mark.parametrize(
    ("verb", "given", "named"),
    [
        ("park", {}, "batch_id"),
        ("park", {"batch_id": ""}, "batch_id"),
        ("park", {"batch_id": 2}, "batch_id"),
        ("park", {"batch_id": "b2", "every": True}, "every"),
        ("drop", {"batch_id": "b2", "force": "true"}, "force"),
        ("accept-gap", {"shards": "a,b"}, "shards"),
        ("accept-gap", {"shards": ["a", 1]}, "shards"),
        ("reset", {"every": True, "to": "noon"}, "noon"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(verb: str, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        chosen_of(VERBS[verb], given)
