# SPDX-License-Identifier: Apache-2.0
"""What DynamoDB's refusals mean to a lease store: some pass, some do not, and none is final for a task."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions as failed

from shardbatch.errors import StoreError
from shardbatch.stores.dynamodb import DynamoDBStore
from shardbatch.stores.outcome import Unclear


def judged(error: Exception) -> Exception:
    client: Any = None
    return DynamoDBStore(client, "leases")._judge(error)


def refused(code: str) -> failed.ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return failed.ClientError(answer, "UpdateItem")


@pytest.mark.parametrize(
    "error",
    [
        refused("InvalidSignatureException"),
        refused("ExpiredTokenException"),
        refused("UnrecognizedClientException"),
        failed.CredentialRetrievalError(provider="p", error_msg="busy"),
        failed.NoCredentialsError(),
        RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired."),
        failed.ReadTimeoutError(endpoint_url="http://x"),
    ],
)
def test_a_passing_refusal_is_tried_again(error: Exception) -> None:
    assert isinstance(judged(error), Unclear)


def test_a_fault_of_ours_is_no_refusal() -> None:
    fault = RuntimeError("dictionary changed size during iteration")
    assert judged(fault) is fault


def test_a_denial_names_what_to_allow() -> None:
    found = judged(refused("AccessDeniedException"))
    assert isinstance(found, StoreError)
    assert "dynamodb:UpdateItem" in found.remedy
