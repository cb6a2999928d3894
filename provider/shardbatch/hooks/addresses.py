# SPDX-License-Identifier: Apache-2.0
"""The stream that an ARN names, of whichever service it is, as a person on the command line means it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shardbatch.errors import ConfigurationError

if TYPE_CHECKING:
    from shardbatch.hooks.streams import Stream


def stream_at(identity: str, aws_conn_id: str | None, region_name: str | None) -> Stream:
    """The stream of an identity, as an application's row has it.

    Its service is the third part of an ARN, and the module of that name here has the class that authors write.

    :param aws_conn_id: Airflow's AWS connection; ``None``: this machine's own credentials.
    :param region_name: default: the ARN's.
    :raises ConfigurationError: if it is not an ARN, or of a service that no class here is for.
    """
    named = _opener(identity)
    if named is None:
        raise ConfigurationError(
            f"The command line cannot open the stream {identity}: that is not the address of a service it knows.",
            remedy="Do it in a DAG, where the stream is an object: ExportPositionsOperator, ImportPositionsOperator.",
        )
    found: Stream = named(identity.partition("@")[0], aws_conn_id, region_name)
    return found


def is_known(identity: str) -> bool:
    """Whether a class here is for the service of a stream, so that :func:`stream_at` opens it."""
    return _opener(identity) is not None


def _opener(identity: str) -> Callable[..., Stream] | None:
    parts = identity.partition("@")[0].split(":")
    module = f"{__package__}.{parts[2]}" if parts[0] == "arn" and len(parts) > 5 and parts[2].isidentifier() else ""
    return getattr(import_module(module), "stream_at", None) if module and find_spec(module) is not None else None
