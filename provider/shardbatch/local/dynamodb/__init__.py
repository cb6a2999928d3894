# SPDX-License-Identifier: Apache-2.0
"""DynamoDB Streams, with a table front: as much of DynamoDB as makes change records."""
