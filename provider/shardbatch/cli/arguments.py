# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``airflow shardbatch``; the commands behind them are loaded when they run."""

from __future__ import annotations

from argparse import ArgumentTypeError

from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, GroupCommand, lazy_load_command

#: A year in seconds: longer is a slip of the pen.
_LONGEST_S = 366 * 86_400


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= _LONGEST_S:  # nor is nan
        raise ArgumentTypeError(f"{text} is not above zero and at most {_LONGEST_S}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ArgumentTypeError(f"{text} is below zero")
    return number


APP_NAME = Arg(("-a", "--app-name"), required=True, help="The application: app_name of the StreamBatch group")
STREAM_NAME = Arg(("-s", "--stream-name"), required=True, help="The stream that the application reads")
LEASES = Arg(
    ("-l", "--leases"),
    help=(
        "The lease store: sql://CONN_ID or dynamodb://TABLE?aws_conn_id=CONN_ID&region=REGION. "
        "Default: the setting leases in section shardbatch of Airflow's configuration"
    ),
)
EVERY_STATE = ("free", "held", "landed", "frozen", "completed")
STATE = Arg(("--state",), action="append", choices=EVERY_STATE, help="Only shards in this state (may be given again)")
OWNED_BY = Arg(("--owner",), help="Only shards whose owner, as 'status' shows it, has this text in it")
SORT = Arg(
    ("--sort",),
    choices=("shard", "behind", "state"),
    default="shard",
    help="By id, by lag with the furthest behind first, or by state. Default: shard",
)
SHOWN = Arg(
    ("--limit",),
    type=_count,
    help="How many shards at most; 0: all. Default: 50 in a table, all in json and yaml",
)
LIMIT = Arg(("--limit",), type=int, default=20, help="How many batches at most, newest first. Default: 20")
OWNER = Arg(("--owner",), help="Release what this owner holds, as 'status' shows it: its leases and its frozen batches")
SHARD = Arg(
    ("--shard",),
    action="append",
    default=[],
    help="Release this shard's lease (may be given again; with --owner only if that owner holds it)",
)
BATCH = Arg(("--batch",), help="Release this frozen batch, so that the next run takes it over")
REASON = Arg(("--reason",), default="", help="Why; kept on the application row. Needed with --yes")
YES = Arg(("-y", "--yes"), action="store_true", help="Do it; without this only say what would be done")

REPLAYED = Arg(("--batch",), required=True, help="The committed batch to replay, or one that was set aside")
DAG_ID = Arg(("--dag-id",), help="The DAG to start. Default: that of the batch's owner")
GROUP_ID = Arg(("--group-id",), help="Its StreamBatch group. Default: that of the batch's owner")

ONE_BATCH = Arg(("--batch",), required=True, help="The batch, as 'batches' shows it")
IN_SCOPE = Arg(("--scope",), default="", help="The interval run that it belongs to. Default: wherever it is found")
SCOPE = Arg(("--scope",), default="", help="The interval run that it belongs to. Default: the live application")
ROOT = Arg(("--root",), required=True, help="The output root, as the application names it; any spelling will do")
ROOTS_BATCH = Arg(("--batch",), help="Only of this batch. Default: of all that name the root")
STAGING = Arg(
    ("--staging",),
    help=(
        "The staging folder: an absolute path, file:///... or s3://bucket/prefix?aws_conn_id=CONN_ID. "
        "Default: the setting staging in section shardbatch of Airflow's configuration"
    ),
)
SHARDS = Arg(("--shard",), action="append", default=[], help="This shard (may be given again)")
ALL = Arg(("--all",), action="store_true", help="All shards, for which it can be done")
TO = Arg(
    ("--to",),
    help=(
        "TRIM_HORIZON, an instant like 2026-11-28T00:00:00+00:00, or for one shard a checkpoint as 'shards' shows it; "
        "a number of fewer than 21 digits, which may be a date, as sequence:NUMBER"
    ),
)
STREAM_ID = Arg(
    ("--stream-id",),
    help="With --all: the stream was created again; accept this identity, as StreamRecreated names it, and begin anew",
)
FORCE = Arg(("--force",), action="store_true", help="Also what has an owner: a run that is alive fails then")

KCL_TABLE = Arg(("--table",), required=True, help="KCL's lease table in DynamoDB; it has the name of KCL's application")
CONN_ID = Arg(
    ("--conn-id",),
    default="aws_default",
    help="The AWS connection to the stream and KCL's table; '': this machine's own credentials. Default: aws_default",
)
REGION = Arg(("--region",), help="The region of both. Default: the connection's")
START = Arg(
    ("--start",),
    help="Where shards begin of which KCL says LATEST or AT_TIMESTAMP and no instant: TRIM_HORIZON, or an instant",
)
WATCH = Arg(
    ("--watch",),
    type=_seconds,
    default=30.0,
    help="Seconds for which KCL's leases must stand still; more than twice its failover time. Default: 30",
)

STORE = (APP_NAME, STREAM_NAME, LEASES)

GROUP = GroupCommand(
    name="shardbatch",
    help="Consume sharded streams in batches: look at applications, free and move what is stuck",
    subcommands=(
        ActionCommand(
            name="list",
            help="The applications of a lease store",
            func=lazy_load_command("shardbatch.cli.commands.list_applications"),
            args=(LEASES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="status",
            help="How an application stands: lag, shards, unfinished batches, owners",
            func=lazy_load_command("shardbatch.cli.commands.status"),
            args=(*STORE, ARG_OUTPUT),
        ),
        ActionCommand(
            name="shards",
            help="Every shard: state, owner, checkpoint, lag",
            func=lazy_load_command("shardbatch.cli.commands.shards"),
            args=(*STORE, STATE, OWNED_BY, SORT, SHOWN, ARG_OUTPUT),
        ),
        ActionCommand(
            name="batches",
            help="The latest batches, newest first",
            func=lazy_load_command("shardbatch.cli.commands.batches"),
            args=(*STORE, LIMIT, ARG_OUTPUT),
        ),
        ActionCommand(
            name="release",
            help="Free leases, or a frozen batch, whose owner will not come back",
            description=(
                "Frees leases, or makes a frozen batch free to be taken over. A preview unless --yes is given. "
                "Nothing is lost: an owner that was alive after all fails with LeaseLost. "
                "Exit code 3: something was left as it was, the table says why."
            ),
            func=lazy_load_command("shardbatch.cli.commands.release"),
            args=(*STORE, OWNER, SHARD, BATCH, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="park",
            help="Make a frozen batch wait for unpark, its shards with it; all others go on",
            func=lazy_load_command("shardbatch.cli.commands.park"),
            args=(*STORE, ONE_BATCH, IN_SCOPE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="unpark",
            help="Resume a parked batch; max_attempts counts anew",
            func=lazy_load_command("shardbatch.cli.commands.unpark"),
            args=(*STORE, ONE_BATCH, IN_SCOPE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="set-aside",
            help="Decide a frozen or parked batch without output: its shards go on behind it",
            description=(
                "No reader sees the batch's records until it is replayed; its slices are kept for that. "
                "A run that is at work on it fails in its commit. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.set_aside"),
            args=(*STORE, ONE_BATCH, IN_SCOPE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="drop",
            help="Discard a batch, its slices go into a later one; forget one set aside; take an interval's back",
            description=(
                "No record is lost. What an application may have written for the batch stays in the sink as orphans; "
                "they are named, here and by 'status'. A run that is at work on it fails in its commit. "
                "Of a committed batch of an interval, readers see the output no longer. "
                "A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.drop"),
            args=(*STORE, ONE_BATCH, IN_SCOPE, STAGING, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="accept-gap",
            help="Let shards go on behind records that expired unread",
            description="Who and why stand in the manifest of the batch with the gap. A preview unless --yes is given.",
            func=lazy_load_command("shardbatch.cli.commands.accept_gap"),
            args=(*STORE, SHARDS, ALL, SCOPE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="reset",
            help="Move shards and their descendants to a position, or begin anew on a stream that was created again",
            description=(
                "The preview says of every shard from where to where, what is read twice and what may be lost, and "
                "which batches are discarded. All or nothing: what has an owner is left, unless --force is given. "
                "A reset that died is finished by another. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.reset"),
            args=(*STORE, SHARDS, ALL, TO, STREAM_ID, FORCE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="forget-root",
            help="Take an output root that is gone for good out of the rows, so that no run waits for it",
            description=(
                "Markers of the batches that name the root are not written there any more. All else of them stays, and "
                "so does what stands in the root, should it be there after all. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.forget_root"),
            args=(*STORE, ROOT, ROOTS_BATCH, SCOPE, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="adopt-root",
            help="Hand an output root to this application; the one that had it is refused from then on",
            description=(
                "What the other application committed there stays, and readers go on seeing it. Left while that one "
                "has batches that are not decided. Needs the setting staging. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.adopt_root"),
            args=(*STORE, ROOT, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="sum-markers",
            help="Sum the markers of an output root now, so that readers of it are quick",
            description=(
                "Commits do it by themselves once many are loose; what readers see does not change. Needs the setting "
                "staging. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.sum_markers"),
            args=(*STORE, ROOT, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="replay",
            help="Start a run that works on a committed batch again",
            description=(
                "Starts a run of the batch's own DAG that replays it: the work runs again and its output takes the "
                "place of the old, no checkpoint moves, nothing new is read. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.replay"),
            args=(*STORE, REPLAYED, DAG_ID, GROUP_ID, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="import-kcl",
            help="Go on where an application of the Kinesis Client Library stands",
            description=(
                "Makes a new application of KCL's leases, each at its checkpoint; KCL's table is only read. Refused "
                "while KCL workers are alive. All or nothing; one that died is finished by another, and nothing can "
                "be claimed before. A preview unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.import_kcl"),
            args=(*STORE, KCL_TABLE, CONN_ID, REGION, START, WATCH, REASON, YES, ARG_OUTPUT),
        ),
        ActionCommand(
            name="migrate",
            help="Bring tables and rows of an earlier version to this one",
            description=(
                "Adds the tables and columns that this version wants, which workers of the version before do not mind, "
                "and raises the application's schema version. A preview, with the statements, unless --yes is given."
            ),
            func=lazy_load_command("shardbatch.cli.commands.migrate"),
            args=(*STORE, REASON, YES, ARG_OUTPUT),
        ),
    ),
)
