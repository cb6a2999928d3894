# SPDX-License-Identifier: Apache-2.0
"""How those who use DynamoDB Streams speak of it, for errors and logs of code that does not know it."""

from __future__ import annotations

from shardbatch.core.words import Words

#: What to do about a call that was refused for its rate.
BUSY = "At most two readers may read a shard at a time, and DescribeStream is limited to 10 calls a second."

WORDS = Words(
    busy="At most two readers may read a shard at a time: stop another one, or lower calls_per_second",
    look=" with 'aws dynamodbstreams describe-stream'",
)
