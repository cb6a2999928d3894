# SPDX-License-Identifier: Apache-2.0
"""KCL's lease table read from DynamoDB look-alikes: every page, every version, and nothing but a scan."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.kcl.lease import KclLease
from shardbatch.kcl.table import KclTable
from tests.integration.stores.test_dynamodb import answering
from tests.support.aws import AwsServer
from tests.support.kcl import item_1, item_2, item_3, item_of_many, make_table, renew


@pytest.fixture(params=["dynalite", "ministack"])
def server(request: pytest.FixtureRequest) -> AwsServer:
    found: AwsServer = request.getfixturevalue(request.param)
    return found


def by_key(table: KclTable) -> dict[str, KclLease]:
    return {lease.key: lease for lease in table.leases()}


def test_rows_of_every_version_are_read(server: AwsServer, unique_name: str) -> None:  # K-25
    client = server.client("dynamodb")
    make_table(
        client,
        unique_name,
        item_1(
            "one", "49590338271490256608559692538361571095921575989136588898", sub=2, owner="w1", parents=("p", "q")
        ),
        item_2("two", "SHARD_END", children=("c", "d"), hash_range=(0, 9), prepared=("77", 1)),
        item_3("three", "TRIM_HORIZON", owner="w2", checkpoint_owner="w1", throughput=17.25),
        item_of_many("123456789012", "orders", 1_700_000_000, "four", "LATEST"),
        {"leaseKey": {"S": "leader"}, "entityType": {"S": "LEADER"}, "heartbeat": {"N": "1"}},
    )
    found = by_key(KclTable(client, unique_name))
    assert sorted(found) == ["123456789012:orders:1700000000:four", "one", "three", "two"]
    assert (found["one"].sub_sequence_number, found["one"].parent_shard_ids) == (2, ("p", "q"))
    assert (found["two"].child_shard_ids, found["two"].prepared) == (("c", "d"), "77/1")
    assert (found["three"].owner, found["three"].checkpoint) == ("w2", "TRIM_HORIZON")


def test_a_table_is_read_page_by_page_and_as_it_stands_now(server: AwsServer, unique_name: str) -> None:
    client = server.client("dynamodb")
    make_table(client, unique_name, *(item_1(f"shard-{number:03d}", str(number)) for number in range(25)))
    calls: list[dict[str, Any]] = []
    client.meta.events.register(
        "provide-client-params.dynamodb.*", lambda params, model, **_: calls.append({"name": model.name, **params})
    )
    table = KclTable(client, unique_name, page_size=4)
    assert sorted(by_key(table)) == [f"shard-{number:03d}" for number in range(25)]
    assert {call["name"] for call in calls} == {"Scan"}
    assert len(calls) >= 7
    assert all(call["ConsistentRead"] for call in calls)
    renew(client, unique_name, "shard-007")
    assert by_key(table)["shard-007"].counter == 8
    table.close()


def test_a_table_that_is_not_there_or_another_is_told(server: AwsServer, unique_name: str) -> None:
    client = server.client("dynamodb")
    with pytest.raises(ConfigurationError, match=f"no DynamoDB table {unique_name}"):
        KclTable(client, unique_name).leases()
    make_table(client, unique_name, {"leaseKey": {"S": "x"}, "sequence": {"S": "7"}})
    with pytest.raises(ConfigurationError, match="is not a lease of KCL: x"):
        KclTable(client, unique_name).leases()
    with pytest.raises(ConfigurationError, match="not possible"):
        KclTable(client, "a name")


def test_what_aws_does_not_allow_or_answer_is_told(dynalite: AwsServer, unique_name: str) -> None:
    client = dynalite.client("dynamodb", attempts=1)
    for status, code, words in (
        (400, "AccessDeniedException", "does not allow dynamodb:Scan"),
        (500, "InternalServerError", "dynamodb:Scan on the table .* failed"),
    ):
        refuse = answering(status, code, "no")
        client.meta.events.register("before-send.dynamodb.Scan", refuse)
        with pytest.raises(StoreError, match=words):
            KclTable(client, unique_name).leases()
        client.meta.events.unregister("before-send.dynamodb.Scan", refuse)
    gone = AwsServer("gone", "http://127.0.0.1:1").client("dynamodb", attempts=1)
    with pytest.raises(StoreError, match="could not be asked"):
        KclTable(gone, unique_name).leases()
