# SPDX-License-Identifier: Apache-2.0
"""What Airflow reads about this provider; imported by every Airflow process, so nothing else is loaded here."""

from __future__ import annotations

from typing import Any

from shardbatch import _HOMES

INTEGRATION = "Shardbatch"
TRIGGERS = ["shardbatch.stream_watcher", "shardbatch.triggers"]


def get_provider_info() -> dict[str, Any]:
    """The provider's description in the form of Airflow's provider schema."""
    return {
        "package-name": "airflow-provider-shardbatch",
        "name": INTEGRATION,
        "description": "Consume sharded streams in batches: claim, read, freeze, transform, commit.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["service"]}],
        "operators": [{"integration-name": INTEGRATION, "python-modules": _modules("operators")}],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": _modules("hooks", "hooks.streams")}],
        "sensors": [{"integration-name": INTEGRATION, "python-modules": _modules("sensors")}],
        "triggers": [{"integration-name": INTEGRATION, "python-modules": TRIGGERS}],
        "extra-links": ["shardbatch.operators.links.BatchLink"],
        "asset-uris": [
            # Without a handler, which a URI of this scheme does not need.
            {
                "schemes": ["x-shardbatch"],
                "handler": None,
                "to_openlineage_converter": "shardbatch.tasks.lineage.asset_dataset",
            }
        ],
        "cli": ["shardbatch.cli.get_cli_commands"],
        "config": {"shardbatch": {"description": "Defaults of this deployment.", "options": OPTIONS}},
    }


def _modules(part: str, *more: str) -> list[str]:
    """The modules of a part that have public names, and others that are announced."""
    return sorted(f"shardbatch.{home}" for home in {*_HOMES.values(), *more} if home.startswith(f"{part}."))


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
        "A name that is unique among the Airflow deployments that share the lease store. It is part of the owner of "
        "every lease. Needed with every lease store except a SQLite file.",
        "airflow-prod-eu",
    ),
    "leases": _option(
        "The lease store of groups that do not name one: ``dynamodb://TABLE?aws_conn_id=aws_default&region=eu-west-1`` "
        "or ``sql://CONN_ID``.",
        "dynamodb://shard_leases?aws_conn_id=aws_default",
    ),
    "staging": _option(
        "The staging folder of groups that do not name one. It is a URI: for S3 with the connection to use as "
        "``?aws_conn_id=``; for a mounted folder with ``?private=false`` if all users of a machine may read its files.",
        "s3://lake/staging?aws_conn_id=aws_default",
    ),
    "store_timeout": _option(
        "Seconds that one call of a SQL lease store may take, 1 to 3600; empty: 30. If the store does not answer in "
        "this time, the call fails. If the answer of a write does not come, shardbatch first checks whether the write "
        "was applied.",
        "30",
    ),
    "archive_for": _option(
        "Days for which clean-up keeps the slices of a committed batch, so that it can be replayed; 0 to 36500, also "
        "0.5; empty: 7. They count from its last decision or attempt. Clean-up runs when you call it.",
        "7",
    ),
    "spark_jvm": _option(
        "How the JVM of a ``SparkSubmitBatchOperator`` starts if the operator does not say it (``jvm=``): ``plain``, "
        "as Spark starts it, or ``quick``, for jobs of seconds; empty: ``plain``. See the page Which Spark.",
        "quick",
    ),
    "spark_archives": _option(
        "The folder on each worker where 'airflow shardbatch warm-spark' keeps archives of Spark's classes, about "
        "170 MB each: an absolute path; empty: ``shardbatch/spark`` in Airflow's home. Other users must not write "
        "there.",
        "/var/lib/shardbatch/spark",
    ),
    "staging_timeout": _option(
        "Seconds for which S3 may send nothing in one call for the staging folder, 1 to 3600; empty: 60. A folder on a "
        "mount waits as long as its mount options say.",
        "60",
    ),
    "show_records": _option(
        "Whether the Streams page shows the first records of a slice to those who may edit the DAG whose run has its "
        "batch: ``true`` or ``false``; empty: false. The API server reads it.",
        "true",
    ),
}
