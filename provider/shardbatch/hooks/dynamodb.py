# SPDX-License-Identifier: Apache-2.0
"""The stream of a DynamoDB table, as a DAG author declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardbatch.core.policies import StartingPosition
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.arns import region_for, require_one_region
from shardbatch.hooks.connections import aws_client, require_id
from shardbatch.hooks.stream_fields import START, Choices, choose, position_of, rendered, require_ranges, require_zone
from shardbatch.sources.dynamodb.options import DynamoDBOptions, StreamView, TableName, service_limits

if TYPE_CHECKING:
    from shardbatch.core.ports import Source
    from shardbatch.core.position import Position

CHOICES: Choices = (*START, ("view", StreamView, ""))
TEXTS = ("table", "stream_arn", "aws_conn_id", "region_name", "start", "view")


@dataclass(frozen=True)
class DynamoDBStream:
    """The stream of a DynamoDB table: each change of an item is a record. All texts may be templates.

    :param table: the table's name, or its ARN (for a table of another account or region). The table's latest stream is
        read; one that is disabled and enabled again is another stream, and the next claim says so.
    :param stream_arn: the ARN of one of its streams, instead of the table.
    :param aws_conn_id: Airflow's AWS connection, default ``aws_default``; endpoint, role and region are taken from it.
        ``None`` stands for the worker's own credentials.
    :param region_name: default: the ARN's, else the connection's. Another one than the ARN's is refused.
    :param start: where a new application, without checkpoints, begins: ``TRIM_HORIZON`` (default: everything that the
        stream still holds, at most 24 hours), ``LATEST``, or an aware ``datetime`` (changes that were made in that
        second or later; while it lies ahead of the stream's clock, runs find nothing to read). It counts only at the
        first claim. What a time costs: docs/dynamodb.md.
    :param page_records: the most records in one answer, default 1,000 (1 to 1,000). An answer has at most 1 MB, too.
    :param calls_per_second: calls that a read makes on one shard, default 5 (above 0, at most 50). AWS does not publish
        what a shard allows; other readers keep to 5. At most two readers may read a shard at a time.
    :param view: the images of an item that the DAG needs, default ``KEYS_ONLY``: none. The claim is refused if the
        stream does not carry them. ``NEW_IMAGE``, ``OLD_IMAGE``, ``NEW_AND_OLD_IMAGES``.
    :raises ConfigurationError: without a table, for a text that is neither a name nor an ARN, an unknown start or view,
        a ``datetime`` without a zone, a number out of its range, or a region that is not the ARN's.
    """

    table: str = ""
    stream_arn: str = ""
    aws_conn_id: str | None = "aws_default"
    region_name: str | None = None
    start: StartingPosition | str | datetime = StartingPosition.TRIM_HORIZON
    page_records: int = 1_000
    calls_per_second: float = 5.0
    view: StreamView | str = StreamView.KEYS_ONLY

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.stream_arn):
            raise ConfigurationError(
                "DynamoDBStream has neither or both of a table and stream_arn.", remedy="Give one of them."
            )
        require_id("DynamoDBStream(table)", self.address)
        require_id("DynamoDBStream(aws_conn_id)", self.aws_conn_id)
        require_ranges(self, *service_limits(self.page_records, self.calls_per_second))
        require_zone(self.start, "DynamoDBStream")
        self._require_texts(lambda text: "{{" not in str(text))

    def _require_texts(self, known: Callable[[object], bool]) -> None:
        """Check that texts can be used that are ``known``, because they are not templates any more."""
        if known(self.address):
            named = TableName.parse(self.address)
            if bool(self.stream_arn) != bool(named.stream_arn):
                given = "stream_arn" if self.stream_arn else "table"
                raise ConfigurationError(
                    f"DynamoDBStream({given}={self.address!r}) names the wrong thing.",
                    remedy="Give the ARN of a stream, which goes on with /stream/LABEL, as stream_arn, and the name or "
                    "the ARN of a table as table.",
                )
            require_one_region("DynamoDBStream", self.address, self.region_name)
        choose(self, CHOICES, known)

    @property
    def address(self) -> str:
        """The name or the ARN, whichever was given."""
        return self.stream_arn or self.table

    @property
    def stream_name(self) -> str:
        """The name that stands in the namespace: the table's, in either form."""
        return self.address.partition("/stream/")[0].rpartition("/")[2]

    @property
    def position(self) -> Position:
        """The start as a position."""
        return position_of(self.start)

    def rendered(self, render: Callable[[str], str]) -> DynamoDBStream:
        """With its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        done = replace(self, **rendered(self, render, TEXTS))
        done._require_texts(lambda text: True)
        return done

    def open(self, app_name: str = "", budget: timedelta | None = None) -> Source:
        """The source; no call is made yet.

        :param app_name: of no use here.
        :param budget: of no use here: there is one way to read.
        :raises ConfigurationError: if the connection or a library is missing.
        """
        region = region_for(self.address, self.region_name)

        def client(service: str) -> Any:
            return aws_client(
                service,
                self.aws_conn_id,
                region,
                retries={"total_max_attempts": 1, "mode": "standard"},  # the source itself retries, at the shard's pace
                max_pool_connections=64,
            )

        from shardbatch.sources.dynamodb.source import DynamoDBSource

        options = DynamoDBOptions(
            page_records=self.page_records, calls_per_second=self.calls_per_second, view=StreamView(self.view)
        )
        tables = None if self.stream_arn else client("dynamodb")
        return DynamoDBSource(tables, client("dynamodbstreams"), self.address, options=options)


def stream_at(arn: str, aws_conn_id: str | None, region_name: str | None) -> DynamoDBStream:
    """The stream of an ARN."""
    return DynamoDBStream(stream_arn=arn, aws_conn_id=aws_conn_id, region_name=region_name)
