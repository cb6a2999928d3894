# SPDX-License-Identifier: Apache-2.0
"""Values and decisions: no clock, no I/O, nothing but the standard library."""
