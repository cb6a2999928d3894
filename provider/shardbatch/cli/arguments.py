# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``airflow shardbatch``; the commands behind them are loaded when they run.

What a person does, and with which arguments, stands in ``shardbatch.control.verbs``; here is what people look at.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from argparse import Namespace as Arguments
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, GroupCommand, lazy_load_command

from shardbatch.control.position_verbs import FORMAT
from shardbatch.control.verb import Argument, Verb
from shardbatch.control.verbs import MIGRATE, REPLAY, VERBS
from shardbatch.core.choices import SHARD_STATES


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ArgumentTypeError(f"{text} is below zero")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0.1 <= number <= 86_400:
        raise ArgumentTypeError(f"{text} is not 0.1 to 86400")
    return number


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.startswith("spark.") or not equals:
        raise ArgumentTypeError(f"{text} is not spark.NAME=VALUE")
    return name, value


APP_NAME = Arg(("-a", "--app-name"), required=True, help="The application: app_name of the StreamBatch group")
STREAM_NAME = Arg(("-s", "--stream-name"), required=True, help="The stream that the application reads")
LEASES = Arg(
    ("-l", "--leases"),
    help=(
        "The lease store: sql://CONN_ID or dynamodb://TABLE?aws_conn_id=CONN_ID&region=REGION. "
        "Default: the setting leases in section shardbatch of Airflow's configuration"
    ),
)
STATE = Arg(("--state",), action="append", choices=SHARD_STATES, help="Only shards in this state (may be given again)")
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
WATCHED = Arg(
    ("--limit",), type=_count, help="How many shards at most; 0: all. Default: as the terminal has lines, else 50"
)
EVERY = Arg(("--every",), type=_seconds, default=5.0, help="Seconds between two looks, at least 0.1. Default: 5")
ONCE = Arg(("--once",), action="store_true", help="Look once, print a table and end")
LIMIT = Arg(("--limit",), type=int, default=20, help="How many batches at most, newest first. Default: 20")
REASON = Arg(("--reason",), default="", help="Why; kept on the application row. Needed with --yes")
YES = Arg(("-y", "--yes"), action="store_true", help="Do it; without this only say what would be done")

STAGING = Arg(
    ("--staging",),
    help=(
        "The staging folder: an absolute path, file:///... or s3://bucket/prefix?aws_conn_id=CONN_ID. "
        "Default: the setting staging in section shardbatch of Airflow's configuration"
    ),
)
STORE = (APP_NAME, STREAM_NAME, LEASES)
STREAM = (
    Arg(
        ("--conn-id",),
        default="aws_default",
        help="The AWS connection to the stream; '': this machine's own credentials. Default: aws_default",
    ),
    Arg(("--region",), help="The region of the stream. Default: that of its ARN, else the connection's"),
)
TO_FILE = Arg(("--file",), help="Write to this file, which is replaced as a whole. Default: standard output")

SPARK_BINARY = Arg(
    ("--spark-binary",), default="spark-submit", help="The spark-submit of the Spark connection. Default: spark-submit"
)
SPARK_CONF = Arg(
    ("--conf",),
    type=_setting,
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="A setting that changes Spark's class path, as spark.driver.extraClassPath=... (may be given again)",
)

#: Verbs that ask for more than the rows and staging, and the commands that do it.
OWN_COMMANDS = {
    REPLAY.name: "replay",
    "import-kcl": "import_kcl",
    "positions import": "import_positions",
    MIGRATE.name: "migrate",
}


def _of_kcl() -> tuple[Verb, ...]:
    """The verb of the wing for KCL, which can be deleted."""
    try:
        from shardbatch.kcl.verbs import IMPORT_KCL
    except ModuleNotFoundError as error:
        if error.name not in ("shardbatch.kcl", "shardbatch.kcl.verbs"):
            raise
        return ()
    return (IMPORT_KCL,)


