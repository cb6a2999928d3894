# SPDX-License-Identifier: Apache-2.0
"""Pages of a listing, and children that are listed late, by scripted answers: what no server here does on demand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.core.ports import Clock
from shardbatch.errors import InvalidAnswer, ShardNotFound, SourceError, StreamNotFound
from shardbatch.sources.dynamodb.listing import ASKED_SINGLY, CHILD_LOOKS, StreamListing
from shardbatch.sources.dynamodb.options import DynamoDBOptions, TableName
from shardbatch.sources.dynamodb.refusals import named

ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/orders/stream/2026-01-01T00:00:00.000"
Answer = Callable[..., dict[str, Any]]


def page(*shards: dict[str, Any], cursor: str | None = None, status: str = "ENABLED", **more: Any) -> dict[str, Any]:
    description = {"StreamArn": ARN, "StreamStatus": status, "StreamViewType": "KEYS_ONLY", "Shards": list(shards)}
    return {"StreamDescription": {**description, **({"LastEvaluatedShardId": cursor} if cursor else {}), **more}}


def shard(name: str, parent: str | None = None, *, closed: bool = False) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": "1", **({"EndingSequenceNumber": "2"} if closed else {})}
    return {"ShardId": name, "SequenceNumberRange": numbers, **({"ParentShardId": parent} if parent else {})}


class Listing:
    """A listing whose every answer a test decides."""

    def __init__(self, answer: Answer, *, filters: bool = True) -> None:
        self.asked: list[dict[str, Any]] = []
        self.slept: list[float] = []

        def patiently(operation: str, pace: Any = None, StreamArn: str = "", **fields: Any) -> dict[str, Any]:
            self.asked.append(fields)
            return answer(**fields)

        caller: Any = SimpleNamespace(
            clock=Clock(now_ms=lambda: 0, monotonic=lambda: sum(self.slept), sleep=self.slept.append),
            options=DynamoDBOptions(),
            table=TableName.parse(ARN),
            where="stream",
            descriptions=None,
            takes=lambda operation, parameter: filters,
            patiently=patiently,
        )
        self.of = StreamListing(None, caller, draw=lambda: 0.5)


def test_all_pages_are_listed_the_oldest_first() -> None:  # R20
    names = [f"shardId-{number:020d}" for number in range(250)]

    def answer(ExclusiveStartShardId: str = "", **_: Any) -> dict[str, Any]:
        left = [name for name in names if name > ExclusiveStartShardId]
        return page(
            *(shard(name, closed=name < names[210]) for name in left[:100]),
            cursor=left[99] if len(left) > 100 else None,
        )

    listing = Listing(answer)
    found = listing.of.shards()
    assert [item.shard_id for item in found] == names
    assert [item.shard_id for item in found if not item.closed] == names[210:]
    assert len(listing.asked) == 3


@pytest.mark.parametrize("cursors", [("b", "b"), ("b", "c", "b")])
def test_a_listing_that_runs_in_a_circle_is_an_error(cursors: tuple[str, ...]) -> None:  # R20
    given = iter(cursors)
    with pytest.raises(InvalidAnswer, match="circle"):
        Listing(lambda **_: page(shard("a"), cursor=next(given))).of.shards()


def test_a_shard_that_two_pages_show_is_closed_if_one_says_so() -> None:
    pages = iter([page(shard("a", closed=True), shard("b"), cursor="b"), page(shard("a"), shard("b", closed=True))])
    assert [item.closed for item in Listing(lambda **_: next(pages)).of.shards()] == [True, True]


def test_a_parent_that_left_the_stream_is_still_named() -> None:  # B-3
    (found,) = Listing(lambda **_: page(shard("b", "a"))).of.shards()
    assert found.parent_shard_ids == ("a",)


def test_a_page_that_was_cut_short_is_not_believed() -> None:
    with pytest.raises(InvalidAnswer, match="cut short"):
        Listing(lambda **_: {}).of.shards()
    with pytest.raises(InvalidAnswer, match="cut short"):
        Listing(lambda **_: {"StreamDescription": {"StreamArn": ARN}}).of.shards()


def test_an_enabled_stream_without_shards_is_not_believed_and_a_disabled_one_is() -> None:
    with pytest.raises(InvalidAnswer, match="no shards"):
        Listing(lambda **_: page()).of.shards()
    assert Listing(lambda **_: page(status="DISABLED")).of.shards() == []


@pytest.mark.parametrize(
    ("statuses", "leaves"),
    [(("DISABLED", "DISABLED"), ["b", "c"]), (("ENABLED", "DISABLED"), []), (("DISABLING", "DISABLING"), [])],
)
def test_what_has_no_child_in_a_disabled_stream_will_have_none(statuses: tuple[str, str], leaves: list[str]) -> None:
    first, last = statuses
    pages = iter(
        [
            page(shard("a", closed=True), cursor="a", status=first),
            page(shard("b", "a", closed=True), shard("c", closed=True), status=last),
        ]
    )
    found = Listing(lambda **_: next(pages)).of.shards()
    assert [item.shard_id for item in found if item.leaf] == leaves


def test_children_that_are_listed_late_are_waited_for_with_growing_pauses() -> None:  # B-26
    given = iter([page()] * 4 + [page(shard("b", "a"))])
    listing = Listing(lambda **_: next(given))
    found = listing.of.await_children("a")
    assert [child.shard_id for child in found.children] == ["b"]
    assert listing.slept == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert all(asked == {"ShardFilter": {"Type": "CHILD_SHARDS", "ShardId": "a"}} for asked in listing.asked)


def test_a_shard_without_children_is_asked_for_them_ten_times_and_no_more() -> None:  # B-26
    listing = Listing(lambda **_: page())
    found = listing.of.await_children("a")
    assert (found.children, found.final) == ((), False)
    assert len(listing.asked) == CHILD_LOOKS
    assert listing.slept == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0])


def test_the_leaves_of_a_disabled_stream_are_asked_once() -> None:  # B-26
    listing = Listing(lambda **_: page(status="DISABLED"))
    found = listing.of.await_children("a")
    assert (found.children, found.final) == ((), True)
    assert (len(listing.asked), listing.slept) == (1, [])


def test_where_there_is_no_filter_the_listing_from_the_shard_on_is_asked() -> None:
    everything = [shard("a", closed=True), shard("b", "a"), shard("c"), shard("d", "a")]

    def ignores(ExclusiveStartShardId: str = "", **_: Any) -> dict[str, Any]:
        return page(*(item for item in everything if item["ShardId"] > ExclusiveStartShardId))

    def refuses(**fields: Any) -> dict[str, Any]:
        if "ShardFilter" in fields:
            raise named("describe_stream", "stream", "ValidationException", "unknown")
        return ignores(**fields)

    for listing, first in ((Listing(ignores), 2), (Listing(refuses), 2), (Listing(ignores, filters=False), 1)):
        assert [child.shard_id for child in listing.of.children("a").children] == ["b", "d"]
        assert len(listing.asked) == first
        listing.of.children("a")
        assert listing.asked[first:] == [{"ExclusiveStartShardId": "a"}]  # it is not tried again


def test_errors_of_the_filters_call_that_are_others_are_told() -> None:
    def fails(**_: Any) -> dict[str, Any]:
        raise SourceError("the network is down")

    def gone(**_: Any) -> dict[str, Any]:
        raise ShardNotFound("no stream")

    with pytest.raises(SourceError, match="network"):
        Listing(fails).of.children("a")
    with pytest.raises(StreamNotFound):
        Listing(gone).of.children("a")


# many shards that end


def chain(length: int) -> list[dict[str, Any]]:
    """Shards of which each is the parent of the next one; the last one is open."""
    names = [f"s{number:04d}" for number in range(length)]
    parents = [None, *names]
    return [shard(name, parents[at], closed=name != names[-1]) for at, name in enumerate(names)]


def served(everything: list[dict[str, Any]]) -> Answer:
    """A service that knows these shards, and the filter for children."""

    def answer(ShardFilter: Any = None, Limit: int = 0, **_: Any) -> dict[str, Any]:
        if ShardFilter is None:
            return page(*everything)
        return page(*(item for item in everything if item.get("ParentShardId") == ShardFilter["ShardId"]))

    return answer


def test_one_listing_tells_the_children_of_many_shards_that_end() -> None:  # R67
    everything = chain(200)
    listing = Listing(served(everything))
    for parent, child in itertools.pairwise(everything):
        found = listing.of.await_children(parent["ShardId"])
        assert [item.shard_id for item in found.children] == [child["ShardId"]]
    assert len(listing.asked) == ASKED_SINGLY + 1 + 1  # singly, the listing, and the last one, whose child has none


def test_a_sibling_that_the_listing_did_not_show_yet_is_found_when_its_parent_ends() -> None:  # B-26
    everything = [*chain(100), shard("old", closed=True), shard("young-1", "old", closed=True)]
    listing = Listing(served(everything))
    for parent in everything[:90]:
        listing.of.await_children(parent["ShardId"])
    everything.append(shard("young-2", "old"))
    found = listing.of.await_children("old")
    assert [item.shard_id for item in found.children] == ["young-1", "young-2"]


def test_where_the_listing_fails_each_shard_is_asked_for_by_itself() -> None:
    everything = chain(100)
    knows = served(everything)

    def answer(**fields: Any) -> dict[str, Any]:
        if "ShardFilter" not in fields:
            raise SourceError("refused")
        return knows(**fields)

    listing = Listing(answer)
    for parent, child in itertools.pairwise(everything):
        assert [item.shard_id for item in listing.of.children(parent["ShardId"]).children] == [child["ShardId"]]
    assert len(listing.asked) == 99 + 1
