# SPDX-License-Identifier: Apache-2.0
"""How those who use Kinesis speak of it, for errors and logs of code that does not know it."""

from __future__ import annotations

from shardbatch.core.words import Words

#: What to do about a call that was refused for its rate.
BUSY = "Other readers share the shard's 5 calls and 2 MiB a second; lower their rate or use enhanced fan-out."

WORDS = Words(
    busy="Other readers share the shard's 5 calls and 2 MiB a second: lower their rate, use enhanced fan-out",
    look=" with 'aws kinesis list-shards'",
    foreign="belong to another shard by their hash key; they were delivered",
    broken="look like aggregates and cannot be taken apart; they were delivered as they are",
    dropped="are in aggregates that hold some of another shard; these were DROPPED, as the stream says",
)
