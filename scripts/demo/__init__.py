# SPDX-License-Identifier: Apache-2.0
"""The whole job in one command: a stream, Airflow and Spark on this machine, and a check of what came out."""
