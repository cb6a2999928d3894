# SPDX-License-Identifier: Apache-2.0
"""What Airflow hands over to an application on Spark: names, version and encoding, written once for both sides.

A handover is a few *words*, each a name and a text. They travel in one of three ways, whichever the operator has:

=============  ==============================  ============================================
arguments      ``--shardbatch-manifest=…``     any operator that gives a program arguments
environment    ``SHARDBATCH_MANIFEST=…``       any operator that gives a process variables
configuration  ``spark.shardbatch.manifest``   ``spark-submit``, in every deploy mode
=============  ==============================  ============================================

Airflow's workers and the cluster are upgraded one after the other, so that the two sides may have different versions of
this file. The rules:

* A word that a receiver does not know is passed over, and one that is missing is empty. So adding a word that an older
  receiver may do without leaves the version as it is.
* Any other change raises :data:`VERSION`, which then is a word itself: ``handover``. Words without it have version 1,
  which is the one that has no such word, so that jobs of any age can read what version 1 hands over.
* A receiver reads every version up to its own. It refuses a later one before it does anything (:func:`decode`).
* Every version has the word ``manifest``. Where it is missing, nothing is handed over, whatever else stands there.
* An image or a shell may have variables of its own that begin with ``SHARDBATCH_``. So no word is called ``version``,
  ``home`` or the like, and none but ``schemes``, which people set for a cluster, has a meaning without ``manifest``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardbatch.errors import ConfigurationError, UnsupportedSchema

#: The version of the words that this code hands over, and the latest that it reads.
VERSION = 1

#: How names begin in each of the three ways.
OPTION = "--shardbatch-"
VARIABLE = "SHARDBATCH_"
SETTING = "spark.shardbatch."

#: Every word that a receiver looks for. ``schemes`` is given by the person who knows the cluster, never by Airflow.
NAMES = ("manifest", "attempt", "digest", "work", "token", "schemes", "batch", "handover")

#: The label of Kubernetes' driver and executors that has the batch's id.
LABEL = "shardbatch-batch"


@dataclass(frozen=True)
class WorkOrder:
    """One batch to work on, as both sides see it.

    ``manifest`` is the manifest's URI and ``attempt`` the attempt that freeze opened, from 1 on. ``digest`` is the
    manifest's, empty if it is not known. ``work`` names the task of the block; ``token`` comes from the try that
    starts the application, and distinguishes its starts from those of other tries. By ``batch_id`` the Airflow side
    finds a ``spark-submit`` again. ``schemes`` maps the scheme of a URI to the one that this cluster uses, as in
    ``{"s3": "s3a"}``.
    """

    manifest: str
    attempt: int
    digest: str = ""
    work: str = ""
    token: str = ""
    batch_id: str = ""
    schemes: Mapping[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """The tag by which the application is found at its cluster."""
        return f"shardbatch-{self.batch_id}"


def words(*, manifest: str, attempt: str, digest: str, work: str, token: str) -> dict[str, str]:
    """The words of a handover, from texts or from templates of texts."""
    found = {"manifest": manifest, "attempt": attempt, "digest": digest, "work": work, "token": token}
    if VERSION > 1:
        found["handover"] = str(VERSION)
    return found


def encode(order: WorkOrder) -> dict[str, str]:
    """The words that the Airflow side hands over."""
    return words(
        manifest=order.manifest,
        attempt=str(order.attempt),
        digest=order.digest,
        work=order.work,
        token=order.token,
    )


def decode(found: Mapping[str, Any]) -> WorkOrder:
    """What the cluster side makes of the words that it was given; of an attempt and schemes it takes values, too.

    :raises UnsupportedSchema: if they have a later version than this code reads.
    :raises ConfigurationError: if there is no manifest, the attempt is not a number from 1 on, or schemes cannot be
        read.
    """
    _require_version(found)
    if not found.get("manifest"):
        raise ConfigurationError(
            "No manifest was given to this application.",
            remedy="Start it with SparkSubmitBatchOperator, pass batch.args on its command line, set "
            "SHARDBATCH_MANIFEST and SHARDBATCH_ATTEMPT, or call open_batch(spark, manifest=..., attempt=...).",
        )
    return WorkOrder(
        manifest=str(found["manifest"]),
        attempt=_attempt(found.get("attempt")),
        digest=str(found.get("digest") or ""),
        work=str(found.get("work") or ""),
        token=str(found.get("token") or ""),
        batch_id=str(found.get("batch") or ""),
        schemes=_schemes(found.get("schemes") or {}),
    )


def _require_version(found: Mapping[str, Any]) -> None:
    text = str(found.get("handover") or 1)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= VERSION):
        raise UnsupportedSchema(
            f"What Airflow hands over to this application has version {text}; the shardbatch on this cluster reads "
            f"versions up to {VERSION}.",
            remedy="Install the version of shardbatch that Airflow's workers have, or a later one, on the cluster.",
        )


def to_arguments(found: Mapping[str, str]) -> list[str]:
    """Words as arguments of a command line."""
    return [f"{OPTION}{name}={text}" for name, text in found.items()]


def to_environment(found: Mapping[str, str]) -> dict[str, str]:
    """Words as environment variables."""
    return {VARIABLE + name.upper(): text for name, text in found.items()}


def to_configuration(order: WorkOrder) -> dict[str, str]:
    """An order as Spark's configuration, with the batch's id: it is how a ``spark-submit`` is found again."""
    return {SETTING + name: text for name, text in {**encode(order), "batch": order.batch_id}.items()}


def of_arguments(argv: Sequence[str]) -> dict[str, str]:
    """The words of a command line, given as ``--shardbatch-NAME=TEXT`` or ``--shardbatch-NAME TEXT``."""
    found: dict[str, str] = {}
    for at, argument in enumerate(argv):
        option, equals, text = argument.partition("=")
        name = option[len(OPTION) :] if option.startswith(OPTION) else ""
        if name in NAMES:
            found[name] = text if equals else next(iter(argv[at + 1 : at + 2]), "")
    return _given(found)


def of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The words of some environment variables."""
    return _given({name: environ.get(VARIABLE + name.upper(), "") for name in NAMES})


def of_configuration(get: Callable[[str, str], Any]) -> dict[str, str]:
    """The words of Spark's configuration, which is asked by key and default."""
    return _given({name: get(SETTING + name, "") for name in NAMES})


def of_submit(command: Iterable[str]) -> dict[str, str]:
    """The words in the command line of a ``spark-submit``, where the configuration stands as ``KEY=TEXT``."""
    settings = dict(word.partition("=")[::2] for word in command if word.startswith(SETTING))
    return of_configuration(settings.get)


def _given(found: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in found.items() if text}


def _attempt(value: Any) -> int:
    try:
        attempt = int(value)
    except (TypeError, ValueError):
        attempt = 0
    if attempt < 1:
        raise ConfigurationError(
            f"The attempt is {value!r}, not a number from 1 on.",
            remedy="Pass batch.attempt as SHARDBATCH_ATTEMPT, --shardbatch-attempt or open_batch(attempt=...); only to "
            "look at a batch, use shardbatch.open_batch(uri).",
        )
    return attempt


def _schemes(value: Any) -> dict[str, str]:
    if not isinstance(value, str):
        return dict(value)
    pairs = [item.partition("=") for item in value.split(",") if item.strip()]
    if any(not (left.strip() and right.strip()) for left, _, right in pairs):
        raise ConfigurationError(f"The schemes {value!r} cannot be read.", remedy='Write them as "s3=s3a,gcs=gs".')
    return {left.strip().lower(): right.strip() for left, _, right in pairs}
