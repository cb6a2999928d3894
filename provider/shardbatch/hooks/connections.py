# SPDX-License-Identifier: Apache-2.0
"""Airflow connections: looked up by id, and turned into AWS sessions and SQLAlchemy URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError, ConnectionUnknown, StoreError
from shardbatch.hooks.sql_fields import asks_for_iam, driver_fields
from shardbatch.masking import shown

if TYPE_CHECKING:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    from airflow.sdk import Connection
    from sqlalchemy import URL

#: SQL connection types of Airflow: SQLAlchemy's name of the database and the drivers to use, the best first.
DATABASES = {
    "postgres": ("postgresql", ("psycopg", "psycopg2")),
    "postgresql": ("postgresql", ("psycopg", "psycopg2")),
    "mysql": ("mysql", ("pymysql", "MySQLdb")),
    "mariadb": ("mariadb", ("pymysql", "MySQLdb")),
    "sqlite": ("sqlite", ("sqlite3",)),
}
#: Our extras that bring the providers which define these types.
SQL_EXTRAS = "[postgres], [mysql] or [sqlite]"
#: The host of an RDS instance or an Aurora cluster, which names its region.
RDS_HOST = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-[0-9]+)\.rds\.amazonaws\.com(?:\.cn)?\.?$", re.IGNORECASE)
#: First numbers of versions of MariaDB's C library, its own and those of the server that it may come with.
MARIADB_LIBRARIES = ("3", "10", "11", "12")
_DRIVER_WORDS = {"MySQLdb": "mysqldb", "sqlite3": "pysqlite"}


def require_id(what: str, conn_id: str | None) -> None:
    """See that a text is the id of a connection and no URL, which may hold a password and is not repeated.

    :raises ConfigurationError: if it is a URL.
    """
    if conn_id is not None and "{{" not in conn_id and ("://" in conn_id or {"@", "?", "="} & {*conn_id}):
        raise ConfigurationError(
            f"{what} is a URL and no connection's id.",
            remedy="Make an Airflow connection of it and give the connection's id.",
        )


#: What AWS says of a role that cannot be assumed however often it is tried.
ROLE_REFUSED = frozenset(
    {
        *("AccessDenied", "AccessDeniedException", "MalformedPolicyDocument", "MissingAuthenticationToken"),
        *("PackedPolicyTooLarge", "RegionDisabledException", "ValidationError"),
    }
)
#: Seconds that a call of AWS waits for a connection, and for the next byte of its answer, if the connection's extra
#: says nothing else in ``config_kwargs`` (``connect_timeout``, ``read_timeout``). A subscription is not silent for
#: longer than 5 seconds, and no answer takes longer to begin.
TIMEOUTS = {"connect_timeout": 10, "read_timeout": 30}


def connection(conn_id: str) -> Connection:
    """The connection with this id.

    :raises ConnectionUnknown: if Airflow does not know it. Airflow says so, too, while a secrets backend is away.
    :raises ConfigurationError: if the worker may not read it, or for a URL.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    require_id("What was given as a connection", conn_id)
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        name = conn_id.upper()
        raise ConnectionUnknown(
            f"There is no Airflow connection {conn_id!r}, or what keeps connections did not answer.",
            remedy=f"Add it under Admin, Connections, or as the environment variable AIRFLOW_CONN_{name}; for AWS, "
            f"aws_conn_id=None uses the worker's own credentials. {ConnectionUnknown.remedy}",
        ) from error
    except PermissionError as error:
        raise ConfigurationError(
            f"This worker may not read the Airflow connection {conn_id!r}: {error}.",
            remedy="Allow it, or name another connection.",
        ) from shown(error)
    except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises
        raise ConnectionUnknown(
            f"The Airflow connection {conn_id!r} could not be read ({type(error).__name__}: {error})."
        ) from shown(error)


def aws_hook(service: str, conn_id: str | None, region_name: str | None) -> AwsBaseHook:
    """The amazon provider's hook of a service; ``None`` as id stands for the worker's own credentials.

    :raises ConfigurationError: if the connection or the provider is missing.
    """
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    except ImportError as error:
        raise ConfigurationError(
            f"AWS needs the Python package {error.name!r}, which is not installed.",
            remedy="Install airflow-provider-shardbatch[aws] on every worker.",
        ) from error
    found = None if conn_id is None else connection(conn_id)
    if found is not None and found.conn_type not in ("aws", None, ""):
        refuse_generic(found, "[aws]")
        raise ConfigurationError(
            f"The connection {conn_id!r} is of type {found.conn_type!r}, not aws.",
            remedy="Name a connection of type Amazon Web Services.",
        )
    hook = AwsBaseHook(aws_conn_id=conn_id, client_type=service, region_name=region_name)
    if found is not None:
        # The hook would look it up again, and go on with the worker's own credentials if it is not found just then.
        hook.get_connection = lambda conn_id: found  # type: ignore[method-assign]
    return hook


