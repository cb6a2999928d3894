# SPDX-License-Identifier: Apache-2.0
"""The operations on tables."""

from __future__ import annotations

import json

from shardbatch.local.dynamodb.addressing import TABLE, TableAddressing
from shardbatch.local.dynamodb.failure import refuse_others
from shardbatch.local.dynamodb.table import Table, parse_key, parse_view
from shardbatch.local.failure import in_use, malformed
from shardbatch.local.request import Request

#: Members that change nothing here.
_IGNORED = ("BillingMode", "OnDemandThroughput", "ProvisionedThroughput", "TableClass", "Tags")


class TableOperations:
    """CreateTable, DescribeTable, UpdateTable, DeleteTable."""

    def __init__(self, addressing: TableAddressing) -> None:
        self._addressing = addressing
        self._tables = addressing.tables
        self._clock = addressing.tables.engine.clock

    def create_table(self, request: Request) -> bytes:
        """CreateTable."""
        fields = request.fields
        known = ("TableName", "AttributeDefinitions", "KeySchema", "StreamSpecification", *_IGNORED)
        refuse_others(fields, "CreateTable", known)
        key = parse_key(fields.array("KeySchema", 1, 2), fields.array("AttributeDefinitions", 1, 2))
        specification = fields.inner("StreamSpecification")
        _, view = parse_view(None if specification is None else specification.values)
        home, name = self._addressing.named(request, fields.need("TableName", TABLE))
        if home != self._addressing.home(request):
            raise malformed("a table is created in the caller's own account and region")
        table = self._tables.create(name, key, account=request.account, region=request.region, view=view)
        return self._show("TableDescription", table)

    def describe_table(self, request: Request) -> bytes:
        """DescribeTable."""
        return self._show("Table", self._addressing.find(request))

    def update_table(self, request: Request) -> bytes:
        """UpdateTable: its stream is enabled or disabled."""
        fields = request.fields
        refuse_others(fields, "UpdateTable", ("TableName", "StreamSpecification"))
        specification = fields.inner("StreamSpecification")
        if specification is None:
            raise malformed("StreamSpecification is required: nothing else of a table can be updated here")
        _, view = parse_view(specification.values)
        table = self._addressing.find(request)
        status = table.status(self._clock.now_ms())
        if status != "ACTIVE":
            raise in_use(f"table {table.name} is {status}; wait until it is ACTIVE")
        if view is None:
            self._tables.disable(table)
        else:
            self._tables.enable(table, view)
        return self._show("TableDescription", table)

    def delete_table(self, request: Request) -> bytes:
        """DeleteTable."""
        table = self._addressing.find(request)
        self._tables.delete(table)
        return self._show("TableDescription", table)

    def _show(self, member: str, table: Table) -> bytes:
        return json.dumps({member: table.describe(self._clock.now_ms())}).encode()
