# SPDX-License-Identifier: Apache-2.0
"""Tokens of Bloop, a library that reads the streams of DynamoDB tables: from there to an application, and back."""
