# SPDX-License-Identifier: Apache-2.0
"""The short name of a lease store in addresses of the Streams page."""

from __future__ import annotations

import re

from shardbatch import DynamoDBLeases, SQLLeases
from shardbatch.hooks.leases import store_digest


def test_a_store_has_a_short_name_that_tells_it_from_others_and_shows_nothing() -> None:
    names = {
        store_digest(SQLLeases("leases_db")),
        store_digest(SQLLeases("other_db")),
        store_digest(DynamoDBLeases("leases_db")),
        store_digest(DynamoDBLeases("leases_db", region_name="eu-west-1")),
    }
    assert len(names) == 4
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in names)
    assert store_digest(SQLLeases("leases_db", create=False)) in names
