# SPDX-License-Identifier: Apache-2.0
"""Kinesis data streams, read by polling or by enhanced fan-out through a boto3 client."""
