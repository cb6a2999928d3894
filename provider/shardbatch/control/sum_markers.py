# SPDX-License-Identifier: Apache-2.0
"""Sum the markers of an output root now, so that readers of it are quick; a commit does it once many are loose."""

from __future__ import annotations

from shardbatch.control.action import Action, Done
from shardbatch.control.adopt_root import expect_roots


def sum_markers(action: Action, root: str) -> tuple[Done, ...]:
    """Write a sum of all that the root tells, and remove the markers and sums that one covers for long enough.

    What readers see does not change. It may be called at any time, by several at once and beside commits. Staging is
    needed, since it reaches the root.

    :param root: the root, in whatever spelling.
    :raises ConfigurationError: if the application is not there, the reason is empty, or no staging is given.
    :raises StagingError: if the root cannot be reached or written to.
    """
    action.begin()
    outputs = expect_roots(action.landing)[1]
    batches = len(outputs.told(root))
    if action.dry_run:
        return (Done("root", root, "", "would sum", effect=f"it tells of {batches} batches"),)
    action.record(f"the markers of {root}")
    taken = outputs.sum_now(root)
    if taken is None:
        return (Done("root", root, "", "already", "no marker stands that is in no sum, or the log says why"),)
    effect = f"{taken} markers that were in no sum are in one now; the root tells of {batches} batches"
    return (Done("root", root, "", "summed", effect=effect),)
