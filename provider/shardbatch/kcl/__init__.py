# SPDX-License-Identifier: Apache-2.0
"""Taking over an application of the Kinesis Client Library (KCL). No other room knows this one."""
