# SPDX-License-Identifier: Apache-2.0
"""Stock operators that go on with a job of an earlier try: in a block, they may do so within one attempt only.

Airflow keeps what a task notes in its state store when the task is cleared. A cleared Glue or Databricks task would
find the job of the attempt before, see that it has succeeded, and end well without a new one. Then nothing works on the
new attempt, and the old job's output does not count for it (PROTOCOL I4, I6).
"""

from __future__ import annotations

from typing import Any

#: Where an operator has the keys under which it notes its job: all that use ``ResumableJobMixin``; ``spark-submit`` on
#: Kubernetes also notes how a driver ended.
_KEYS = ("external_id_key", "_K8S_DRIVER_STATUS_KEY")
#: Switches of operators that look for a running job by itself, such as a pod by its labels.
_SWITCHES = ("durable", "reattach_on_restart")


def bind_reconnection(task: Any, batch_id: str, attempt: int, *, moved: bool) -> None:
    """Let this try of a task go on only with a job of the same attempt.

    :param task: the operator as this try has it; one that takes up no jobs stays as it is.
    :param moved: an earlier try of this task worked for another attempt. Then an operator that finds jobs by anything
        but a key in its state store starts a new one.
    """
    keys = [name for name in _KEYS if isinstance(getattr(type(task), name, None), str)]
    for name in keys:
        setattr(task, name, f"{getattr(type(task), name)}.{batch_id}.{attempt}")
    if moved and (not keys or getattr(task, "deferrable", False)):
        for name in _SWITCHES:
            if hasattr(task, name):
                setattr(task, name, False)