def aws_session(hook: AwsBaseHook, region_name: str | None) -> Any:
    """The hook's boto3 session; a role that its connection names is assumed, and again before it ends.

    :raises ConfigurationError: if AWS does not allow that.
    """
    from botocore.exceptions import ClientError

    try:
        return _session(hook, region_name)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in ROLE_REFUSED:
            raise  # it may pass: rates, a clock, credentials that are being renewed, the service itself
        raise ConfigurationError(
            f"The connection {hook.aws_conn_id!r} cannot assume its role: {error}.",
            remedy="Correct role_arn and the credentials in the connection, or the trust policy of the role.",
        ) from error


def _session(hook: AwsBaseHook, region_name: str | None) -> Any:
    if hook.verify is None or not hook.conn_config.role_arn:
        return hook.get_session(region_name=region_name)
    from airflow.providers.amazon.aws.hooks.base_aws import SessionFactory

    factory = SessionFactory(conn=hook.conn_config, region_name=region_name, config=hook.config)
    # The provider asks for the role with a client that does not know the connection's "verify".
    factory.basic_session._session.set_config_variable("ca_bundle", hook.verify)
    return factory.create_session()


def aws_client(service: str, conn_id: str | None, region_name: str | None, **config: Any) -> Any:
    """A boto3 client of what a connection says; ``config`` (botocore's ``Config``) wins over the connection's own,
    which wins over :data:`TIMEOUTS`.

    :raises ConfigurationError: if the connection, the provider or the region is missing, or its role is not allowed.
    """
    hook = aws_hook(service, conn_id, region_name)
    return client_of(hook, aws_session(hook, region_name), TIMEOUTS, **config)


def client_of(hook: AwsBaseHook, session: Any, defaults: Mapping[str, Any], **config: Any) -> Any:
    """The one way from a connection to a client of Kinesis, DynamoDB or S3: with its endpoint (else that of
    ``AWS_ENDPOINT_URL_…``), its ``verify`` (else ``AWS_CA_BUNDLE``), its ``config_kwargs`` with proxies, and a session
    that renews its credentials.

    :param defaults: of botocore's ``Config``, where the connection says nothing.
    :param config: of botocore's ``Config``, whatever the connection says.
    :raises ConfigurationError: if no region is named.
    """
    from botocore.config import Config
    from botocore.exceptions import NoRegionError

    service = hook.client_type
    assert service is not None
    try:
        # The hook's own client would name the calling operator to AWS, for which it looks at every loaded module.
        return session.client(
            service_name=service,
            endpoint_url=hook.conn_config.get_service_endpoint_url(service),
            config=Config(**defaults).merge(hook.config).merge(Config(**config)),
            verify=hook.verify,
        )
    except NoRegionError as error:
        raise ConfigurationError(
            f"The connection {hook.aws_conn_id!r} names no region.",
            remedy='Put {"region_name": "…"} into its extra, or give region_name.',
        ) from error


@dataclass(frozen=True)
class SQLTarget:
    """A SQLAlchemy URL, whose text hides the password, and what else the driver is told; that is never shown.
    ``password`` gives one for each new connection, in place of the URL's."""

    url: URL
    arguments: dict[str, Any] = field(repr=False)
    password: Callable[[], str] | None = field(default=None, repr=False)


def sql_target(conn_id: str) -> SQLTarget:
    """The database of a connection of a SQL type.

    :raises ConfigurationError: if the connection or a driver is missing, the type is no SQL database of ours, or its
        extra has a field for encryption or sign-in that cannot be handed on.
    """
    from sqlalchemy import URL

    found = connection(conn_id)
    if found.conn_type not in DATABASES:
        refuse_generic(found, SQL_EXTRAS)
        raise ConfigurationError(
            f"The connection {conn_id!r} is of type {found.conn_type!r}, which cannot keep leases.",
            remedy=f"Name one of type {', '.join(sorted(DATABASES))}, or use DynamoDBLeases.",
        )
    name, drivers = DATABASES[found.conn_type]
    installed = [driver for driver in drivers if find_spec(driver)]
    if not installed:
        raise ConfigurationError(
            f"The connection {conn_id!r} needs one of the Python packages {', '.join(drivers)}.",
            remedy="Install one on every worker.",
        )
    driver, extra = installed[0], found.extra_dejson
    if name == "sqlite":
        return _sqlite_target(found, f"{name}+{_DRIVER_WORDS[driver]}")
    fields = driver_fields(name, driver, extra, conn_id)
    if driver == "pymysql" and "ssl" in fields.arguments and (old := _old_pymysql()):
        _require_mysqlclient(conn_id, installed, old, iam=fields.iam)
        driver = "MySQLdb"
        fields = driver_fields(name, driver, extra, conn_id)
    if fields.arguments.get("ssl_mode") == "REQUIRED" and (library := _mariadb_library()):
        raise ConfigurationError(
            f"The connection {conn_id!r} asks for encryption, and mysqlclient, built with MariaDB's library {library}, "
            "goes on in plain text with a server that offers none.",
            remedy="Give ssl_ca in the extra, the file of the authority to verify the server by: then it does not. Or "
            "install PyMySQL 1.2 or later on every worker, or build mysqlclient with MySQL's own library.",
        )
    url = URL.create(
        f"{name}+{_DRIVER_WORDS.get(driver, driver)}",
        username=found.login,
        password=None if fields.iam else found.password,
        host=found.host,
        port=found.port,
        database=found.schema,
        query=fields.query,
    )
    if not fields.iam:
        return SQLTarget(url, fields.arguments)
    port = found.port or (5432 if name == "postgresql" else 3306)
    token = rds_token(conn_id, fields.aws_conn_id, found.host, port, found.login)
    return SQLTarget(url.set(port=port), fields.arguments, token)


