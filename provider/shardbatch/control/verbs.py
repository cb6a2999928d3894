# SPDX-License-Identifier: Apache-2.0
"""All actions of a person, each defined once: the command line, the operators and the table in the docs follow this.

Every ``airflow`` command loads this module when it starts, so a use-case is loaded only when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardbatch.control.position_verbs import IMPORT_POSITIONS
from shardbatch.control.remove_verb import REMOVE
from shardbatch.control.verb import FORCE, Argument, UseCase, Verb

if TYPE_CHECKING:
    from shardbatch.core.position import Position

# ------------------------------------------------------------------ what is chosen


def names(given: str | Sequence[str]) -> list[str]:
    """Shards as a list, or as the text that a template makes of them: separated by commas, or a list in the notation of
    Python or JSON."""
    if not isinstance(given, str):
        return list(given)
    text = given.strip()
    if text.startswith(("[", "(")):
        text = ",".join(name.strip(" \"'") for name in text.strip("[]()").split(","))
    return [name for part in text.split(",") if (name := part.strip())]


def _target(given: Any) -> Position | None:
    from shardbatch.control.reset import target_of

    return None if given is None else target_of(given)  # a template may have left an empty text


ONE_BATCH = Argument("batch_id", "--batch", "The batch, as 'batches' shows it", required=True)
IN_SCOPE = Argument(
    "scope", "--scope", "The interval run that it belongs to. Default: wherever it is found", default=""
)
SCOPE = Argument("scope", "--scope", "The interval run that it belongs to. Default: the live application", default="")
SHARDS = Argument("shards", "--shard", "This shard (may be repeated)", many=True, read=names)
ALL = Argument("every", "--all", "All shards, for which it can be done", switch=True, default=False)
ROOT = Argument("root", "--root", "The output root, as the application names it; any spelling works", required=True)

OF_BATCH = (ONE_BATCH, IN_SCOPE)

# ------------------------------------------------------------------ leases and batches


def _release() -> UseCase:
    from shardbatch.control.release import release

    return release


RELEASE = Verb(
    name="release",
    past="released",
    help="Free leases, or a frozen batch, whose owner will not come back",
    more=(
        "Frees leases, or makes a frozen batch free to be taken over. A preview unless --yes is given. "
        "Nothing is lost: an owner that was alive after all fails with LeaseLost. "
        "Exit code 3: something was left as it was, the table says why."
    ),
    arguments=(
        Argument(
            "owner",
            "--owner",
            "Release what this owner holds, as 'status' shows it: its leases and its frozen batches",
            field="lease_owner",
        ),
        Argument(
            "shards",
            "--shard",
            "Release this shard's lease (may be repeated; with --owner only if that owner holds it)",
            many=True,
            read=names,
        ),
        Argument("batch_id", "--batch", "Release this frozen batch, so that the next run takes it over"),
        SCOPE,
    ),
    use_case=_release,
    operator="ReleaseOperator",
)


def _park() -> UseCase:
    from shardbatch.control.park import park

    return park


PARK = Verb(
    name="park",
    past="parked",
    help="Make a frozen batch and its shards wait for unpark; all other shards go on",
    arguments=OF_BATCH,
    use_case=_park,
    operator="ParkBatchOperator",
)


def _unpark() -> UseCase:
    from shardbatch.control.park import unpark

    return unpark


UNPARK = Verb(
    name="unpark",
    past="unparked",
    help="Resume a parked batch; the count for max_attempts starts again",
    arguments=OF_BATCH,
    use_case=_unpark,
    operator="UnparkBatchOperator",
)


def _set_aside() -> UseCase:
    from shardbatch.control.set_aside import set_aside

    return set_aside


SET_ASIDE = Verb(
    name="set-aside",
    word="set aside",
    past="set aside",
    help="Decide a frozen or parked batch without output, so that its shards go on",
    more=(
        "No reader sees the batch's records until it is replayed; its slices are kept for that. "
        "A batch that a run is at work on is left, unless --force is given. A preview unless --yes is given."
    ),
    arguments=(*OF_BATCH, FORCE),
    use_case=_set_aside,
    operator="SetAsideBatchOperator",
)


def _drop() -> UseCase:
    from shardbatch.control.drop import drop

    return drop


DROP = Verb(
    name="drop",
    past="dropped",
    help="Discard a batch; its slices go into a later batch. Also ends keeping a set-aside batch, or withdraws an "
    "interval's output",
    more=(
        "No record is lost. What an application may have written for the batch stays in the sink as orphans; "
        "they are named, here and by 'status'. A batch that a run is at work on is left, unless --force is given. "
        "Of a committed batch of an interval, readers see the output no longer. "
        "A preview unless --yes is given."
    ),
    arguments=(*OF_BATCH, FORCE),
    use_case=_drop,
    operator="DropBatchOperator",
    staging=True,
)


def _accept_gap() -> UseCase:
    from shardbatch.control.accept_gap import accept_gap

    return accept_gap


ACCEPT_GAP = Verb(
    name="accept-gap",
    word="accept",
    past="accepted",
    help="Let shards go on after a gap of records that expired unread",
    more="Who and why stand in the manifest of the batch with the gap. A preview unless --yes is given.",
    arguments=(SHARDS, ALL, SCOPE),
    use_case=_accept_gap,
    operator="AcceptGapOperator",
)


def _reset() -> UseCase:
    from shardbatch.control.reset import reset

    return reset


RESET = Verb(
    name="reset",
    past="reset",
    help="Move shards and their descendants to a position, or start again on a stream that was created again",
    more=(
        "The preview says of every shard from where to where, what is read twice and what may be lost, and "
        "which batches are discarded. All or nothing: what has an owner that is not known to be over is left, unless "
        "--force is given. A reset that died is finished by another. A preview unless --yes is given."
    ),
    arguments=(
        SHARDS,
        ALL,
        Argument(
            "to",
            "--to",
            "TRIM_HORIZON, an instant like 2026-11-28T00:00:00+00:00, or for one shard a checkpoint as 'shards' shows "
            "it; a number of fewer than 21 digits, which may be a date, as sequence:NUMBER",
            read=_target,
            words=("TRIM_HORIZON",),
        ),
        Argument(
            "stream_id",
            "--stream-id",
            "With --all: the stream was created again; accept this identity, as StreamRecreated names it, and begin "
            "anew",
        ),
        FORCE,
    ),
    use_case=_reset,
    operator="ResetOperator",
    staging=True,
)

# ------------------------------------------------------------------ output roots


def _forget_root() -> UseCase:
    from shardbatch.control.forget_root import forget_root

    return forget_root


FORGET_ROOT = Verb(
    name="forget-root",
    word="forget",
    past="forgot",
    help="Remove an output root that is gone permanently from the rows, so that no run waits for it",
    more=(
        "Markers of the batches that name the root are not written there any more. All else of them stays, and "
        "so does what stands in the root, should it be there after all. A preview unless --yes is given."
    ),
    arguments=(ROOT, Argument("batch_id", "--batch", "Only of this batch. Default: of all that name the root"), SCOPE),
    use_case=_forget_root,
    operator="ForgetRootOperator",
    places=True,
)


def _adopt_root() -> UseCase:
    from shardbatch.control.adopt_root import adopt_root

    return adopt_root


ADOPT_ROOT = Verb(
    name="adopt-root",
    word="adopt",
    past="adopted",
    help="Hand an output root to this application; the one that had it is refused from then on",
    more=(
        "What the other application committed there stays, and readers go on seeing it. Left while that one "
        "has batches that are not decided. Needs staging. A preview unless --yes is given."
    ),
    arguments=(ROOT,),
    use_case=_adopt_root,
    operator="AdoptRootOperator",
    staging=True,
)


def _sum_markers() -> UseCase:
    from shardbatch.control.sum_markers import sum_markers

    return sum_markers


SUM_MARKERS = Verb(
    name="sum-markers",
    word="sum",
    past="summed",
    help="Sum the markers of an output root now, so that its readers are fast",
    more=(
        "Commits do it by themselves once many are loose; what readers see does not change. Needs staging. "
        "A preview unless --yes is given."
    ),
    arguments=(ROOT,),
    use_case=_sum_markers,
    operator="SumMarkersOperator",
    staging=True,
)

# ------------------------------------------------------------------ applications


def _clean_up() -> UseCase:
    from shardbatch.control.clean_up import clean_up

    return clean_up


def _days(given: Any) -> Any:
    from shardbatch.core.archive import chosen_days

    return chosen_days(given, "archive_for")


GC = Verb(
    name="gc",
    word="remove",
    past="removed",
    help="Remove what nothing can use any more from staging and from output roots",
    more=(
        "Retires the batches whose archive time is over: they cannot be replayed any more, their output stays. Then "
        "removes slices that no lease and no batch names, documents of retired and void batches, start folders that no "
        "reader sees, markers that a sum covers, and unfinished uploads to S3. It may be called at any time. Needs "
        "staging. A preview, with numbers and bytes, unless --yes is given."
    ),
    arguments=(
        Argument(
            "archive_for",
            "--archive-for",
            "Days for which a committed batch is kept for a replay. Default: the setting archive_for, else 7",
            read=_days,
        ),
    ),
    use_case=_clean_up,
    operator="CleanStagingOperator",
    staging=True,
    archives=True,
)


#: Its run is started by Airflow, each way in by its own means.
REPLAY = Verb(
    name="replay",
    past="replayed",
    help="Start a run that works on a committed batch again",
    more=(
        "Starts a run of the batch's own DAG that replays it: the work runs again and its output takes the "
        "place of the old, no checkpoint moves, nothing new is read. A preview unless --yes is given."
    ),
    arguments=(
        Argument("batch_id", "--batch", "The committed batch to replay, or one that was set aside", required=True),
        Argument("dag_id", "--dag-id", "The DAG to start. Default: that of the batch's owner", field="target_dag_id"),
        Argument(
            "group_id",
            "--group-id",
            "Its StreamBatch group. Default: that of the batch's owner",
            field="target_group_id",
        ),
    ),
    operator="ReplayBatchOperator",
)


def _migrate() -> UseCase:
    from shardbatch.control.migrate import migrate

    return migrate


MIGRATE = Verb(
    name="migrate",
    past="migrated",
    help="Bring tables and rows of an earlier version to this one",
    more=(
        "Adds the tables and columns that this version wants, which workers of the version before do not mind, "
        "and raises the application's schema version. A preview, with the statements, unless --yes is given."
    ),
    use_case=_migrate,
)

#: All of them by name, in the order in which the command line shows them.
VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        *(RELEASE, PARK, UNPARK, SET_ASIDE, DROP, ACCEPT_GAP, RESET),
        *(FORGET_ROOT, ADOPT_ROOT, SUM_MARKERS, GC, REMOVE),
        *(REPLAY, IMPORT_POSITIONS, MIGRATE),
    )
}
