# SPDX-License-Identifier: Apache-2.0
"""The formats in which positions of an application are written down."""

from __future__ import annotations

from shardbatch.core.choices import Choice


class PositionsFormat(Choice):
    """How positions are written down. ``bloop``: a token of Bloop, a library that reads streams of DynamoDB tables.
    ``json``: all that an application's rows know, for any stream, to copy it or to move it to another lease store."""

    BLOOP = "bloop"
    JSON = "json"
