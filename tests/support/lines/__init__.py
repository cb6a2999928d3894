# SPDX-License-Identifier: Apache-2.0
"""A stream of lines in files: a service that is as little like Kinesis as the port of sources allows.

It tells no lag, no clock, no retention and no arrival times, cannot begin at an instant, has no key space and names no
children in its answers. Nothing outside this folder knows it: a DAG that reads it needs this folder only.
"""
