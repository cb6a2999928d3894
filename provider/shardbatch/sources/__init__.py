# SPDX-License-Identifier: Apache-2.0
"""Sharded streams, a folder each: what reads one through its vendor's library, as ``core.ports.Source`` says."""
