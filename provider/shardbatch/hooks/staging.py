# SPDX-License-Identifier: Apache-2.0
"""Where slices and manifests are kept, as a DAG author declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.hooks.connections import aws_hook, aws_session, client_of, require_id
from shardbatch.hooks.renamed import renamed, warn

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from shardbatch.core.ports import Landing

_S3 = ("s3", "s3a", "s3n")


@renamed(conn_id="aws_conn_id")
@dataclass(frozen=True)
class Staging:
    """A folder that Airflow's workers and Spark's executors reach under the same URI. Both texts may be templates.

    :param uri: an absolute path or ``file://`` URI (a shared mount, or one machine), or ``s3://bucket/prefix``. The
        first claim of an application creates a local folder if the folder above it exists. Later it must exist, so
        that a missing mount does not become an empty folder.
    :param aws_conn_id: Airflow's AWS connection for ``s3://``, default ``None``: the worker's own credentials.
    :param region_name: of the bucket, default: the connection's.
    :param private: for a local or mounted folder: whether the files and folders made there are closed to users outside
        the group, default yes; see docs/staging.md. ``False``: the worker's umask decides.
    :raises ConfigurationError: for a URI of another kind, without a bucket, or with credentials in it.
    """

    uri: str
    aws_conn_id: str | None = None
    region_name: str | None = None
    private: bool = True

    def __post_init__(self) -> None:
        require_id("Staging(aws_conn_id)", self.aws_conn_id)
        if "{{" not in self.uri:
            self._require_kind()

    def _require_kind(self) -> None:
        scheme, parts = self.scheme, urlsplit(self.uri)
        credentials = "@" in parts.netloc or (scheme in _S3 and (":" in parts.netloc or parts.query))
        if credentials or (scheme not in ("", "file", *_S3) and "@" in self.uri):
            raise ConfigurationError(  # not repeated: it may hold a password, and the URI stands in every manifest
                "Staging(uri) has credentials or a query in its URI.", remedy="Leave them out and give aws_conn_id."
            )
        if scheme in _S3 and not parts.netloc:
            raise ConfigurationError(f"Staging({self.uri!r}) names no bucket.", remedy="Give s3://bucket/prefix.")
        if scheme not in ("", "file", *_S3):
            raise ConfigurationError(
                f"Staging({self.uri!r}): there is no file system for {scheme!r}.",
                remedy="Give an absolute path, file:///… or s3://bucket/prefix.",
            )
        if not scheme and not self.uri.startswith("/"):
            raise ConfigurationError(f"Staging({self.uri!r}) is not absolute.", remedy="Give a full path or a URI.")

    @property
    def conn_id(self) -> str | None:
        """The old name of ``aws_conn_id``."""
        warn("Staging.conn_id is deprecated; use aws_conn_id.")
        return self.aws_conn_id

    @property
    def scheme(self) -> str:
        """``file``, ``s3``, …; empty for a plain path."""
        return urlsplit(self.uri).scheme

    def rendered(self, render: Callable[[str], str]) -> Staging:
        """With its templates rendered.

        :raises ConfigurationError: for a URI of another kind.
        """
        done = replace(
            self,
            uri=render(self.uri),
            aws_conn_id=None if self.aws_conn_id is None else render(self.aws_conn_id),
            region_name=None if self.region_name is None else render(self.region_name),
        )
        done._require_kind()
        return done

    def open(self) -> Landing:
        """The staging area; nothing is read or written yet.

        :raises ConfigurationError: if the connection or a library is missing.
        """
        from shardbatch.landing.area import StagingArea

        if self.scheme not in _S3:
            return StagingArea(self.uri, private=self.private)
        return StagingArea(self.uri, s3_file_system(self.aws_conn_id, self.region_name))


def s3_file_system(conn_id: str | None, region_name: str | None = None) -> FileSystem:
    """S3 as a file system of pyarrow, with everything that a boto3 client of this connection has: renewed credentials,
    proxy, certificates, endpoint, … The ``extra_args`` under ``service_config``, ``s3`` of the connection's extra
    (``ServerSideEncryption``, ``SSEKMSKeyId``, …) are sent with every upload.

    :param conn_id: Airflow's AWS connection; ``None``: the worker's own credentials.
    :param region_name: of the bucket, default: the connection's.
    :raises ConnectionUnknown: if there is no such connection, or it gives no credentials.
    :raises ConfigurationError: if a library is missing, its role is not allowed, or ``extra_args`` cannot be sent or
        stand beside their place.
    """
    hook = aws_hook("s3", conn_id, region_name)
    from botocore import UNSIGNED

    from shardbatch.hooks.settings import seconds_setting
    from shardbatch.landing.s3_files import EXTRA_ARGS, s3_over

    misplaced = ", ".join(name for name in EXTRA_ARGS if name in hook.service_config)
    if misplaced:
        raise ConfigurationError(
            f"The connection {conn_id!r} has {misplaced} directly under service_config, s3, where no upload takes it.",
            remedy='Put it one level deeper: "service_config": {"s3": {"extra_args": {…}}}.',
        )
    session = aws_session(hook, region_name)
    config: Any = hook.config
    if config.signature_version is not UNSIGNED and session.get_credentials() is None:
        raise ConnectionUnknown(  # a worker's role has none while its metadata service is away
            f"The connection {conn_id!r} gives no AWS credentials for the staging area.",
            remedy="Put them into the connection, or give the workers a role. It is tried again.",
        )
    seconds = seconds_setting("staging_timeout")
    defaults = {"read_timeout": seconds, "connect_timeout": min(seconds, 10.0), "retries": {"mode": "standard"}}
    # A body is not hashed for its signature: its checksum is signed, and over TLS botocore leaves the hash out, too.
    s3 = {"payload_signing_enabled": False, **(config.s3 or {})}
    client = client_of(hook, session, defaults, max_pool_connections=64, s3=s3)
    again = partial(s3_file_system, conn_id, region_name)
    return s3_over(client, hook.service_config.get("extra_args"), again)
