# SPDX-License-Identifier: Apache-2.0
"""Arguments that take one of a few words: each is an enum, and its text is taken wherever the enum is."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from shardbatch.errors import ConfigurationError


class Choice(str, Enum):
    """A word of an argument. It is equal to its text and is written as its text, so that an author who gives the one
    in place of the other has changed nothing that Airflow keeps of a DAG."""

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class ShardEnd(Choice):
    """When a shard has ended: ``CLOSED``, it takes no more records; ``COMPLETED``, all of it is committed, too."""

    CLOSED = "closed"
    COMPLETED = "completed"


class SparkJvm(Choice):
    """How the JVM of a spark-submit starts: ``DEFAULT``, as the setting ``spark_jvm`` says; ``PLAIN``, as Spark starts
    it; ``QUICK``, with options for a life of seconds, and with the archive of Spark's classes if ``airflow shardbatch
    warm-spark`` made one."""

    DEFAULT = "default"
    PLAIN = "plain"
    QUICK = "quick"


C = TypeVar("C", bound=Choice)

_FLAGS = {"true": True, "false": False}

#: The states of a shard that commands show and choose by, in the order in which they sort: first what waits for a step.
SHARD_STATES = ("landed", "frozen", "held", "free", "completed")


def chosen(kind: type[C], value: object, said: str, *, other: str = "") -> C:
    """The word of ``kind`` that a value is, or whose text it is. Upper and lower case differ.

    :param said: the argument with its value, for the error.
    :param other: what the argument takes beside the words, for the error.
    :raises ConfigurationError: for any other value; it lists the words.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and not isinstance(value, Choice):  # a word of another choice may have the same text
        for item in kind:
            if item.value == value:
                return item
    words = [repr(item) for item in kind] + ([other] if other else [])
    listed = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    raise ConfigurationError(f"{said} is not known.", remedy=f"Choose {listed}.")


def flag_of(name: str, value: bool | str) -> bool:
    """The value of an argument that is a switch, also if a template made a text of it: ``true`` or ``false``, in upper
    or lower case.

    :raises ConfigurationError: for another text.
    """
    flag = _FLAGS.get(str(value).strip().lower())
    if flag is None:
        raise ConfigurationError(f"{name}={value!r} is not known.", remedy="It is true or false.")
    return flag
