# SPDX-License-Identifier: Apache-2.0
"""The end record of a task's try, for operators: they know their application, not where its files stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardbatch.core.rows import Namespace
from shardbatch.landing.layout import output_folder

if TYPE_CHECKING:
    from shardbatch.core.start import Start
    from shardbatch.tasks.application import ApplicationSpec


@dataclass(frozen=True)
class Left:
    """What a try left: in words, which starts and what they wrote; and the output roots that they wrote below."""

    told: str
    roots: tuple[str, ...]


def leave_end_record(spec: ApplicationSpec, **ended: Any) -> Left:
    """Leave the end record of a try in the application's staging area.

    :param ended: the fields of :class:`shardbatch.run.end_record.Ended`.
    :raises StartUnfinished: if its application entered a block that it did not leave well.
    :raises ConfigurationError: if starts do not say for which task of the block they work, and there are several.
    :raises StagingError: if staging cannot be read or written.
    """
    from shardbatch.run import end_record

    namespace = Namespace(spec.app_name, spec.stream.stream_name)
    record = end_record.leave_end_record(spec.staging.open(), namespace, end_record.Ended(**ended))
    told = "; ".join(_wrote(start, ended["batch_id"]) for start in record.starts)
    roots = dict.fromkeys(root for start in record.starts for root in start.outputs)
    return Left(told or "it entered no block of open_batch", tuple(roots))


def _wrote(start: Start, batch_id: str) -> str:
    folder = output_folder(batch_id, start.start_id)
    wrote = ", ".join(f"{root.rstrip('/')}/{folder}" for root in start.outputs)
    return f"start {start.start_id} wrote {wrote or 'nothing below an output root'}"
