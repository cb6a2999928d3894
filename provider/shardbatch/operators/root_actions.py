# SPDX-License-Identifier: Apache-2.0
"""Actions of a person on output roots, as tasks: forget, adopt, sum the markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardbatch.operators.actions import ActionOperator


class _OfRoot(ActionOperator):
    """An action on one output root.

    :param root: the root, in any spelling, templated.
    """

    template_fields: Sequence[str] = (*ActionOperator.template_fields, "root")

    def __init__(self, *, root: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.root = root


class ForgetRootOperator(_OfRoot):
    """Removes an output root that is gone permanently from the batches that name it, so that no run waits for it.

    ``root`` is the root, in any spelling, templated.

    :param batch_id: only of this batch, templated; default: of all batches that name the root.
    :param scope: that of an interval run's batches, templated; default: the live application.
    """

    verb = "forget-root"
    template_fields: Sequence[str] = (*_OfRoot.template_fields, "batch_id", "scope")

    def __init__(self, *, batch_id: str | None = None, scope: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.scope = scope


class AdoptRootOperator(_OfRoot):
    """Hands an output root to this application. The application that had it is refused from then on.

    It needs staging, and fails while the other application has undecided batches.

    :param root: the root, in any spelling, templated.
    """

    verb = "adopt-root"


class SumMarkersOperator(_OfRoot):
    """Sums the markers of an output root, so that its readers are fast. It needs staging.

    :param root: the root, in any spelling, templated.
    """

    verb = "sum-markers"
