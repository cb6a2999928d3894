# SPDX-License-Identifier: Apache-2.0
"""What a verb and its arguments are, however they are given."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.control.action import Action
from shardbatch.control.verb import FORCE, Argument, UseCase, Verb
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.stores.memory import MemoryStore

BATCH = Argument("batch_id", "--batch", "the batch", required=True)
SHARDS = Argument("shards", "--chosen-shard", "a shard", field="shard_ids", many=True, read=tuple)


def answer() -> UseCase:
    """A use-case that answers with what it was given."""

    def act(action: Action, *words: Any, **chosen: Any) -> list[Any]:
        return [action, *words, chosen]

    return act


VERB = Verb(name="mark", past="marked", help="Marks.", arguments=(BATCH, SHARDS), use_case=answer)


def test_an_argument_has_a_name_for_each_way_in() -> None:
    assert (BATCH.given_as, BATCH.parameter) == ("batch", "batch_id")
    assert (SHARDS.given_as, SHARDS.parameter) == ("chosen_shard", "shard_ids")


def test_what_was_given_is_converted_for_the_use_case() -> None:
    given = {"batch_id": "b1", "shards": ["s1", "s2"]}
    assert VERB.chosen(lambda argument: given[argument.name]) == {"batch_id": "b1", "shards": ("s1", "s2")}


def test_a_value_that_cannot_be_read_is_refused() -> None:
    def refuse(value: Any) -> Any:
        raise ConfigurationError(f"{value!r} is no shard.")

    verb = Verb(name="mark", past="marked", help="Marks.", arguments=(Argument("s", "--s", "", read=refuse),))
    with pytest.raises(ConfigurationError, match="'x' is no shard"):
        verb.chosen(lambda _: "x")


@pytest.mark.parametrize(("arguments", "asks"), [((), False), ((BATCH,), False), ((BATCH, FORCE), True)])
def test_only_a_verb_that_can_be_forced_asks_for_owners(arguments: tuple[Argument, ...], asks: bool) -> None:
    assert Verb(name="mark", past="marked", help="Marks.", arguments=arguments).asks is asks


def test_its_preview_has_a_word_of_its_own_or_its_name() -> None:
    assert VERB.would == "mark"
    assert Verb(name="reset", past="reset", help="", word="move").would == "move"


def test_it_acts_with_what_was_chosen_and_previews_unless_told_otherwise() -> None:
    store, namespace = MemoryStore(), Namespace("etl", "orders")
    action, word, chosen = VERB.act(store, namespace, "b1", actor="ann", reason="why", shards=("s1",))
    assert (word, chosen) == ("b1", {"shards": ("s1",)})
    assert (action.verb, action.store, action.namespace, action.scope) == (VERB, store, namespace, "")
    assert (action.actor, action.reason, action.dry_run, action.force) == ("ann", "why", True, False)
    (action, _) = VERB.act(store, namespace, actor="ann", reason="why", dry_run=False, scope="backfill")
    assert (action.dry_run, action.scope) == (False, "backfill")