def rds_token(
    conn_id: str, aws_conn_id: str | None, host: str | None, port: int, login: str | None
) -> Callable[[], str]:
    """Signs a token by which RDS lets a database user in; each lives for 15 minutes. No call is made. The region is the
    one that RDS's host names, else the AWS connection's.

    :raises ConfigurationError: if host or login, the AWS connection, its region or the amazon provider is missing.
    """
    if not (host and login):
        raise ConfigurationError(
            f"The connection {conn_id!r} asks for a token (iam) and lacks its host or its login.",
            remedy="Give both: a token is signed for them.",
        )
    named = RDS_HOST.search(host)
    client = aws_client("rds", aws_conn_id, named.group(1) if named else None)

    def token() -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            signed: str = client.generate_db_auth_token(DBHostname=host, Port=port, DBUsername=login)
        except (BotoCoreError, ClientError, RuntimeError) as error:  # RuntimeError: credentials that are over
            raise StoreError(
                f"No token could be signed for the connection {conn_id!r}: {error}.",
                remedy=f"See that the AWS connection {aws_conn_id!r} has credentials; the task may be retried.",
            ) from shown(error)
        return signed

    return token


def refuse_generic(found: Connection, extras: str) -> None:
    """Say what has become of a connection whose type Airflow did not know. It is not guessed: the fields of each type
    mean something else.

    :raises ConfigurationError: for a generic one.
    """
    if found.conn_type == "generic":
        raise ConfigurationError(
            f"The connection {found.conn_id!r} is of type 'generic': Airflow did not know the type when it was added.",
            remedy="Install the Airflow provider of that type where connections are added (as the extra of "
            f"airflow-provider-shardbatch: {extras}), then delete the connection and add it again; or give it as "
            f"JSON in AIRFLOW_CONN_{found.conn_id.upper()}, which needs no provider.",
        )


def _require_mysqlclient(conn_id: str, installed: list[str], old: str, *, iam: bool) -> None:
    """See that another driver than a PyMySQL that goes on in plain text can be taken; mysqlclient sends no tokens.

    :raises ConfigurationError: if none can.
    """
    if "MySQLdb" in installed and not iam:
        return
    other = (
        "; Airflow's mysql provider wants an earlier one, so leave that out and give the connection as JSON in "
        "AIRFLOW_CONN_…."
        if iam
        else ", or mysqlclient."
    )
    raise ConfigurationError(
        f"The connection {conn_id!r} asks for encryption, and PyMySQL {old} goes on in plain text with a server that "
        "offers none.",
        remedy=f"Install PyMySQL 1.2 or later on every worker{other}",
    )


def _old_pymysql() -> str | None:
    """The version of PyMySQL that is installed, if it goes on in plain text with a server that offers no encryption,
    whatever it is told; 1.2 and later refuse such a server."""
    try:
        found = version("pymysql")
    except PackageNotFoundError:
        return None
    return found if [int(part) for part in found.split(".")[:2] if part.isdigit()] < [1, 2] else None


def _mariadb_library() -> str | None:
    """The version of MariaDB's C library, if mysqlclient was built with it (Debian's ``default-libmysqlclient-dev``).
    Unless it verifies a certificate, it takes plain text where a server offers no encryption; MySQL's library does not.
    """
    try:
        found = str(import_module("MySQLdb._mysql").get_client_info())
    except ImportError:  # told when the store is opened
        return None
    return found if found.partition(".")[0] in MARIADB_LIBRARIES else None


def _sqlite_target(found: Connection, drivername: str) -> SQLTarget:
    from sqlalchemy import URL

    if asks_for_iam(found.extra_dejson):
        raise ConfigurationError(
            f"The connection {found.conn_id!r} has 'iam' in its extra, and SQLite is a file that nobody signs in to.",
            remedy="Take it out, or name a connection of type postgres or mysql.",
        )
    return SQLTarget(URL.create(drivername, database=_sqlite_file(found)), {})


def _sqlite_file(found: Connection) -> str:
    # Airflow's own hook takes the file from the host field; a connection given as a URI puts it into the schema.
    path = found.host or (f"/{found.schema.lstrip('/')}" if found.schema else "")
    if not path.startswith("/"):
        raise ConfigurationError(
            f"The SQLite connection {found.conn_id!r} names no absolute file: {path!r}.",
            remedy='Give it as {"conn_type": "sqlite", "host": "/path/leases.db"}.',
        )
    return path
