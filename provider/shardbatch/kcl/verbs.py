# SPDX-License-Identifier: Apache-2.0
"""The verb of this wing: what a person says to take over a KCL application."""

from __future__ import annotations

from argparse import ArgumentTypeError

from shardbatch.control.verb import Argument, UseCase, Verb

#: A year in seconds: longer is a slip of the pen.
_LONGEST_S = 366 * 86_400


def seconds(text: str) -> float:
    """A time on the command line.

    :raises ArgumentTypeError: if it is not above zero, or longer than a year.
    """
    number = float(text)
    if not 0 < number <= _LONGEST_S:  # nor is nan
        raise ArgumentTypeError(f"{text} is not above zero and at most {_LONGEST_S}")
    return number


def _import_kcl() -> UseCase:
    from shardbatch.kcl.take_over import import_kcl

    return import_kcl


WATCH = Argument(
    "watch",
    "--watch",
    "Seconds for which KCL's leases must stand still; more than twice its failover time. Default: 30",
    default=30.0,
    parse=seconds,
)

IMPORT_KCL = Verb(
    name="import-kcl",
    word="import",
    past="imported",
    help="Go on where an application of the Kinesis Client Library stands",
    more=(
        "Makes a new application of KCL's leases, each at its checkpoint; KCL's table is only read. Refused "
        "while KCL workers are alive. All or nothing; one that died is finished by another, and nothing can "
        "be claimed before. A preview unless --yes is given."
    ),
    arguments=(
        Argument(
            "table",
            "--table",
            "KCL's lease table in DynamoDB; it has the name of KCL's application",
            required=True,
        ),
        Argument(
            "conn_id",
            "--conn-id",
            "The AWS connection to the stream and KCL's table; '': this machine's own credentials. "
            "Default: aws_default",
            default="aws_default",
        ),
        Argument("region", "--region", "The region of both. Default: the connection's"),
        Argument(
            "start",
            "--start",
            "Start for shards whose KCL checkpoint is LATEST, or AT_TIMESTAMP without an instant: TRIM_HORIZON, or an "
            "instant",
        ),
        WATCH,
    ),
    use_case=_import_kcl,
)
