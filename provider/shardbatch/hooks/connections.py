# SPDX-License-Identifier: Apache-2.0
"""Airflow connections: looked up by id, and turned into AWS sessions and SQLAlchemy URLs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError

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
_DRIVER_WORDS = {"MySQLdb": "mysqldb", "sqlite3": "pysqlite"}

_MYSQL_FIELDS = ("charset", "ssl_ca", "ssl_cert", "ssl_key", "unix_socket", "connect_timeout")
#: Fields of a connection's extra that are the driver's business; the others are Airflow's.
_DRIVER_FIELDS = {
    "postgresql": (
        *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "connect_timeout", "application_name", "options"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("target_session_attrs", "channel_binding"),
    ),
    "mysql": _MYSQL_FIELDS,
    "mariadb": _MYSQL_FIELDS,
    "sqlite": (),
}


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

    :raises ConfigurationError: if there is none.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        name = conn_id.upper()
        raise ConfigurationError(
            f"There is no Airflow connection {conn_id!r}.",
            remedy=f"Add it under Admin, Connections, or as the environment variable AIRFLOW_CONN_{name}; for AWS, "
            "aws_conn_id=None uses the worker's own credentials.",
        ) from error


def aws_hook(service: str, conn_id: str | None, region_name: str | None) -> AwsBaseHook[Any]:
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
    if conn_id is not None:
        found = connection(conn_id)
        if found.conn_type not in ("aws", None, ""):
            raise ConfigurationError(
                f"The connection {conn_id!r} is of type {found.conn_type!r}, not aws.",
                remedy="Name a connection of type Amazon Web Services.",
            )
    return AwsBaseHook(aws_conn_id=conn_id, client_type=service, region_name=region_name)


def aws_session(hook: AwsBaseHook[Any], region_name: str | None) -> Any:
    """The hook's boto3 session; a role that its connection names is assumed.

    :raises ConfigurationError: if AWS does not allow that.
    """
    from botocore.exceptions import ClientError

    try:
        return hook.get_session(region_name=region_name)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in ROLE_REFUSED:
            raise  # it may pass: rates, a clock, credentials that are being renewed, the service itself
        raise ConfigurationError(
            f"The connection {hook.aws_conn_id!r} cannot assume its role: {error}.",
            remedy="Correct role_arn and the credentials in the connection, or the trust policy of the role.",
        ) from error


def aws_client(service: str, conn_id: str | None, region_name: str | None, **config: Any) -> Any:
    """A boto3 client; ``config`` (botocore's ``Config``) wins over the connection's own, which wins over
    :data:`TIMEOUTS`.

    :raises ConfigurationError: if the connection, the provider or the region is missing, or its role is not allowed.
    """
    from botocore.config import Config
    from botocore.exceptions import NoRegionError

    hook = aws_hook(service, conn_id, region_name)
    try:
        # The hook's own client would name the calling operator to AWS, for which it looks at every loaded module.
        return aws_session(hook, region_name).client(
            service_name=service,
            endpoint_url=hook.conn_config.get_service_endpoint_url(service),
            config=Config(**TIMEOUTS).merge(hook.config).merge(Config(**config)),
            verify=hook.verify,
        )
    except NoRegionError as error:
        raise ConfigurationError(
            f"The connection {conn_id!r} names no region.",
            remedy='Put {"region_name": "…"} into its extra, or give region_name.',
        ) from error


def sql_url(conn_id: str) -> URL:
    """The SQLAlchemy URL of a connection of a SQL type. Its text hides the password.

    :raises ConfigurationError: if the connection or a driver is missing, or the type is no SQL database of ours.
    """
    from sqlalchemy import URL

    found = connection(conn_id)
    if found.conn_type not in DATABASES:
        raise ConfigurationError(
            f"The connection {conn_id!r} is of type {found.conn_type!r}, which cannot keep leases.",
            remedy=f"Name one of type {', '.join(sorted(DATABASES))}, or use DynamoDBLeases.",
        )
    name, drivers = DATABASES[found.conn_type]
    driver = next((driver for driver in drivers if find_spec(driver)), None)
    if driver is None:
        raise ConfigurationError(
            f"The connection {conn_id!r} needs one of the Python packages {', '.join(drivers)}.",
            remedy="Install one on every worker.",
        )
    drivername = f"{name}+{_DRIVER_WORDS.get(driver, driver)}"
    if name == "sqlite":
        return URL.create(drivername, database=_sqlite_file(found))
    extra = found.extra_dejson
    return URL.create(
        drivername,
        username=found.login,
        password=found.password,
        host=found.host,
        port=found.port,
        database=found.schema,
        query={key: str(extra[key]) for key in _DRIVER_FIELDS[name] if key in extra},
    )


def _sqlite_file(found: Connection) -> str:
    # Airflow's own hook takes the file from the host field; a connection given as a URI puts it into the schema.
    path = found.host or (f"/{found.schema.lstrip('/')}" if found.schema else "")
    if not path.startswith("/"):
        raise ConfigurationError(
            f"The SQLite connection {found.conn_id!r} names no absolute file: {path!r}.",
            remedy='Give it as {"conn_type": "sqlite", "host": "/path/leases.db"}.',
        )
    return path
