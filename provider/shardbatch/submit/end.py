# SPDX-License-Identifier: Apache-2.0
"""The end of an application that failed, in words: what ended it, where more is told, what to do."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardbatch.errors import JobFailed
from shardbatch.masking import hidden, masked, secrets_in
from shardbatch.submit import applications
from shardbatch.submit.connect_limits import AGAIN, way_back
from shardbatch.submit.output import cause_of, last_line, shortened

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection

#: What clusters, containers and Spark say of a process that had too little memory.
_MEMORY = re.compile(
    r"OutOfMemory|OOMKilled|MemoryError|memory limits|beyond .{0,40}memory"
    r"|[Ee]xit(?:ed)? (?:with )?(?:code|status):? 137"
)
_MORE_MEMORY = (
    "Nothing is lost: give it more memory (driver_memory, executor_memory, the container's limit), then clear this "
    "task; the same batch runs again. ReadLimits makes later batches smaller."
)
_MORE_MEMORY_AT_BOTH = (
    "Nothing is lost: give more memory to this worker if its script was short of it, else to the Spark Connect server; "
    "then clear this task. The same batch runs again. ReadLimits makes later batches smaller."
)


@dataclass(frozen=True)
class Worked:
    """What an application worked on, for messages; ``records`` is ``None`` if unknown."""

    batch_id: str
    attempt: int
    records: int | None

    def __str__(self) -> str:
        records = "" if self.records is None else f", {self.records:,} records"
        return f"attempt {self.attempt} of batch {self.batch_id}{records}"


def job_failed(
    hook: SparkSubmitHook,
    found: Connection | None,
    worked: Worked,
    output: Sequence[str],
    said: BaseException,
    *,
    asked: bool,
) -> JobFailed:
    """The error of a task whose application failed.

    :param output: the last lines of its spark-submit.
    :param said: what the stock hook or operator made of it.
    :param asked: whether it was this task that ended it.
    """
    process = hook._submit_sp
    code = None if process is None else process.poll()
    if not code and hook._is_kubernetes:
        code = hook._spark_exit_code  # of the driver's container; that of spark-submit tells nothing of it
    secrets = _secrets(hook, found)
    # Before anything is cut: half a secret is not known any more.
    output = [hidden(line, secrets) for line in output]
    what = "it was ended, because this task was asked to end" if asked else _what(code, output, said)
    at_cluster = applications.cluster_mode(hook)
    place = _place(applications.application_reference(hook)) if at_cluster else ""
    clues = (what, *output) if at_cluster else (what,)
    short = _signal(code) == signal.SIGKILL or any(_MEMORY.search(line) for line in clues)
    return JobFailed(
        f"The Spark application for {worked} failed: {_sentence(masked(what, secrets))}{place}",
        remedy=_MORE_MEMORY if short and not asked else None,
    )


def script_failed(
    code: int | None,
    worked: Worked,
    output: Sequence[str],
    secrets: Sequence[str],
    *,
    asked: bool,
    lost: str | None,
) -> JobFailed:
    """The error of a task whose script over Spark Connect failed.

    :param code: its exit code; ``None`` if it was not started.
    :param asked: whether it was this task that ended it.
    :param lost: what became of the server, if the task ended the script for that.
    """
    if asked:
        what, remedy = "it was ended, because this task was asked to end", None
    elif lost is not None:
        what, remedy = f"it was ended, because {lost}", AGAIN
    else:
        what = _what(code, [hidden(line, secrets) for line in output], JobFailed())
        short = _signal(code) == signal.SIGKILL or _MEMORY.search(what)
        remedy = _MORE_MEMORY_AT_BOTH if short else way_back(what)
    return JobFailed(f"The Spark application for {worked} failed: {_sentence(masked(what, secrets))}", remedy=remedy)


def _what(code: int | None, output: Sequence[str], said: BaseException) -> str:
    """What ended it: a signal, an exception in its output, or what the stock operator says of its cluster."""
    number = _signal(code)
    cause, last = cause_of(output), last_line(output)
    if number is not None:
        return f"{_killed(code, number)}{'' if cause is None else f'; before that: {cause}'}"
    ended = f"it ended with exit code {code}" if code else _said(said)
    if cause is not None:
        return f"{ended}: {cause}"
    if last is None:
        return f"{ended} and wrote nothing"
    return f'{ended}; its output names no exception, the last line is "{last}"' if code else ended


def _signal(code: int | None) -> int | None:
    """The signal that ended a process, as its parent sees it (-9) or as a shell and Spark hand it on (137)."""
    number = 0 if code is None else -code if code < 0 else code - 128
    return number if number in {item.value for item in signal.Signals} else None


def _killed(code: int | None, number: int) -> str:
    name = signal.Signals(number).name
    if number == signal.SIGKILL:
        why = "most often by the system or its container, for want of memory"
    elif number == signal.SIGTERM:
        why = "by a person, by the shutdown of its host, or by its cluster"
    else:
        return f"it ended by {name} (exit code {code})"
    return f"it was killed by {name} (exit code {code}), {why}"


def _said(said: BaseException) -> str:
    """The first line of an error of the stock operator, and a cluster's diagnostics, which no log has. What else
    follows repeats the output."""
    text, _, diagnostics = str(said).strip().partition("\nDiagnostics: ")
    first, told = text.partition("\n")[0].strip() or type(said).__name__, " ".join(diagnostics.split())
    return f"{first}; diagnostics: {shortened(told)}" if told else first


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _place(reference: str | None) -> str:
    """Where the output of a driver stands that runs at its cluster."""
    kind, _, name = (reference or "").partition(":")
    places = {
        "yarn": f"yarn logs -applicationId {name}",
        "standalone": f"the page of its master, at {name}",
        "k8s": "kubectl logs -n {} {}".format(*name.partition(":")[::2]),
    }
    return f" What its driver wrote: {places[kind]}." if kind in places else ""


def _secrets(hook: SparkSubmitHook, found: Connection | None) -> list[str]:
    known: list[Mapping[str, object]] = [hook._conf or {}, hook._env_vars or {}]
    if found is not None:
        known += [found.extra_dejson, {"password": found.password}]
    return [secret for fields in known for secret in secrets_in(fields)]
