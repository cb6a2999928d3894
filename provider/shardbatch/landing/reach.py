# SPDX-License-Identifier: Apache-2.0
"""The file system of a URI where the caller gives none: credentials and settings are the environment's."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pyarrow.fs as pafs

from shardbatch.landing.files import explained
from shardbatch.landing.location import locate, rewritten

#: Spellings of S3 that only Hadoop knows.
HADOOP_S3 = {"s3a": "s3", "s3n": "s3"}


def reach(uri: str) -> pafs.FileSystem:
    """A file system that reaches a folder or file, whatever is written in its path.

    S3 is reached through boto3, where it is installed (profile, role, ``AWS_ENDPOINT_URL``, proxy, ``AWS_CA_BUNDLE``, …
    as everything else of AWS there), else through pyarrow's own client.

    :raises StagingError: if there is no file system for it.
    """
    location = locate(uri)
    if location.local:
        return pafs.LocalFileSystem()
    with explained("reach", uri):
        if location.kind == "s3":
            found = _s3_of_boto3()
            if found is not None:
                return found
        return pafs.FileSystem.from_uri(quote(rewritten(uri, HADOOP_S3), safe="/:@?=&+,;~"))[0]


def _s3_of_boto3() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        return None
    from shardbatch.landing.s3_files import s3_over

    # A session of its own: boto3's default one is not to be shared between threads.
    client = boto3.session.Session().client("s3", config=Config(max_pool_connections=64))
    return s3_over(client, again=_s3_of_boto3)
