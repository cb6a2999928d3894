# SPDX-License-Identifier: Apache-2.0
"""The DynamoDB table: its definition, making it, waiting for it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from shardbatch.errors import ConfigurationError, StoreError, StoreNotFound

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import CreateTableInputTypeDef, TableDescriptionTypeDef

#: The index that finds a batch by its owner. Its hash key begins with the namespace: one permission fences both.
INDEX = "by_owner"
INDEX_KEY = "owner_key"
#: Seconds for a table to become active.
READY_TIMEOUT = 300.0


def check_name(name: str) -> None:
    """See that a table can have this name, or that it is a table's ARN.

    :raises ConfigurationError: if DynamoDB would refuse it.
    """
    if not re.fullmatch(r"(arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/)?[A-Za-z0-9_.-]{3,255}", name):
        raise ConfigurationError(
            f"The DynamoDB table name {name!r} is not possible.",
            remedy="Use 3 to 255 letters, digits, dots, dashes and underscores, or the table's ARN.",
        )


def definition(name: str) -> CreateTableInputTypeDef:
    """The arguments of CreateTable."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
            {"AttributeName": INDEX_KEY, "AttributeType": "S"},
        ],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": [
                    {"AttributeName": INDEX_KEY, "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    }


def make_ready(client: DynamoDBClient, name: str, *, create: bool) -> None:
    """Make the table if there is none, and wait until it is active, even if another process made it.

    A table that is named by its ARN may be another account's, where none can be made: it is never made.

    :raises StoreNotFound: if there is none and ``create`` is off, or it is named by its ARN.
    :raises StoreError: if it is another kind of table, or does not become active.
    """
    deadline, pause = time.monotonic() + READY_TIMEOUT, 0.05
    while True:
        table = _describe(client, name)
        if table is None and name.startswith("arn:"):
            raise StoreNotFound(
                f"There is no DynamoDB table {name}; one that is named by its ARN is not made.",
                remedy="Correct the ARN, or make the table there as docs/stores.md has it.",
            )
        if table is None and not create:
            raise StoreNotFound(f"The DynamoDB table {name} does not exist.")
        if table is None:
            _create(client, name)
        elif table.get("TableStatus") in ("ACTIVE", "UPDATING") and _is_ours(table, name):
            return
        if time.monotonic() > deadline:
            raise StoreError(
                f"The DynamoDB table {name} is not active after {READY_TIMEOUT:.0f} s.",
                remedy="Look at it in the AWS console; the task may be retried.",
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 2.0)


def pending(client: DynamoDBClient, name: str) -> tuple[str, ...]:
    """The call that is needed to make the table, in words; none if it is there."""
    return () if _describe(client, name) else (f"CreateTable {name} with the index {INDEX} (docs/stores.md)",)


def _describe(client: DynamoDBClient, name: str) -> TableDescriptionTypeDef | None:
    try:
        return client.describe_table(TableName=name)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise


def _create(client: DynamoDBClient, name: str) -> None:
    try:
        client.create_table(**definition(name))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUseException":  # another process makes or removes it just now
            raise


def _is_ours(table: TableDescriptionTypeDef, name: str) -> bool:
    """Whether the index is there to be used.

    :raises StoreError: if keys or index are not those of a lease table.
    """
    wanted = [("pk", "HASH"), ("sk", "RANGE")]
    index = {each.get("IndexName"): each for each in table.get("GlobalSecondaryIndexes", [])}.get(INDEX)
    if [(part["AttributeName"], part["KeyType"]) for part in table.get("KeySchema", [])] != wanted or index is None:
        raise StoreError(
            f"The DynamoDB table {name} is not a lease table: it needs the keys pk and sk and the index {INDEX}.",
            remedy="docs/stores.md has its definition; give another name or make that table.",
        )
    return index.get("IndexStatus", "ACTIVE") == "ACTIVE"
