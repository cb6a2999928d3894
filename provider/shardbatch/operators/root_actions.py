# SPDX-License-Identifier: Apache-2.0
"""What a person does to output roots, as tasks: forget, adopt, sum the markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardbatch.operators.actions import ActionOperator


class _OfRoot(ActionOperator):
    """Of one output root.

    :param root: the root, in whatever spelling, templated.
    """

    template_fields: Sequence[str] = (*ActionOperator.template_fields, "root")

    def __init__(self, *, root: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.root = root


class ForgetRootOperator(_OfRoot):
    """Takes an output root that is gone for good out of the batches that name it: no run waits for it any more.

    ``root`` is the root, in whatever spelling, templated.

    :param batch_id: only of this batch, templated; default: of all that name it.
    :param scope: that of an interval run's batches, templated; default: the live application.
    """

    verb = "forget-root"
    template_fields: Sequence[str] = (*_OfRoot.template_fields, "batch_id", "scope")

    def __init__(self, *, batch_id: str | None = None, scope: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.scope = scope


class AdoptRootOperator(_OfRoot):
    """Hands an output root to this application; the one that had it is refused from then on.

    It needs staging, and fails while the other application has batches that are not decided.

    :param root: the root, in whatever spelling, templated.
    """

    verb = "adopt-root"


class SumMarkersOperator(_OfRoot):
    """Sums the markers of an output root, so that readers of it are quick. It needs staging.

    :param root: the root, in whatever spelling, templated.
    """

    verb = "sum-markers"
