# SPDX-License-Identifier: Apache-2.0
"""The steps of a batch as Airflow operators: a task is its arguments plus one call."""