class CompletedArg(Arg):
    """An argument whose words a shell completes (argcomplete); others are taken, too.

    :param words: these words; default: none, so that a shell offers the names of files.
    """

    def __init__(self, words: Sequence[str], flags: tuple[str, ...], **more: Any) -> None:
        super().__init__(flags, **more)  # type: ignore[no-untyped-call]  # as Airflow has it
        self._words = tuple(words)

    def add_to_parser(self, parser: ArgumentParser) -> None:
        """Add it, with its words."""
        made: Any = parser.add_argument(*self.flags, **self.kwargs)
        if self._words:
            made.completer = lambda **asked: self._words


def _argument(argument: Argument) -> Arg:
    words: dict[str, Any] = {"help": argument.help}
    if argument.required and argument.flag.startswith("-"):
        words["required"] = True
    if argument.switch:
        words["action"] = "store_true"
    elif argument.many:
        words |= {"action": "append", "default": []}
    elif argument.default is not None:
        words["default"] = argument.default
    if argument.parse is not None:
        words["type"] = argument.parse
    return CompletedArg(argument.words, (argument.flag,), **words)


def _command(verb: Verb) -> ActionCommand:
    more = (*((STAGING,) if verb.staging else ()), *(STREAM if verb.positions or verb.removes else ()))
    return ActionCommand(
        name=verb.name.rpartition(" ")[2],
        help=verb.help,
        description=verb.more or None,
        func=_acting(verb),
        args=(*STORE, *map(_argument, verb.arguments), *more, REASON, YES, ARG_OUTPUT),
    )


def _acting(verb: Verb) -> Callable[[Arguments], None]:
    if verb.name in OWN_COMMANDS:
        return lazy_load_command(f"shardbatch.cli.commands.{OWN_COMMANDS[verb.name]}")

    def command(args: Arguments) -> None:
        from shardbatch.cli.commands import act

        act(verb, args)

    command.__name__ = verb.name.replace("-", "_").replace(" ", "_")  # as those that Airflow loads are called
    return command


def _commands(verbs: Iterable[Verb]) -> Iterator[ActionCommand]:
    """Those that stand by themselves; what has two words stands in a group."""
    return (_command(verb) for verb in verbs if " " not in verb.name)


#: What is said of positions that are written down.
POSITIONS = GroupCommand(
    name="positions",
    help="Where each shard stands, written down: to copy or move an application, or to change programs",
    subcommands=(
        ActionCommand(
            name="export",
            help="Write down where an application stands, by what is committed",
            description=(
                "Prints the positions as JSON, and on standard error what they cannot say. Nothing is changed. The "
                "stream is asked for its shards."
            ),
            func=lazy_load_command("shardbatch.cli.commands.export_positions"),
            args=(*STORE, _argument(FORMAT), *STREAM, TO_FILE),
        ),
        *(_command(verb) for verb in VERBS.values() if verb.name.startswith("positions ")),
    ),
)

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
            name="watch",
            help="The shards in the terminal, looked at again and again",
            description=(
                "Ctrl-C ends it. Where the output is not a terminal, it prints one table below the other. Nothing is "
                "changed."
            ),
            func=lazy_load_command("shardbatch.cli.watch.watch"),
            args=(*STORE, STATE, OWNED_BY, SORT, WATCHED, EVERY, ONCE),
        ),
        ActionCommand(
            name="batches",
            help="The latest batches, newest first",
            func=lazy_load_command("shardbatch.cli.commands.batches"),
            args=(*STORE, LIMIT, ARG_OUTPUT),
        ),
        *_commands((*VERBS.values(), *_of_kcl())),
        POSITIONS,
        ActionCommand(
            name="warm-spark",
            help="Make the archive of Spark's classes on this worker, for jvm='quick'",
            description=(
                "Runs a small Spark job once. Call it on every worker, as the user of the workers and in their "
                "environment, and again when Java or Spark has changed. An archive that fits is not made again."
            ),
            func=lazy_load_command("shardbatch.cli.warm.warm_spark"),
            args=(SPARK_BINARY, SPARK_CONF),
        ),
    ),
)
