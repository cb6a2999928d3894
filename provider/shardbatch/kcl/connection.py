# SPDX-License-Identifier: Apache-2.0
"""The lease table of a KCL application, as a person says where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.hooks.arns import region_for, require_one_region
from shardbatch.hooks.connections import aws_client

if TYPE_CHECKING:
    from shardbatch.kcl.lease import KclLeases


def kcl_leases(table: str, aws_conn_id: str | None = "aws_default", region_name: str | None = None) -> KclLeases:
    """The leases in a DynamoDB table that KCL made; no call is made yet.

    :param table: its name, which is that of KCL's application, or its ARN.
    :param aws_conn_id: Airflow's AWS connection, default ``aws_default``; ``None``: the worker's own credentials.
    :param region_name: default: the ARN's, else the connection's.
    :raises ConfigurationError: if the connection or a library is missing, for an impossible name, or for
        a region that is not the ARN's.
    """
    require_one_region("The KCL table", table, region_name)
    client = aws_client("dynamodb", aws_conn_id, region_for(table, region_name))
    from shardbatch.kcl.table import KclTable

    return KclTable(client, table)
