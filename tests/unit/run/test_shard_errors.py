# SPDX-License-Identifier: Apache-2.0
"""Which errors of one shard leave the others alone, and how they are told."""

from __future__ import annotations

import pytest

from shardbatch.errors import LeaseLost, ProtocolError, SourceError, StagingError, StoreError
from shardbatch.run.shard_errors import Stopped, is_shards_own, named, told


@pytest.mark.parametrize(
    ("error", "own"),
    [
        (SourceError("refused"), True),
        (StagingError("disk full"), True),
        (StoreError("silent"), True),
        (LeaseLost("taken"), True),
        (ValueError("a bug"), True),
        (ProtocolError("the row contradicts"), False),
        (Stopped(), False),
        (KeyboardInterrupt(), False),
        (SystemExit(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_which_errors_leave_the_other_shards_alone(error: BaseException, own: bool) -> None:
    assert is_shards_own(error) is own


def test_an_error_of_ours_is_told_by_its_text_and_another_with_its_kind_and_place() -> None:
    ours = SourceError("Shard 7 is refused.")
    assert named(ours) == told(ours) == str(ours)
    with pytest.raises(ValueError) as caught:
        raise ValueError("what is this")
    assert named(caught.value) == "ValueError: what is this"
    assert "test_shard_errors.py" in told(caught.value)
    assert told(caught.value).endswith("ValueError: what is this")
