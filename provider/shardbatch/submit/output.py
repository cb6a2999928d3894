# SPDX-License-Identifier: Apache-2.0
"""What a driver said before it ended: the last lines of its output, and the exception in them that ended it.

Drivers write Python's tracebacks, Java's stack traces and log4j's lines into one output. An exception that ended the
driver (*own*) is told from one that was only logged, as each failed task of an executor is: the own one counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardbatch.masking import masked

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

#: What is kept of an output, however long: its last lines, and of each the beginning.
LINES, WIDTH = 2000, 2000
#: Of a message of several lines as many are shown, and so many characters of all.
SHOWN_LINES, SHOWN = 6, 600

_TRACEBACK = "Traceback (most recent call last):"
_LOGGED = re.compile(
    r"\[?\d{2,4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d\S*\s+(?:\[[^\]]*\]\s+)?"
    r"(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b:?\s*(?P<said>.*)"
)
_JAVA = r"(?P<name>(?:[a-zA-Z_$][\w$]*\.)+[A-Z$][\w$]*)(?::\s*(?P<said>.*))?"
_OF_THREAD = re.compile(rf'Exception in thread "(?P<thread>[^"]*)" {_JAVA}')
_CAUSED = re.compile(rf"Caused by: {_JAVA}")
_CALLED = re.compile(rf": {_JAVA}")
_WITHIN = re.compile(rf"(?:^|: ){_JAVA}$")
_BARE = re.compile(rf"{_JAVA}")
_PYTHON = re.compile(r"(?P<name>(?:(?:[^\W\d]\w*|<locals>)\.)*[^\W\d]\w*)(?:: ?(?P<said>.*))?")
#: A file that cannot be compiled is told without the line that begins a traceback.
_SYNTAX = re.compile(r"(?P<name>SyntaxError|IndentationError|TabError)(?:: (?P<said>.*))")
_SUBMIT = re.compile(r"(?P<name>Error)(?:: (?P<said>.*))")
_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ (?:more|common frames)|(?:JVM stacktrace|Driver stacktrace):")
#: What Java, Spark and Python note in passing.
_NOTES = re.compile(
    r"^(?:NOTE: )?Picked up |^WARNING: |^Using Spark's |^Setting Spark log level|\.py:\d+: \w*Warning: "
)
#: How lines begin that follow a message and do not belong to it.
_ENDS = ("The above exception was", "During handling of the above", "Exception ignored", " SQLSTATE:")
#: These say no more than that there is an exception within.
_WRAPPERS = {
    "ExecutionException",
    "InvocationTargetException",
    "Py4JJavaError",
    "PythonException",
    "SparkException",
    "SparkUserAppException",
    "UndeclaredThrowableException",
}


class Output:
    """The last lines of an output that another process reads."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES)

    def passing(self, lines: Iterable[str]) -> Iterator[str]:
        """The same lines, of which the last are kept."""
        for line in lines:
            self.lines.append(line.rstrip()[:WIDTH])
            yield line


def listen(hook: SparkSubmitHook) -> Output:
    """Keep what a hook's spark-submit will say; the hook logs it as ever."""
    output, read = Output(), hook._process_spark_submit_log
    hook._process_spark_submit_log = lambda itr: read(output.passing(itr))  # type: ignore[method-assign]
    return output


def shortened(text: str) -> str:
    """The beginning of a text; without what looks like a secret, since half of one does not."""
    return masked(text)[:SHOWN]


@dataclass
class _Raised:
    """One exception: its class, and the lines of its message."""

    name: str
    said: list[str]

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """The message in one line."""
        return " ".join(filter(None, (line.strip() for line in self.said)))

    def __str__(self) -> str:
        return shortened(f"{self.short}: {self.text}") if self.text else self.short


@dataclass
class _Report:
    """An exception with those behind it, the innermost last. ``own``: it ended the driver."""

    own: bool
    severe: bool = True
    chain: list[_Raised] = field(default_factory=list)

    def __str__(self) -> str:
        telling = [one for one in self.chain if one.short not in _WRAPPERS]
        if not telling:
            telling = [one for one in self.chain if one.text][-1:] or self.chain[-1:]
        first, last = telling[0], telling[-1]
        told = last is first or (last.text and last.text in first.text)
        return str(first) if told else f"{first}; caused by {last}"


