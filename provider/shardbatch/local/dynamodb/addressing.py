# SPDX-License-Identifier: Apache-2.0
"""Which table or stream a request means: by name in the caller's account, by ARN, or by iterator."""

from __future__ import annotations

import re

from shardbatch.local.dynamodb.stream import ChangeStream
from shardbatch.local.dynamodb.table import Table
from shardbatch.local.dynamodb.tables import Tables
from shardbatch.local.request import Request

_ARN = r"arn:aws[^:]*:dynamodb:([^:]*):(\d{12}):table/([a-zA-Z0-9_.-]{3,255})"
TABLE = re.compile(rf"(?:{_ARN}|[a-zA-Z0-9_.-]{{3,255}})")
STREAM = re.compile(rf"{_ARN}/stream/[0-9T:.-]+")


class TableAddressing:
    """Finds tables and streams."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def home(self, request: Request) -> str:
        """Where the caller's own tables are."""
        return self.tables.engine.home(request.account, request.region)

    def named(self, request: Request, text: str) -> tuple[str, str]:
        """Home and name of a table that is named by its ARN, or by its name in the caller's account and region."""
        match = TABLE.fullmatch(text)
        if match is None or match.group(1) is None:
            return self.home(request), text
        region, account, name = match.groups()
        return self.tables.engine.home(account, region), name

    def find(self, request: Request) -> Table:
        """The table that the request names.

        :raises ServiceError: ValidationException, ResourceNotFoundException
        """
        return self.tables.find(*self.named(request, request.fields.need("TableName", TABLE)))

    def find_ready(self, request: Request) -> Table:
        """As :meth:`find`, and the table takes and gives items now."""
        return self.tables.find_ready(*self.named(request, request.fields.need("TableName", TABLE)))

    def find_stream(self, request: Request) -> ChangeStream:
        """The stream that the request names.

        :raises ServiceError: ValidationException, ResourceNotFoundException
        """
        return self.tables.find_stream(request.fields.need("StreamArn", STREAM))

    def note(self, request: Request) -> None:
        """Write on the request which table and shard it seems to be about; nothing is checked yet."""
        values = request.fields.values
        batch = values.get("RequestItems")
        named = [values.get("TableName"), values.get("StreamArn"), *(batch if isinstance(batch, dict) else ())]
        for text in named:
            if isinstance(text, str):
                request.stream = text.split("/")[1] if "/" in text else text
                break
        if isinstance(values.get("ShardId"), str):
            request.shard = values["ShardId"]
        iterator = values.get("ShardIterator")
        fields = self.tables.engine.sealer.open("changes", iterator) if isinstance(iterator, str) else None
        if fields is not None:
            request.stream, request.shard = str(fields[0]).split("/")[1], str(fields[1])
