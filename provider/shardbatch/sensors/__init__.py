# SPDX-License-Identifier: Apache-2.0
"""Sensors: what waits on shards, on backlogs, and on time."""
