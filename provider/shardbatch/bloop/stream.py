# SPDX-License-Identifier: Apache-2.0
"""The stream of a token, as a person says where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.hooks.dynamodb import DynamoDBStream

if TYPE_CHECKING:
    from shardbatch.hooks.streams import Stream


def table_stream(address: str, aws_conn_id: str | None, region_name: str | None) -> Stream:
    """The stream of a table.

    :param address: the table's name, whose latest stream it is, or the ARN of a stream.
    :param aws_conn_id: Airflow's AWS connection; ``None``: the worker's own credentials.
    :param region_name: default: the ARN's, else the connection's.
    :raises ConfigurationError: for a text that names neither.
    """
    if "/stream/" in address:
        return DynamoDBStream(stream_arn=address, aws_conn_id=aws_conn_id, region_name=region_name)
    return DynamoDBStream(address, aws_conn_id=aws_conn_id, region_name=region_name)
