# SPDX-License-Identifier: Apache-2.0
"""How long keys may be, and that none ends in a blank: the same in every backend, so that rows can move from one to
another."""

from __future__ import annotations

from shardbatch.core.owner import LONGEST_SCOPE
from shardbatch.core.rows import Key
from shardbatch.errors import StoreError

#: Characters of each key column; any other has ``OTHER``. As bytes of a MySQL index (four a character, one for the
#: scope, which is ASCII) they add up to 3,060 of the 3,072 that InnoDB allows.
LENGTHS = {"app_name": 128, "stream_name": 255, "scope": LONGEST_SCOPE}
OTHER = 190


def length(column: str) -> int:
    """The longest text of a key column, in characters."""
    return LENGTHS.get(column, OTHER)


def check(key: Key) -> None:
    """See that a key fits every backend.

    :raises StoreError: naming the column and its limit.
    """
    for name, value in key.columns().items():
        if value.endswith(" "):  # MySQL and MariaDB compare as if it were not there
            raise StoreError(
                f"The {name} of a {key.table.name} row ends in a blank: {value!r}.",
                remedy="Choose a name without a blank at its end.",
            )
        if len(value) > length(name) or (name == "scope" and not value.isascii()):
            raise StoreError(
                "The {} of a {} row has {} characters; it may have {}{}.".format(
                    name, key.table.name, len(value), length(name), ", ASCII only" if name == "scope" else ""
                ),
                remedy="Choose a shorter name.",
            )
