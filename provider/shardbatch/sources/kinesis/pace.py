# SPDX-License-Identifier: Apache-2.0
"""The limits of a shard of Kinesis, for all of its polling readers together."""

from __future__ import annotations

from shardbatch.sources.aws.pace import Rate

MIB = 1024 * 1024
#: Metered are payload and partition keys. After an answer of 10 MiB the shard refuses reads for 5 s. Such an answer is
#: cut before the record that would not fit, so it may be somewhat smaller.
RATE = Rate(bytes_per_second=2 * MIB, full_answer=9 * MIB, full_answer_rest=5.0)
