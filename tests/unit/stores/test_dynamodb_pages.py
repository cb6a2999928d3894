# SPDX-License-Identifier: Apache-2.0
"""How much of a table is asked for: what DynamoDB reads is paid for, whether it is used or not."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from shardbatch.core.rows import BATCH, Namespace
from shardbatch.stores.dynamodb import DynamoDBStore


@pytest.mark.parametrize(("page_size", "size"), [(None, 50), (3, 3)])
def test_the_latest_rows_are_asked_for_and_no_megabyte_of_older_ones(page_size: int | None, size: int) -> None:
    given = {"region_name": "eu-west-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client: Any = boto3.client("dynamodb", **given)
    asked = {
        "TableName": "leases",
        "KeyConditionExpression": ANY,
        "ExpressionAttributeNames": ANY,
        "ExpressionAttributeValues": ANY,
        "ConsistentRead": True,
        "ScanIndexForward": False,
        "Limit": size,
    }
    with Stubber(client) as answers:
        answers.add_response("query", {"Items": []}, asked)
        store = DynamoDBStore(client, "leases", page_size=page_size)
        assert list(store.latest(BATCH, Namespace("etl", "orders"), "", 50)) == []
        answers.assert_no_pending_responses()
