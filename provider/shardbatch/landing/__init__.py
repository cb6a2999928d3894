# SPDX-License-Identifier: Apache-2.0
"""Slices into Parquet on any file system, and the small files of the staging area.

``layout`` and ``location`` need the standard library only; all else needs pyarrow.
"""
