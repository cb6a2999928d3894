# SPDX-License-Identifier: Apache-2.0
"""The streams of DynamoDB tables, read through boto3 clients."""
