# SPDX-License-Identifier: Apache-2.0
"""The stream that an identity names, of whichever service."""

from __future__ import annotations

import pytest

from shardbatch import DynamoDBStream, KinesisStream
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.addresses import stream_at
from shardbatch.hooks.streams import Stream

KINESIS = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
TABLE = "arn:aws-cn:dynamodb:cn-north-1:123456789012:table/orders/stream/2026-11-28T00:00:00.000"


@pytest.mark.parametrize(
    ("identity", "stream"),
    [
        (f"{KINESIS}@1800000000000", KinesisStream(stream_arn=KINESIS, aws_conn_id="my_aws")),
        (f"{KINESIS}@unknown", KinesisStream(stream_arn=KINESIS, aws_conn_id="my_aws")),
        (TABLE, DynamoDBStream(stream_arn=TABLE, aws_conn_id="my_aws")),
    ],
)
def test_an_identity_is_opened_by_the_class_of_its_service(identity: str, stream: Stream) -> None:
    found = stream_at(identity, "my_aws", None)
    assert found == stream
    assert found.stream_name == "orders"


@pytest.mark.parametrize(
    "identity", ["lines:/var/lines", "arn:aws:sqs:eu-west-1:1:orders", "arn:aws:streams:e:1:o", ""]
)
def test_what_no_class_reads_is_left_to_a_dag(identity: str) -> None:
    with pytest.raises(ConfigurationError, match="ImportPositionsOperator"):
        stream_at(identity, None, None)
