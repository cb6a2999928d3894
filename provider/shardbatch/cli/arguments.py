# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``airflow shardbatch``; the commands behind them are loaded when they run."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, GroupCommand, lazy_load_command

APP_NAME = Arg(("-a", "--app-name"), required=True, help="The application: app_name of the StreamBatch group")
STREAM_NAME = Arg(("-s", "--stream-name"), required=True, help="The stream that the application reads")
LEASES = Arg(
    ("-l", "--leases"),
    help=(
        "The lease store: sql://CONN_ID or dynamodb://TABLE?conn_id=CONN_ID&region=REGION. "
        "Default: leases in section [shardbatch] of Airflow's configuration"
    ),
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

STORE = (APP_NAME, STREAM_NAME, LEASES)

GROUP = GroupCommand(
    name="shardbatch",
    help="Consume sharded streams in batches: look at applications, free what is stuck",
    subcommands=(
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
            args=(*STORE, ARG_OUTPUT),
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
    ),
)
