# SPDX-License-Identifier: Apache-2.0
"""The Spark application of an attempt: told its batch, waited for, and ended with what it left behind."""
