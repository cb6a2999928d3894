# SPDX-License-Identifier: Apache-2.0
"""The parts of the docs that are written from the code: errors, verbs, columns, the asset's extra, settings.

``python -m scripts.reference`` writes them anew; a test sees that they are current. What a docstring says stands in
no page: ``mkdocs.yml`` makes the reference of the docstrings themselves.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardbatch.control.verb import Verb
    from shardbatch.errors import ShardbatchError

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN = "<!-- made by python -m scripts.reference -->"
END = "<!-- end -->"

#: Where more is said of an error: text and address.
SECTIONS: dict[str, tuple[str, str]] = {
    "ConfigurationError": ("every argument, with its range", "reference/stream-batch.md"),
    "ConnectionUnknown": ("connections", "connections.md#when-a-connection-cannot-be-had"),
    "UnsupportedSchema": ("upgrade", "upgrade.md"),
    "StreamRecreated": ("the stream was recreated", "operations.md#the-stream-was-recreated"),
    "ApplicationUnknown": ("the applications of a store", "cli.md#list"),
    "ApplicationTaken": (
        "another DAG claims this application",
        "operations.md#applicationtaken-another-dag-claims-this-application",
    ),
    "OutputTaken": (
        "the root belongs to another application",
        "operations.md#outputtaken-the-root-belongs-to-another-application",
    ),
    "StagingMoved": (
        "staging is set to another folder",
        "operations.md#stagingmoved-staging-is-set-to-another-folder",
    ),
    "ApplicationRemoved": (
        "the application was removed",
        "operations.md#applicationremoved-the-application-was-removed",
    ),
    "ImportUnfinished": ("an import has not ended", "operations.md#importunfinished-an-import-has-not-ended"),
    "InvalidToken": ("coming from Bloop", "dynamodb.md#coming-from-bloop"),
    "InvalidStream": ("coming from Bloop", "dynamodb.md#coming-from-bloop"),
    "SourceError": ("errors of the service", "reading.md#errors-of-the-service"),
    "StreamNotFound": ("which stream is read", "reference/stream-leases-staging.md"),
    "ShardNotFound": ("a gap", "operations.md#a-gap"),
    "Throttled": ("waiting", "reading.md#waiting"),
    "IteratorExpired": ("errors of the service", "reading.md#errors-of-the-service"),
    "InvalidAnswer": ("errors of the service", "reading.md#errors-of-the-service"),
    "StoreError": ("time limits", "connections.md#time-limits"),
    "StoreNotFound": ("lease stores", "stores.md"),
    "StagingMissing": ("a local or mounted folder", "staging.md#a-local-or-mounted-folder"),
    "StagingError": ("staging is full", "operations.md#staging-is-full"),
    "ManifestChanged": ("Spark keeps failing", "operations.md#spark-keeps-failing"),
    "SlicesGone": ("replay", "operations.md#the-transform-was-wrong-replay"),
    "ProtocolError": ("the protocol", "protocol.md"),
    "LeaseLost": ("a lease is held", "operations.md#a-lease-is-held"),
    "AttemptAlive": ("an application outlives its task", "operations.md#an-application-outlives-its-task"),
    "NothingFinished": (
        "commit does not know what counts",
        "operations.md#nothingfinished-commit-does-not-know-what-counts",
    ),
    "JobFailed": ("Spark keeps failing", "operations.md#spark-keeps-failing"),
    "WorkFailed": ("Spark keeps failing", "operations.md#spark-keeps-failing"),
    "ReplayRefused": ("replay", "operations.md#the-transform-was-wrong-replay"),
    "WorkersAlive": ("what is refused", "migrate-from-kcl.md#what-is-refused"),
    "VerbRefused": ("the same in a DAG", "operations.md#the-same-in-a-dag"),
    "BatchParked": ("Spark keeps failing", "operations.md#spark-keeps-failing"),
    "StartUnfinished": (
        "a job left a block half done",
        "operations.md#startunfinished-a-job-left-a-block-half-done",
    ),
    "OwnerUnknown": ("a lease is held", "operations.md#a-lease-is-held"),
    "GapFound": ("a gap", "operations.md#a-gap"),
    "ShardsFailed": ("errors of the service", "reading.md#errors-of-the-service"),
    "Starving": ("runs are green but nothing is read", "operations.md#runs-are-green-but-nothing-is-read"),
    "WaitEnded": ("waiting", "waiting.md"),
}

#: What the columns of a batch's records mean.
COLUMNS = {
    "shard_id": "the shard that held the record",
    "shard_generation": "how deep that shard stands below the oldest one of its lineage in this batch, from 0",
    "record_index": "the record's place in the shard's slice, from 0; with the generation it gives the order",
    "sequence_number": "as the stream assigned it; a record of an aggregate has that of the aggregate",
    "sub_sequence_number": "the place inside an aggregate, from 0; 0 for every other record",
    "partition_key": "as the producer set it",
    "arrival_time": "when the stream took the record, by the stream's clock; null if the server does not say",
    "data": "the bytes of the record, not decoded",
    "attributes": "further properties of sources that have some; null for Kinesis",
}

#: What stands in the ``extra`` of an asset event.
EXTRA = {
    "batch_id": "the batch; `read_committed(spark, out, batches=[…])` reads its output",
    "manifest_uri": "its manifest, for consumers that read the landed files themselves",
    "records": "the number of its records, never 0",
    "bytes": "bytes of their data",
    "gaps": "the number of ranges of a shard that were never read: the records expired, or a person skipped them",
    "dropped": 'records that `deaggregate="strict"` left out',
    "note": "what a person did to the batch, and why; otherwise `null`",
    "shards": "the number of shards of which it has records or progress",
    "completed": "the number of these shards that were read to their end",
    "lag_ms": "the largest lag of a shard behind its tip, when it was read, in milliseconds; `null`: unknown",
    "positions": "new checkpoints by shard id, for at most 20 shards",
    "committed_up_to": "every record that arrived before this instant (ISO 8601, UTC) is in a committed batch or in a "
    "recorded gap, as of this commit; `null`: unknown, or an interval run",
    "committed_up_to_ms": "the same, in milliseconds since the epoch",
    "mode": "`incremental`, or `interval` for an interval run",
}


def errors() -> list[type[ShardbatchError]]:
    """Every error, those above before those below."""
    from shardbatch.errors import ShardbatchError

    def below(kind: type[ShardbatchError]) -> Iterable[type[ShardbatchError]]:
        for child in kind.__subclasses__():
            if child.__module__ == "shardbatch.errors":
                yield child
                yield from below(child)

    return list(below(ShardbatchError))


def errors_text() -> str:
    parts = []
    for kind in errors():
        text, address = SECTIONS[kind.__name__]
        again = "Its task is tried again." if kind.retryable else "No retry is made: it would not help."
        does = f"\n\n**What to do:** {_marked(kind.remedy)}" if kind.remedy else ""
        happened = " ".join((kind.__doc__ or "").split())
        parts.append(f"## {kind.__name__}\n\n{happened} *{again}*{does}\n\n**More:** [{text}]({address})")
    return "\n\n".join(_folded(part) for part in parts)


def columns_text() -> str:
    from shardbatch.landing.schema import RECORD_SCHEMA
    from shardbatch.spark.schema import RECORD_SCHEMA as ON_SPARK

    spark = {field.name: field.dataType.simpleString() for field in ON_SPARK.fields}
    rows = [
        (f"`{field.name}`", f"`{spark[field.name]}`", f"`{field.type}`", COLUMNS[field.name]) for field in RECORD_SCHEMA
    ]
    return _table(("column", "on Spark", "without Spark (Arrow)", "meaning"), rows)


def extra_text() -> str:
    from shardbatch.operators.commit import extra_of
    from shardbatch.run import Committed
    from shardbatch.tasks.mirror import told

    rows = [(f"`{name}`", EXTRA[name]) for name in [*extra_of(Committed()), *told(None), "mode"]]
    return _table(("key", "meaning"), rows)


def settings_text() -> str:
    from shardbatch.get_provider_info import OPTIONS

    return "\n\n".join(
        _folded(
            f"## {name}\n\n{_marked(option['description'].replace('``', '`'))}\n\nFor example `{option['example']}`."
        )
        for name, option in OPTIONS.items()
    )


def metrics_text() -> str:
    """Every metric that shardbatch sends."""
    from shardbatch.core.metrics import METRICS, TAGS

    rows = [
        (f"`{one.name}`", one.kind.value, one.unit, ", ".join(f"`{tag}`" for tag in (*TAGS, *one.tags)), one.meaning)
        for one in METRICS
    ]
    return _table(("name", "kind", "unit", "tags", "meaning"), rows)


def commands_text() -> str:
    """Every verb, as the command line has it."""
    rows = [
        (f"[`{verb.name}`](#{_section(verb.name)})", verb.help, _owner_at_work(verb), _operator(verb))
        for verb in verbs()
    ]
    return _table(("command", "what it does", "if a run is at work on it", "in a DAG"), rows)


def operators_text() -> str:
    """The verbs that have an operator."""
    rows = [
        (_operator(verb), f"[`{verb.name}`](cli.md#{_section(verb.name)})", _owner_at_work(verb))
        for verb in verbs()
        if verb.operator
    ]
    return _table(("operator", "does what the command does", "if a run is at work on it"), rows)


def verbs() -> list[Verb]:
    """Every verb, in the order of the command line."""
    from shardbatch.control.verbs import VERBS
    from shardbatch.kcl.verbs import IMPORT_KCL

    return [*VERBS.values(), IMPORT_KCL]


def _operator(verb: Verb) -> str:
    return f"`{verb.operator}`" if verb.operator else "–"


def _owner_at_work(verb: Verb) -> str:
    if verb.use_case is None:
        return "the run that it starts leaves it"
    if verb.archives or verb.removes:
        return "leaves it"
    return "leaves it, unless forced" if verb.asks else "acts without asking"


def _section(name: str) -> str:
    """The anchor of the section of ``cli.md`` that tells of a verb.

    :raises ValueError: if there is none.
    """
    for heading in re.findall(r"^## (.+)$", (DOCS / "cli.md").read_text("utf-8"), re.MULTILINE):
        if name in heading.split(", "):
            return re.sub(",? ", "-", heading)
    raise ValueError(f"docs/cli.md has no section of {name}")


#: What stands in which page.
PARTS: dict[str, Callable[[], str]] = {
    "errors.md": errors_text,
    "assets.md": extra_text,
    "cli.md": commands_text,
    "metrics.md": metrics_text,
    "operations.md": operators_text,
    "reference/records.md": columns_text,
    "reference/settings.md": settings_text,
}


def written(page: str, text: str) -> str:
    """A page's text with its part written anew.

    :raises ValueError: if the page does not have the two marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/{page} has not both of {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{PARTS[page]()}\n\n{END}{after}"


def main() -> int:
    """Write all parts anew."""
    os.environ.setdefault("AIRFLOW_HOME", str(DOCS.parent / ".cache" / "docs" / "airflow"))  # not one in their home
    for page in PARTS:
        path = DOCS / page
        path.write_text(written(page, path.read_text("utf-8")), "utf-8")
    return 0


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _marked(text: str) -> str:
    """Commands and arguments as code."""
    text = re.sub(r"'(airflow shardbatch [^']+)'", r"`\1`", text)
    text = re.sub(r"'(with open_batch[^']+)'", r"`\1`", text)
    return re.sub(r"(?<![\w`(=])((?:policies|output|claim)=\w+\([^)]*\))", r"`\1`", text)


def _folded(text: str) -> str:
    """Paragraphs in lines of 118 characters at most; nothing is broken inside code."""
    done = []
    for paragraph in text.split("\n\n"):
        lines, line = [], ""
        for word in re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", paragraph):
            if line and len(line) + 1 + len(word) > 118:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        done.append("\n".join([*lines, line]))
    return "\n\n".join(done)


if __name__ == "__main__":
    sys.exit(main())