def cause_of(lines: Sequence[str]) -> str | None:
    """The exception that ended a driver, in one line without its frames; ``None`` if its output names none.

    Of Python the last one; with it, or of Java, the outermost that says something and the innermost behind it.
    """
    reports, errors = _Reader().read(lines)
    for wanted in ([one for one in reports if one.own], [one for one in reports if one.severe], reports):
        if wanted:
            return str(wanted[-1])
    return shortened(errors[-1]) if errors else None


def last_line(lines: Sequence[str]) -> str | None:
    """The last line that the job itself may have written; ``None`` if there is none."""
    for line in reversed(lines):
        if line.strip() and not _LOGGED.match(line) and not _NOTES.search(line):
            return shortened(line.strip())
    return None


class _Reader:
    """Reads an output line by line. ``in_frames``: within a traceback, before the line that names the exception."""

    def __init__(self) -> None:
        self.reports: list[_Report] = []
        self.errors: list[str] = []
        self.report: _Report | None = None
        self.in_frames = False
        self.open: _Raised | None = None

    def read(self, lines: Sequence[str]) -> tuple[list[_Report], list[str]]:
        before = ""
        for line in lines:
            self._line(line, before)
            before = line
        return [one for one in self.reports if one.chain], self.errors

    def _line(self, line: str, before: str) -> None:
        if logged := _LOGGED.match(line):
            self._logged(logged)
        elif line == _TRACEBACK:
            self._begin(own=not before.startswith(("Exception ignored", "Exception in thread")))
            self.in_frames = True
        elif self.in_frames:
            if named := _PYTHON.fullmatch(line):
                self._raised(named)
        elif found := _OF_THREAD.match(line):
            self._begin(own=found["thread"] == "main")
            self._raised(found)
        elif found := _CAUSED.match(line) or (self._was_called() and _CALLED.match(line)) or None:
            self._within(found)
        elif found := _SYNTAX.match(line) or _SUBMIT.fullmatch(line):
            self._begin(own=True)
            self._raised(found)
        elif self.report is not None and not self.report.chain and (found := _BARE.fullmatch(line)):
            self._raised(found)
        else:
            self._rest(line)

    def _logged(self, found: re.Match[str]) -> None:
        severe = found["level"] in ("ERROR", "FATAL", "CRITICAL")
        self._begin(own=False, severe=severe)
        if severe:
            self.errors.append(found["said"])
        inside = _WITHIN.search(found["said"])
        if inside is not None and inside["name"].endswith(("Error", "Exception")):
            self._raised(inside)

    def _begin(self, *, own: bool, severe: bool = True) -> None:
        self.report, self.in_frames, self.open = _Report(own, severe), False, None
        self.reports.append(self.report)

    def _within(self, found: re.Match[str]) -> None:
        if self.report is None:
            self._begin(own=False)
        self._raised(found)

    def _raised(self, found: re.Match[str]) -> None:
        assert self.report is not None
        said = found["said"] or ""
        self.in_frames = said.endswith(_TRACEBACK)  # a worker's, in the words of Java's
        self.open = _Raised(found["name"], [] if self.in_frames else [said])
        self.report.chain.append(self.open)

    def _was_called(self) -> bool:
        """Whether the exception at hand is the one with which Python tells one of Java."""
        return self.open is not None and self.open.short == "Py4JJavaError"

    def _rest(self, line: str) -> None:
        """A further line of a message. Frames, Spark's SQL state and, once something was said, an empty line end it."""
        if self.open is None:
            return
        ended = _FRAME.match(line) or line.startswith(_ENDS)
        if ended or (any(self.open.said) and (not line.strip() or "SQLSTATE:" in self.open.said[-1])):
            self.open = None
        elif len(self.open.said) < SHOWN_LINES:
            self.open.said.append(line)
