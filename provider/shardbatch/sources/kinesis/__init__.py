# SPDX-License-Identifier: Apache-2.0
"""Kinesis data streams, read by polling or by enhanced fan-out through a boto3 client."""

from shardbatch.sources.kinesis.options import KinesisOptions
from shardbatch.sources.kinesis.source import KinesisSource

__all__ = ["KinesisOptions", "KinesisSource"]
