# SPDX-License-Identifier: Apache-2.0
"""The section ``[shardbatch]`` of Airflow's configuration: settings of a whole deployment."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

from airflow.sdk.configuration import conf

from shardbatch.core.archive import archive_days
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.leases import DynamoDBLeases, Leases, SQLLeases
from shardbatch.hooks.renamed import by_new_names
from shardbatch.hooks.staging import Staging
from shardbatch.masking import masked

#: The deployment of a lease store that no other deployment can reach: a SQLite file.
LOCAL = "local"


def setting(name: str) -> str:
    """An option's value, empty if it is not set."""
    return str(conf.get("shardbatch", name, fallback="") or "").strip()


#: Seconds of the settings that are times, where nothing is set, and how many there may be.
SECONDS = {"store_timeout": 30.0, "staging_timeout": 60.0}
SHORTEST_S, LONGEST_S = 1.0, 3600.0


def seconds_setting(name: str) -> float:
    """A setting that is a time, in seconds.

    :raises ConfigurationError: if it is not a number from 1 to 3600.
    """
    text = setting(name)
    try:
        seconds = float(text) if text else SECONDS[name]
    except ValueError:
        seconds = 0.0
    if not SHORTEST_S <= seconds <= LONGEST_S:  # nor is nan
        raise ConfigurationError(
            f"Airflow's setting [shardbatch] {name} = {text!r} is not a time.", remedy="Give seconds, 1 to 3600."
        )
    return seconds


def archive_setting() -> timedelta:
    """How long the slices of a committed batch are kept, where a clean-up does not name it.

    :raises ConfigurationError: if the setting does not give days, 0 to 36500.
    """
    return archive_days(setting("archive_for"), "Airflow's setting [shardbatch] archive_for")


def deployment_id(leases: Leases) -> str:
    """The name of this Airflow deployment among all that use the store.

    :raises ConfigurationError: if it is not set and the store may be shared.
    """
    found = setting("deployment_id")
    if not found and leases.shared():
        raise ConfigurationError(
            "Airflow's setting [shardbatch] deployment_id is not set, and others may use the same lease store.",
            remedy="Set AIRFLOW__SHARDBATCH__DEPLOYMENT_ID on every worker to a name that no other Airflow has.",
        )
    return found or LOCAL


def default_leases() -> Leases | None:
    """The lease store of groups that do not name one, if the deployment has a default.

    :raises ConfigurationError: if the setting cannot be read.
    """
    text = setting("leases")
    return leases_of(text, "Airflow's setting [shardbatch] leases") if text else None


def chosen_leases(given: Leases | None) -> Leases:
    """The lease store that an author names, or else the deployment's default.

    :raises ConfigurationError: if there is none, or the setting cannot be read.
    """
    found = given or default_leases()
    if found is None:
        raise _missing("leases")
    return found


def chosen_staging(given: Staging | None) -> Staging:
    """The staging folder that an author names, or else the deployment's default.

    :raises ConfigurationError: if there is none, or the setting cannot be read.
    """
    found = given or default_staging()
    if found is None:
        raise _missing("staging")
    return found


def _missing(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"No {name} given.", remedy=f"Give {name}=, or set [shardbatch] {name} in Airflow's configuration."
    )


def leases_of(text: str, where: str) -> Leases:
    """The lease store that a text names; the error says ``where`` the text was given.

    :raises ConfigurationError: if it cannot be read.
    """
    parts = urlsplit(text)
    options = _options(parts.query, where)
    name = parts.netloc if not parts.path.strip("/") and not {"@", ":"} & set(parts.netloc) else ""
    if parts.scheme == "sql" and name and not options:
        return SQLLeases(name)
    if parts.scheme == "dynamodb" and parts.netloc.startswith("arn:") and "@" not in text:
        name = parts.netloc + parts.path  # an ARN has colons and a slash
    if parts.scheme == "dynamodb" and name and not options.keys() - {"aws_conn_id", "region"}:
        return DynamoDBLeases(name, options.get("aws_conn_id", "aws_default"), options.get("region"))
    raise ConfigurationError(
        f"{where} = {masked(text)!r} cannot be read.",
        remedy="Write sql://CONN_ID or dynamodb://TABLE?aws_conn_id=aws_default&region=eu-west-1.",
    )


def _options(query: str, where: str) -> dict[str, str]:
    return by_new_names(dict(parse_qsl(query)), {"conn_id": "aws_conn_id"}, where)


def default_staging() -> Staging | None:
    """The staging folder of groups that do not name one, if the deployment has a default.

    :raises ConfigurationError: if the setting cannot be read.
    """
    text = setting("staging")
    return staging_of(text, "Airflow's setting [shardbatch] staging") if text else None


def staging_of(text: str, where: str) -> Staging:
    """The staging folder that a text names; the error says ``where`` the text was given.

    :raises ConfigurationError: if it cannot be read.
    """
    uri, _, query = text.partition("?")
    options = _options(query, where)
    if options.keys() - {"aws_conn_id", "region", "private"} or options.get("private", "true") not in ("true", "false"):
        raise ConfigurationError(
            f"{where} = {masked(text)!r} cannot be read.",
            remedy="Write a URI, for S3 as s3://bucket/prefix?aws_conn_id=aws_default.",
        )
    private = options.get("private") != "false"
    return Staging(uri, options.get("aws_conn_id"), options.get("region"), private=private)
