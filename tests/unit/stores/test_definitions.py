# SPDX-License-Identifier: Apache-2.0
"""The stores' definitions hold together with their documentation and with the limits of the databases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from shardbatch.core.rows import BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.stores import keys, open_store
from shardbatch.stores.dynamodb import DynamoDBStore
from shardbatch.stores.dynamodb_item import address_of, index_key
from shardbatch.stores.dynamodb_table import definition
from shardbatch.stores.schema import schema_of, statements
from shardbatch.stores.sql import SQLStore

DOCS = Path(__file__).parents[3] / "docs" / "stores.md"


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite", "mysql"])
def test_the_docs_have_the_statements_that_the_code_runs(dialect: str) -> None:
    written = re.search(rf"<!-- statements: {dialect} -->\n```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert written
    assert written[1] == statements(dialect), f"paste: python -m shardbatch.stores.schema {dialect}"


def test_the_docs_have_the_dynamodb_table_that_the_code_makes() -> None:
    command = re.search(r"aws dynamodb create-table (.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert command
    wanted = definition("shard_leases")
    for attribute in wanted["AttributeDefinitions"]:
        assert f"AttributeName={attribute['AttributeName']},AttributeType={attribute['AttributeType']}" in command[1]
    (index,) = wanted["GlobalSecondaryIndexes"]
    schema = ",".join(f"{{AttributeName={k['AttributeName']},KeyType={k['KeyType']}}}" for k in index["KeySchema"])
    projection = index["Projection"]["ProjectionType"]
    described = f"IndexName={index['IndexName']},KeySchema=[{schema}],Projection={{ProjectionType={projection}}}"
    assert described in command[1]


def test_the_policy_in_the_docs_is_json() -> None:
    for policy in re.findall(r"```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL):
        assert json.loads(policy)["Version"] == "2012-10-17"


def test_keys_and_indexes_fit_into_an_index_of_mysql() -> None:
    def size(column: sa.Column[str]) -> int:
        kind = column.type.dialect_impl(mysql.dialect())
        assert isinstance(kind, mysql.VARCHAR)
        assert kind.length
        return kind.length * (1 if kind.charset == "ascii" else 4)

    for table in schema_of().tables.values():
        assert sum(size(column) for column in table.primary_key) <= 3072
        for index in table.indexes:
            prefixes = index.dialect_options["mysql"]["length"]
            assert sum(4 * prefixes[c.name] if c.name in prefixes else size(c) for c in index.columns) <= 3072


def test_the_longest_key_fits_into_dynamodb() -> None:
    key = Key(SHARD_LEASE, Namespace("a" * 128, "s" * 255), ("x" * 768, "y" * 190))
    keys.check(key)
    assert len(address_of(key)["sk"]["S"]) <= 1024
    with pytest.raises(StoreError, match="1024"):
        address_of(Key(SHARD_LEASE, key.namespace, ("x" * 768, "ü" * 190)))


def test_keys_of_a_dynamodb_item_are_readable_and_unambiguous() -> None:
    space = Namespace("orders-etl", "orders")
    assert address_of(Key(BATCH, space, ("", "b-1"))) == {"pk": {"S": "orders-etl/orders"}, "sk": {"S": "batch##b-1"}}
    assert index_key(space, "dep/dag/run/group/incremental") == "orders-etl/orders#dep/dag/run/group/incremental"
    glued = [("a#b", "c"), ("a", "b#c"), ("a!", "-b#c"), ("a!-b", "c")]
    assert len({address_of(Key(SHARD_LEASE, space, pair))["sk"]["S"] for pair in glued}) == len(glued)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis://localhost", "redis"),
        ("leases", "leases"),
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("dynamodb://shard_leases", "client"),
        ("mysql+nonesuch://host/db", "driver"),
    ],
)
def test_a_url_that_cannot_work_is_refused_at_once(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        open_store(url)


@pytest.mark.parametrize("name", ["ab", "a/b", "", "x" * 256])
def test_an_impossible_table_name_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="3 to 255"):
        DynamoDBStore(None, name)  # type: ignore[arg-type]


def test_a_password_is_not_shown_by_a_url_that_cannot_be_read() -> None:
    with pytest.raises(ConfigurationError) as unreadable:
        SQLStore("postgresql+psycopg://u:hidden-word@host:port/db")
    assert "hidden-word" not in str(unreadable.value)
