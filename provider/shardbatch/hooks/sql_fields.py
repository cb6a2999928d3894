# SPDX-License-Identifier: Apache-2.0
"""Translates the extra of a SQL connection into arguments of the database's driver.

A field for encryption or sign-in that is not understood is refused by name, so that a connection never uses plain text
or another user because a field was ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardbatch.errors import ConfigurationError
from shardbatch.masking import is_secret

#: The parameters of libpq that a connection may have; psycopg and psycopg2 hand them on.
_LIBPQ = frozenset(
    (
        *("sslmode", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslpassword", "sslcertmode"),
        *("sslrootcert", "sslcrl", "sslcrldir", "sslsni", "ssl_min_protocol_version", "ssl_max_protocol_version"),
        *("requiressl", "requirepeer", "require_auth", "channel_binding", "passfile", "service", "servicefile"),
        *("gssencmode", "gssdelegation", "gsslib", "krbsrvname"),
        *("hostaddr", "connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval"),
        *("keepalives_count", "application_name", "fallback_application_name", "options", "client_encoding"),
        *("target_session_attrs", "load_balance_hosts"),
    )
)
_MYSQL_TEXTS = ("charset", "unix_socket")
_MYSQL_SECONDS = ("connect_timeout", "read_timeout", "write_timeout")
#: Within ``ssl``, or with ``ssl_`` before it.
_MYSQL_TLS = ("ca", "capath", "cert", "key", "cipher", "check_hostname", "verify_cert", "verify_identity", "mode")
_MYSQL_MODES = ("DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")

#: Names that have to do with encryption or sign-in; ``authority`` has, and ``author``, ``assigned`` and ``signal`` have
#: not.
_SIGN_IN = re.compile(
    r"(?i)ssl|tls|cert|crl|auth(?!or(?!i[stz]))|((?<![a-z])|(?-i:(?<=[a-z])(?=S)))sign(?!al)|(?<![a-z])iam|iam(?![a-z])"
    r"|(?-i:Iam|IAM)|scram|gss|krb|kerberos|sasl|(^|[_-])ca($|[_-])|redshift|workgroup"
)
_POSTGRES_NAMES = {
    "ssl": "sslmode",
    "ssl_mode": "sslmode",
    "ssl_ca": "sslrootcert",
    "ssl_cert": "sslcert",
    "ssl_key": "sslkey",
}
_MYSQL_NAMES = {
    "sslmode": "ssl_mode",
    "sslrootcert": "ssl_ca",
    "sslcert": "ssl_cert",
    "sslkey": "ssl_key",
    "tls": "ssl",
}
#: Values that say nothing, as a form leaves them.
_BLANK: tuple[object, ...] = (None, "", {}, [])
_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class DriverFields:
    """``query`` is not secret and becomes part of the URL; ``arguments`` are passed to the driver and never shown. With
    ``iam`` the password is a token, signed with the AWS connection ``aws_conn_id``."""

    query: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)
    iam: bool = False
    aws_conn_id: str | None = None


def driver_fields(database: str, driver: str, extra: Mapping[str, Any], conn_id: str) -> DriverFields:
    """The fields of an extra for a driver.

    :param database: ``postgresql``, ``mysql`` or ``mariadb``.
    :param driver: the driver's Python package.
    :raises ConfigurationError: naming a field for encryption or sign-in that cannot be passed on, and what to write.
    """
    inner = extra.get("sqlalchemy_query")
    fields = {**(inner if isinstance(inner, Mapping) else {}), **extra}
    iam = asks_for_iam(fields)
    found = DriverFields(iam=iam, aws_conn_id=fields.get("aws_conn_id", "aws_default"))
    if iam:
        _require_rds(fields, driver, conn_id)
        if database == "postgresql":
            # A token is a password, and RDS takes it encrypted only.
            fields["sslmode"] = fields.get("sslmode") or "require"
        elif not any(name == "ssl" or name.startswith("ssl_") for name, value in fields.items() if value not in _BLANK):
            fields["ssl_mode"] = "REQUIRED"
    if database == "postgresql":
        known, names = _LIBPQ, _POSTGRES_NAMES
        for name in sorted(known & fields.keys()):
            if fields[name] not in (None, ""):
                (found.arguments if is_secret(name) else found.query)[name] = _text(fields[name])
    else:
        tls = frozenset({"ssl", *(f"ssl_{name}" for name in _MYSQL_TLS)})
        known, names = frozenset({*_MYSQL_TEXTS, *_MYSQL_SECONDS, *tls}), _MYSQL_NAMES
        found.query.update({name: str(fields[name]) for name in _MYSQL_TEXTS if fields.get(name)})
        found.arguments.update(
            {name: _seconds(fields[name], name, conn_id) for name in _MYSQL_SECONDS if fields.get(name)}
        )
        found.arguments.update(_tls(driver, {name: fields[name] for name in tls & fields.keys()}, conn_id))
        if iam and "ssl" not in found.arguments:  # the server is sent it as it is
            raise ConfigurationError(
                f"The connection {conn_id!r} asks for a token (iam) without encryption: anyone on the network could "
                "read the token.",
                remedy="Take ssl and ssl_mode out of its extra, or give ssl_ca.",
            )
    for name in sorted(fields.keys() - known - {"iam"}):
        if (_SIGN_IN.search(name) or is_secret(name)) and _asked(fields[name]):
            raise _refused(conn_id, name, driver, f"Write {names[name]} instead" if name in names else "Take it out")
    return found


def asks_for_iam(fields: Mapping[str, Any]) -> bool:
    """Whether a token of AWS replaces the password."""
    return bool(_asked(fields.get("iam")))


def _require_rds(fields: Mapping[str, Any], driver: str, conn_id: str) -> None:
    """Check that the requested token is one of RDS.

    :raises ConfigurationError: naming the field that asks for another one, or the driver that cannot send it.
    """
    for name in ("azure_conn_id", "redshift", "redshift-serverless", "cluster-identifier", "workgroup-name"):
        if _asked(fields.get(name)):
            raise _refused(
                conn_id, name, driver, "Sign-in by a token is known for RDS and Aurora only; give login and password"
            )
    if driver == "MySQLdb":
        raise _refused(
            conn_id, "iam", driver, "Install PyMySQL 1.2 or later on every worker, which sends a token encrypted only"
        )


def _refused(conn_id: str, name: str, driver: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        f"The connection {conn_id!r} has {name!r} in its extra, which cannot be handed to {driver}; without it the "
        "connection might go out in plain text, or be signed in otherwise.",
        remedy=f"{remedy}; docs/connections.md has what may stand there.",
    )


def _asked(value: Any) -> bool:
    return value not in _BLANK and _BOOLS.get(str(value).lower(), True)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _seconds(value: Any, name: str, conn_id: str) -> int:
    try:
        seconds = int(value)
    except (TypeError, ValueError, OverflowError):
        seconds = 0
    if not 0 < seconds <= 31_536_000:
        raise ConfigurationError(
            f"The connection {conn_id!r} has {name} = {value!r} in its extra.", remedy="Give whole seconds, above zero."
        )
    return seconds


def _tls(driver: str, given: dict[str, Any], conn_id: str) -> dict[str, Any]:
    """The encryption arguments of MySQL's drivers: a dictionary ``ssl``, and a mode that one of them has."""
    whole = given.pop("ssl", None)
    if isinstance(whole, str) and whole.strip().startswith("{"):
        try:
            whole = json.loads(whole)
        except ValueError:
            raise _refused(conn_id, "ssl", driver, "Write it as JSON") from None
    fields = {name.removeprefix("ssl_"): value for name, value in given.items() if value not in (None, "")}
    if isinstance(whole, Mapping):
        unknown = sorted(set(whole) - set(_MYSQL_TLS))
        if unknown:
            raise _refused(conn_id, f"ssl: {unknown[0]}", driver, f"Known are {', '.join(_MYSQL_TLS)}")
        fields = {**whole, **fields}
    elif _asked(whole):
        fields.setdefault("mode", "REQUIRED")
    if not fields:
        return {}
    mode = _mode(driver, fields, conn_id)
    files = {name: str(fields[name]) for name in ("ca", "capath", "cert", "key", "cipher") if name in fields}
    if mode == "DISABLED":
        return {"ssl_mode": mode} if driver == "MySQLdb" else {"ssl_disabled": True}
    if driver == "MySQLdb":
        return {"ssl_mode": mode, **({"ssl": files} if files else {})}
    return {"ssl": {**files, "verify_mode": mode != "REQUIRED", "check_hostname": mode == "VERIFY_IDENTITY"}}


def _mode(driver: str, fields: Mapping[str, Any], conn_id: str) -> str:
    """The mode that is named, or the one that the other fields imply.

    :raises ConfigurationError: for a mode that the driver does not have, or a mode that needs an authority without one.
    """
    authority = "ca" in fields or "capath" in fields
    if "mode" in fields:
        mode = str(fields["mode"]).upper().replace("-", "_")
    elif _asked(fields.get("verify_identity")):
        mode = "VERIFY_IDENTITY"
    elif "check_hostname" in fields or "verify_cert" in fields:
        host = _asked(fields.get("check_hostname")) and authority
        mode = (
            "VERIFY_IDENTITY" if host else "VERIFY_CA" if _asked(fields.get("verify_cert", authority)) else "REQUIRED"
        )
    else:
        mode = "VERIFY_IDENTITY" if authority else "REQUIRED"
    if mode not in _MYSQL_MODES:
        raise _refused(conn_id, "ssl_mode", driver, f"Give one of {', '.join(_MYSQL_MODES)}")
    if mode.startswith("VERIFY") and not authority:
        raise _refused(conn_id, "ssl_mode", driver, "Give ssl_ca too, the file of the authority to verify by")
    return mode
