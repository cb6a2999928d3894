# SPDX-License-Identifier: Apache-2.0
"""What Airflow reads about this provider; imported by every Airflow process, so nothing else is imported here."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Shardbatch"


def get_provider_info() -> dict[str, Any]:
    """The provider's description in the form of Airflow's provider schema."""
    return {
        "package-name": "airflow-provider-shardbatch",
        "name": INTEGRATION,
        "description": "Consume sharded streams in batches: claim, read, freeze, transform, commit.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["service"]}],
        "operators": [{"integration-name": INTEGRATION, "python-modules": _modules("operators", OPERATORS)}],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": _modules("hooks", HOOKS)}],
        "triggers": [{"integration-name": INTEGRATION, "python-modules": ["shardbatch.triggers"]}],
        "cli": ["shardbatch.cli.get_cli_commands"],
        "config": {"shardbatch": {"description": "Defaults of this deployment.", "options": OPTIONS}},
    }


OPERATORS = ("claim", "read", "freeze", "spark", "commit", "actions", "replay")
HOOKS = ("streams", "leases", "staging")


def _modules(part: str, names: tuple[str, ...]) -> list[str]:
    return [f"shardbatch.{part}.{name}" for name in names]


def _option(description: str, example: str) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": "string",
        "example": example,
        "default": "",
    }


OPTIONS = {
    "deployment_id": _option(
        "A name that no other Airflow deployment using the same lease store has. It stands in the owner of every "
        "lease. Needed with every lease store but a SQLite file.",
        "airflow-prod-eu",
    ),
    "leases": _option(
        "The lease store of groups that name none: ``dynamodb://TABLE?aws_conn_id=aws_default&region=eu-west-1`` or "
        "``sql://CONN_ID``.",
        "dynamodb://shard_leases?aws_conn_id=aws_default",
    ),
    "staging": _option(
        "The staging folder of groups that name none: a URI, for S3 with the connection to use as ``?aws_conn_id=``; "
        "of a mounted folder with ``?private=false`` if its files may be read by all users of a machine.",
        "s3://lake/staging?aws_conn_id=aws_default",
    ),
    "store_timeout": _option(
        "Seconds that one call of a SQL lease store may take, 1 to 3600; empty: 30. A store that is silent for longer "
        "fails the call; a write whose answer did not come is looked for before anything goes on.",
        "30",
    ),
    "staging_timeout": _option(
        "Seconds for which S3 may be silent in one call for the staging folder, 1 to 3600; empty: 60. A folder on a "
        "mount waits as long as its mount options say.",
        "60",
    ),
}
