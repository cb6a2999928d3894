# SPDX-License-Identifier: Apache-2.0
"""Owners: their text, which comes back whole, and the scope of their leases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.rows import SHARD_LEASE, Key, Namespace
from shardbatch.stores.keys import check


def test_an_owner_survives_its_text() -> None:
    owner = Owner("prod/eu", "dag", "manual__2026-11-28T00:00:00+00:00", "outer.orders", "interval")
    assert Owner.parse(str(owner)) == owner
    assert owner.scope == str(owner)
    assert Owner("d", "d", "r", "g").scope == ""
    assert Owner.parse("somebody") is None


@pytest.mark.parametrize("mode", ["incremental", "interval"])
@pytest.mark.parametrize(
    ("dag_id", "run_id", "group_id"),
    [
        ("отчёт", "ручной запуск/1%20", "группа.поток"),
        ("d", "manual__2026-11-28T00:00:00+00:00", "g"),
        ("d", " 100% /../ ", "%2F"),
        ("заказы_" * 35, "manual__2026-11-28T00:00:00+00:00", "поток." * 30),
        ("日" * 250, "\U0001f600", "g"),
    ],
)
def test_an_owner_of_any_names_survives_its_text_and_has_a_scope_of_its_own(
    dag_id: str, run_id: str, group_id: str, mode: str
) -> None:
    owner = Owner("prod", dag_id, run_id, group_id, mode)
    assert Owner.parse(str(owner)) == owner
    assert str(owner).isascii()
    others = [replace(owner, run_id=run_id + end) for end in ("a", "b")]
    if mode == "incremental":
        assert owner.scope == ""
        return
    assert len({each.scope for each in [owner, *others]}) == 3
    for each in [owner, *others]:
        check(Key(SHARD_LEASE, Namespace("etl", "orders"), (each.scope, "s")))  # every store has room for it


@pytest.mark.parametrize("rewound", [False, True])
def test_a_reset_that_has_leases_survives_its_text_and_is_no_run(rewound: bool) -> None:
    holder = ResetHolder("r1", rewound)
    assert ResetHolder.parse(str(holder)) == holder
    assert Owner.parse(str(holder)) is None


@pytest.mark.parametrize("text", [None, "", "somebody", str(Owner("d", "d", "r", "g"))])
def test_who_is_no_reset_is_not_taken_for_one(text: str | None) -> None:
    assert ResetHolder.parse(text) is None
