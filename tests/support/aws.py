# SPDX-License-Identifier: Apache-2.0
"""How tests speak to a server that speaks as AWS does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

REGION = "eu-west-1"
# Twelve digits: two of the servers take the access key for the account.
ACCOUNT = "123456789012"
SECRET = "not-a-secret"


@dataclass(frozen=True)
class AwsServer:
    """A running server on loopback."""

    name: str
    url: str
    #: The file of certificates that clients need to trust it; ``None`` without encryption.
    ca: str | None = field(default=None, kw_only=True)

    def client(self, service: str, *, attempts: int = 4, **config: Any) -> Any:
        """A boto3 client of its own session (sessions are not safe to share between threads).

        :param attempts: botocore's total attempts; 1 where a test counts calls or awaits an error.
        """
        session = boto3.session.Session(aws_access_key_id=ACCOUNT, aws_secret_access_key=SECRET, region_name=REGION)
        settings = Config(
            retries={"total_max_attempts": attempts, "mode": "standard"},
            connect_timeout=5,
            read_timeout=30,
            s3={"addressing_style": "path"},
            **config,
        )
        return session.client(service, endpoint_url=self.url, config=settings, verify=self.ca)

    def connection(self) -> str:
        """The value for an AIRFLOW_CONN_... variable that leads to this server."""
        extra = {"region_name": REGION, "endpoint_url": self.url}
        return json.dumps({"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": extra})
