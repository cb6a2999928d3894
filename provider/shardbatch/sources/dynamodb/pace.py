# SPDX-License-Identifier: Apache-2.0
"""The limits of the service: AWS publishes none of GetRecords by bytes, and one of DescribeStream by calls."""

from __future__ import annotations

from shardbatch.sources.aws.pace import Rate

#: Bytes are not metered.
UNMETERED = Rate(bytes_per_second=1 << 60, full_answer=1 << 60, full_answer_rest=0.0)
#: Seconds between two calls of DescribeStream: 10 a second are allowed to an account.
BETWEEN_DESCRIPTIONS = 0.1
