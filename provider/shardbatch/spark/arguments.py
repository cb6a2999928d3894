# SPDX-License-Identifier: Apache-2.0
"""Finds the batch that an application was started for: arguments, environment, Spark's configuration, command line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

_NAMES = ("manifest", "attempt", "digest", "work", "token", "schemes")


@dataclass(frozen=True)
class Order:
    """One batch to work on.

    ``digest`` is empty if it is not known. ``work`` names the task of the block. ``token`` comes from the try that
    started the application, and distinguishes its starts from those of other tries. ``schemes`` maps the scheme of a
    URI to the one that this cluster uses, such as ``{"s3": "s3a"}``.
    """

    manifest: str
    attempt: int
    digest: str = ""
    work: str = ""
    token: str = ""
    schemes: Mapping[str, str] = field(default_factory=dict)


def find_order(
    spark: SparkSession,
    given: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    argv: Sequence[str] | None = None,
) -> Order:
    """The caller's arguments. Missing ones come from the first place that names a manifest, and names the same one.

    Places: environment (``SHARDBATCH_MANIFEST``, …), Spark's configuration (``spark.shardbatch.manifest``, …), command
    line (``--shardbatch-manifest``, …). ``schemes`` are looked for in all of them.

    :raises ConfigurationError: if there is no manifest or no attempt, or the attempt is not a number from 1 on.
    """
    told = {name: value for name, value in given.items() if value is not None}
    places = [
        _environment(os.environ if environ is None else environ),
        _configuration(spark),
        _command_line(sys.argv[1:] if argv is None else argv),
    ]
    for place in places:
        if place.get("manifest") and told.get("manifest", place["manifest"]) == place["manifest"]:
            told = {**place, **told}
            break
    for place in places:
        if "schemes" not in told and place.get("schemes"):
            told["schemes"] = place["schemes"]
    if not told.get("manifest"):
        raise ConfigurationError(
            "No manifest was given to this application.",
            remedy="Start it with SparkSubmitBatchOperator, pass batch.args on its command line, set "
            "SHARDBATCH_MANIFEST and SHARDBATCH_ATTEMPT, or call open_batch(spark, manifest=..., attempt=...).",
        )
    return Order(
        str(told["manifest"]),
        _attempt(told.get("attempt")),
        str(told.get("digest") or ""),
        str(told.get("work") or ""),
        str(told.get("token") or ""),
        _schemes(told.get("schemes") or {}),
    )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    found = {name: environ.get("SHARDBATCH_" + name.upper(), "") for name in _NAMES}
    return {name: value for name, value in found.items() if value}


def _configuration(spark: SparkSession) -> dict[str, str]:
    found = {name: spark.conf.get("spark.shardbatch." + name, "") for name in _NAMES}
    return {name: value for name, value in found.items() if value}


def _command_line(argv: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, word in enumerate(argv):
        option, equals, value = word.partition("=")
        name = option[len("--shardbatch-") :] if option.startswith("--shardbatch-") else ""
        if name in _NAMES:
            found[name] = value if equals else next(iter(argv[at + 1 : at + 2]), "")
    return {name: value for name, value in found.items() if value}


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
