# SPDX-License-Identifier: Apache-2.0
"""Which stream a request means: by name in the caller's account, by ARN, by iterator, or by token."""

from __future__ import annotations

import re

from shardbatch.local.engine import Engine
from shardbatch.local.failure import invalid
from shardbatch.local.fields import ARN
from shardbatch.local.request import Request
from shardbatch.local.stream import Stream

_CREDENTIAL = re.compile(r"Credential=([^/\s,]+)/\d+/([^/\s,]+)/")
_ACCOUNT = re.compile(r"\d{12}")


class Addressing:
    """Finds streams of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def caller(self, authorization: str) -> tuple[str, str]:
        """Account and region of a caller, from its signature: an access key of 12 digits is the account."""
        options = self.engine.options
        match = _CREDENTIAL.search(authorization)
        if match is None:
            return options.account_id, options.region
        key, region = match.groups()
        return (key if _ACCOUNT.fullmatch(key) else options.account_id), region

    def home(self, request: Request) -> str:
        """Where the caller's own streams are."""
        return self.engine.home(request.account, request.region)

    def named(self, request: Request) -> tuple[str, str]:
        """Home and name of the stream that the request names: of an ARN as it says, else those of the caller.

        :raises ServiceError: InvalidArgumentException if it names none, or two
        """
        name, arn = request.fields.text("StreamName"), request.fields.text("StreamARN", ARN)
        if arn is not None:
            match = ARN.fullmatch(arn)
            assert match is not None
            region, account, arn_name = match.groups()
            if name not in (None, arn_name):
                raise invalid(f"StreamName {name} and StreamARN {arn} are two streams")
            return self.engine.home(account, region), arn_name
        if name is None:
            raise invalid("give StreamName or StreamARN")
        return self.home(request), name

    def find(self, request: Request, *, readable: bool = False) -> Stream:
        """The stream that the request names.

        :param readable: it must also take and give records now
        :raises ServiceError: InvalidArgumentException, ResourceNotFoundException
        """
        home, name = self.named(request)
        request.stream = name
        return self.engine.find_readable(home, name) if readable else self.engine.find(home, name)

    def note(self, request: Request) -> None:
        """Write on the request which stream and shard it seems to be about; nothing is checked yet."""
        values = request.fields.values
        arn, name, shard = values.get("StreamARN"), values.get("StreamName"), values.get("ShardId")
        arn = values.get("ConsumerARN", arn)
        if isinstance(arn, str) and "/" in arn:
            request.stream = arn.split("/")[1]
        elif isinstance(name, str):
            request.stream = name
        if isinstance(shard, str):
            request.shard = shard
        for member, purpose, at in (("ShardIterator", "iterator", 3), ("NextToken", "listing", None)):
            text = values.get(member)
            fields = self.engine.sealer.open(purpose, text) if isinstance(text, str) else None
            if fields is not None:
                request.stream = str(fields[1])
                if at is not None:
                    request.shard = str(fields[at])
