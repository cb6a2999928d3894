# SPDX-License-Identifier: Apache-2.0
"""What of the server's behaviour a test may choose."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

MIB = 1024 * 1024


@dataclass
class Options:
    """Behaviour of the server; may be changed while it runs."""

    account_id: str = "123456789012"
    """Account of callers whose access key is not itself a 12-digit account."""
    region: str = "us-east-1"
    """Region in ARNs of callers that sign for none."""
    create_seconds: float = 0.0
    """How long a stream stays CREATING; 0 or more."""
    delete_seconds: float = 0.0
    """How long a stream stays DELETING; 0 or more."""
    reshard_seconds: float = 0.0
    """How long a stream stays UPDATING before a split, a merge or a new shard count takes effect; 0 or more."""
    consumer_seconds: float = 0.0
    """How long a fan-out consumer stays CREATING, and DELETING; 0 or more."""
    subscription_seconds: float = 300.0
    """Life of a subscription to a shard."""
    heartbeat_seconds: float = 5.0
    """Time between the events of a subscription that has no records to send, in real seconds."""
    limits: bool = False
    """Throttle as the service does: 5 reads and 2 MiB a second and shard, 1,000 records and 1 MiB written."""
    end_with_records: bool = True
    """A closed shard ends in the reply that carries its last records; False: in an empty reply after them."""
    name_children: bool = True
    """The end of a shard names its children; False: as servers do that know no ChildShards."""
    empty_pages: int = 0
    """Empty answers that stand before the first records of every new iterator; 0 or more."""
    page_size: int = 0
    """Upper limit of shards in one listing page; 0: as the service (1,000, DescribeStream 100)."""
    max_record_bytes: int = MIB
    """Largest data of one record, in bytes before base64, for streams that set no size of their own."""
    shard_limit: int = 20_000
    """Open shards of one account."""
    iterator_seconds: float = 300.0
    """Life of a shard iterator."""
    token_seconds: float = 300.0
    """Life of a listing token."""
    table_shards: int = 1
    """Open shards that the stream of a table begins with; 1 or more."""
    enable_seconds: float = 0.0
    """How long a table's stream stays ENABLING, and DISABLING; 0 or more."""
    roll_seconds: float = 0.0
    """Age at which an open shard of a table's stream closes and gets one child; the service does so after about 14,400.
    0: only when told to."""
    change_iterator_seconds: float = 900.0
    """Life of an iterator of a table's stream."""
    child_listings: int = 0
    """So many calls of DescribeStream do not show a new child shard yet; 0 or more."""
    child_seconds: float = 0.0
    """So long listings do not show a new child shard yet; 0 or more."""
    child_filter: bool = True
    """DescribeStream knows the filter CHILD_SHARDS; False: it ignores it."""
    repeated_shards: int = 0
    """So many shards of the page before stand once more at the beginning of a page of DescribeStream; 0 or more."""

    def update(self, **changes: Any) -> None:
        """Change some options.

        :raises ValueError: an unknown name, a value of another type, or a negative number; nothing is changed then.
        """
        kinds = {field.name: type(field.default) for field in fields(self)}
        accepted: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in kinds:
                raise ValueError(f"no option {name!r}; there are: {', '.join(kinds)}")
            kind = kinds[name]
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise ValueError(f"option {name} takes {kind.__name__}, got {value!r}")
            if isinstance(value, (int, float)) and not value >= 0:
                raise ValueError(f"option {name} must be 0 or more, got {value!r}")
            if name == "account_id" and not re.fullmatch(r"\d{12}", str(value)):
                raise ValueError(f"option account_id takes 12 digits, got {value!r}")
            accepted[name] = value
        for name, value in accepted.items():
            setattr(self, name, value)
