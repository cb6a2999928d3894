# SPDX-License-Identifier: Apache-2.0
"""Consume sharded streams in batches with Apache Airflow and Spark.

The public names are loaded when they are first used: a Spark executor that imports a part of this package imports no
Airflow, and parsing a DAG file imports no vendor library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardbatch.assets import stream_asset as stream_asset
    from shardbatch.core.choices import ShardEnd as ShardEnd
    from shardbatch.core.choices import SparkJvm as SparkJvm
    from shardbatch.core.limits import ReadLimits as ReadLimits
    from shardbatch.core.policies import ClaimOptions as ClaimOptions
    from shardbatch.core.policies import GapPolicy as GapPolicy
    from shardbatch.core.policies import Intervals as Intervals
    from shardbatch.core.policies import Outputs as Outputs
    from shardbatch.core.policies import Policies as Policies
    from shardbatch.core.policies import ShardErrors as ShardErrors
    from shardbatch.core.policies import Sink as Sink
    from shardbatch.core.policies import StartingPosition as StartingPosition
    from shardbatch.core.position_formats import PositionsFormat as PositionsFormat
    from shardbatch.hooks.dynamodb import DynamoDBStream as DynamoDBStream
    from shardbatch.hooks.kinesis import KinesisStream as KinesisStream
    from shardbatch.hooks.leases import DynamoDBLeases as DynamoDBLeases
    from shardbatch.hooks.leases import SQLLeases as SQLLeases
    from shardbatch.hooks.shardbatch import ShardbatchHook as ShardbatchHook
    from shardbatch.hooks.staging import Staging as Staging
    from shardbatch.landing.batch import open_batch as open_batch
    from shardbatch.landing.committed import CommittedFile as CommittedFile
    from shardbatch.landing.committed import read_committed_files as read_committed_files
    from shardbatch.operators.actions import AcceptGapOperator as AcceptGapOperator
    from shardbatch.operators.actions import DropBatchOperator as DropBatchOperator
    from shardbatch.operators.actions import ParkBatchOperator as ParkBatchOperator
    from shardbatch.operators.actions import ReleaseOperator as ReleaseOperator
    from shardbatch.operators.actions import ResetOperator as ResetOperator
    from shardbatch.operators.actions import SetAsideBatchOperator as SetAsideBatchOperator
    from shardbatch.operators.actions import UnparkBatchOperator as UnparkBatchOperator
    from shardbatch.operators.claim import ClaimOperator as ClaimOperator
    from shardbatch.operators.clean_staging import CleanStagingOperator as CleanStagingOperator
    from shardbatch.operators.commit import CommitOperator as CommitOperator
    from shardbatch.operators.commit import ReportOperator as ReportOperator
    from shardbatch.operators.end_record import record_end as record_end
    from shardbatch.operators.freeze import FreezeOperator as FreezeOperator
    from shardbatch.operators.position_actions import ExportPositionsOperator as ExportPositionsOperator
    from shardbatch.operators.position_actions import ImportPositionsOperator as ImportPositionsOperator
    from shardbatch.operators.read import ReadOperator as ReadOperator
    from shardbatch.operators.remove_application import RemoveApplicationOperator as RemoveApplicationOperator
    from shardbatch.operators.replay import ReplayBatchOperator as ReplayBatchOperator
    from shardbatch.operators.root_actions import AdoptRootOperator as AdoptRootOperator
    from shardbatch.operators.root_actions import ForgetRootOperator as ForgetRootOperator
    from shardbatch.operators.root_actions import SumMarkersOperator as SumMarkersOperator
    from shardbatch.operators.spark import SparkSubmitBatchOperator as SparkSubmitBatchOperator
    from shardbatch.operators.spark_connect import SparkConnectBatchOperator as SparkConnectBatchOperator
    from shardbatch.params import batch_params as batch_params
    from shardbatch.sensors.backlog import BacklogSensor as BacklogSensor
    from shardbatch.sensors.committed_up_to import CommittedUpToSensor as CommittedUpToSensor
    from shardbatch.sensors.lineage_complete import LineageCompleteSensor as LineageCompleteSensor
    from shardbatch.sensors.shard_closed import ShardClosedSensor as ShardClosedSensor
    from shardbatch.sources.dynamodb.options import StreamView as StreamView
    from shardbatch.sources.kinesis.options import Deaggregate as Deaggregate
    from shardbatch.sources.kinesis.options import FanOut as FanOut
    from shardbatch.task_group import StreamBatch as StreamBatch

__version__ = "0.1.0"

_HOMES = {
    "AcceptGapOperator": "operators.actions",
    "AdoptRootOperator": "operators.root_actions",
    "BacklogSensor": "sensors.backlog",
    "ClaimOperator": "operators.claim",
    "ClaimOptions": "core.policies",
    "CleanStagingOperator": "operators.clean_staging",
    "CommitOperator": "operators.commit",
    "CommittedFile": "landing.committed",
    "CommittedUpToSensor": "sensors.committed_up_to",
    "Deaggregate": "sources.kinesis.options",
    "DropBatchOperator": "operators.actions",
    "DynamoDBLeases": "hooks.leases",
    "DynamoDBStream": "hooks.dynamodb",
    "ExportPositionsOperator": "operators.position_actions",
    "FanOut": "sources.kinesis.options",
    "ForgetRootOperator": "operators.root_actions",
    "FreezeOperator": "operators.freeze",
    "GapPolicy": "core.policies",
    "ImportPositionsOperator": "operators.position_actions",
    "Intervals": "core.policies",
    "KinesisStream": "hooks.kinesis",
    "LineageCompleteSensor": "sensors.lineage_complete",
    "Outputs": "core.policies",
    "ParkBatchOperator": "operators.actions",
    "Policies": "core.policies",
    "PositionsFormat": "core.position_formats",
    "ReadLimits": "core.limits",
    "ReadOperator": "operators.read",
    "ReleaseOperator": "operators.actions",
    "RemoveApplicationOperator": "operators.remove_application",
    "ReplayBatchOperator": "operators.replay",
    "ReportOperator": "operators.commit",
    "ResetOperator": "operators.actions",
    "SQLLeases": "hooks.leases",
    "SetAsideBatchOperator": "operators.actions",
    "ShardClosedSensor": "sensors.shard_closed",
    "ShardEnd": "core.choices",
    "ShardErrors": "core.policies",
    "ShardbatchHook": "hooks.shardbatch",
    "Sink": "core.policies",
    "SparkConnectBatchOperator": "operators.spark_connect",
    "SparkJvm": "core.choices",
    "SparkSubmitBatchOperator": "operators.spark",
    "Staging": "hooks.staging",
    "StartingPosition": "core.policies",
    "StreamBatch": "task_group",
    "StreamView": "sources.dynamodb.options",
    "SumMarkersOperator": "operators.root_actions",
    "UnparkBatchOperator": "operators.actions",
    "batch_params": "params",
    "open_batch": "landing.batch",
    "read_committed_files": "landing.committed",
    "record_end": "operators.end_record",
    "stream_asset": "assets",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
