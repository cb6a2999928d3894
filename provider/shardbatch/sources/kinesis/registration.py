# SPDX-License-Identifier: Apache-2.0
"""The consumer that enhanced fan-out sends records to: registered when it is needed, removed when no task reads."""

from __future__ import annotations

import logging
import re
import threading
from hashlib import sha256
from typing import Any

from shardbatch.errors import ShardNotFound, SourceError, StreamNotFound, Throttled
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.listing import describe, missing
from shardbatch.sources.kinesis.refusals import StreamBusy

log = logging.getLogger("shardbatch")

LONGEST_NAME = 128
#: Seconds between two looks at a consumer that is being created.
LOOK_EVERY = 1.0
TOO_MANY = "A stream may have 20 consumers, 5 of them in creation: remove an unused one, or read without fan-out."


def consumer_name(app_name: str) -> str:
    """The name of an application's consumer: its own, as far as the service takes it."""
    name = re.sub(r"[^a-zA-Z0-9_.-]", "-", f"shardbatch-{app_name}")
    if name != f"shardbatch-{app_name}" or len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 9]}-{sha256(app_name.encode()).hexdigest()[:8]}"
    return name


class Registration:
    """One consumer of the stream, shared by all reads of an application. Safe to use from several threads."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name
        self._lock = threading.Lock()
        self._stream_arn = caller.stream.arn
        self._arn: str | None = None
        self._active = False
        self._look_at = float("-inf")

    @property
    def used(self) -> bool:
        """Whether a consumer was asked for."""
        return self._look_at > float("-inf")

    def arn(self) -> str | None:
        """The consumer's ARN once it is ``ACTIVE``; until then ``None``: ask again after :data:`LOOK_EVERY`.

        The first to ask registers it. One that is there already, as a run that died leaves it, is used.

        :raises StreamNotFound: if there is no such stream.
        :raises Throttled: also if the stream has as many consumers as it may have.
        :raises SourceError: if the service refuses.
        """
        with self._lock:
            now = self._caller.clock.monotonic()
            if not self._active and now >= self._look_at:
                self._look_at = now + LOOK_EVERY
                self._look()
            return self._arn if self._active else None

    def forget(self) -> None:
        """The service does not know the consumer any more: it will be registered anew."""
        with self._lock:
            self._arn, self._active = None, False

    def remove(self) -> None:
        """Take the consumer away, if there is one. A refusal is said in the log, for nothing else depends on it: as a
        warning where it was used, else it may be that there is none."""
        try:
            if self.take_away():
                log.info("The consumer %s was removed.", self.name)
        except SourceError as error:
            if self.used:
                log.warning("The consumer %s stays registered, which costs money: %s", self.name, error)
            else:
                log.info("If a run left the consumer %s, it stays registered: %s", self.name, error)

    def take_away(self) -> bool:
        """Take the consumer away; whether there was one.

        :raises SourceError: if the service refuses.
        """
        with self._lock:
            self._arn, self._active = None, False
            try:
                self._deregister()
            except (ShardNotFound, StreamNotFound):
                return False
            return True

    def stands(self) -> bool:
        """Whether the service has the consumer: not where the stream is gone.

        :raises SourceError: if the service refuses to say.
        """
        try:
            return bool(self._described())
        except StreamNotFound:
            return False

    def _deregister(self) -> None:
        patience = self._caller.patience()
        while True:
            try:
                self._caller.patiently("deregister_stream_consumer", **self._address())
                return
            except StreamBusy as error:  # it is still being created, or being removed already
                self._caller.clock.sleep(patience.failed(error))

    def _look(self) -> None:
        consumer = self._described() if self._arn else self._registered()
        status = consumer.get("ConsumerStatus")
        self._arn = None if status == "DELETING" else consumer.get("ConsumerARN")
        self._active = status == "ACTIVE"

    def _registered(self) -> dict[str, Any]:
        try:
            consumer: dict[str, Any] = self._caller.once("register_stream_consumer", **self._address())["Consumer"]
        except StreamBusy:
            return self._described()
        except ShardNotFound as error:
            raise missing(self._caller) from error.__cause__
        except Throttled as error:
            raise Throttled(f"The consumer {self.name} cannot be registered now.", remedy=TOO_MANY) from error
        log.info("The consumer %s was registered, for enhanced fan-out.", self.name)
        return consumer

    def _described(self) -> dict[str, Any]:
        try:
            answer = self._caller.patiently("describe_stream_consumer", **self._address())
        except ShardNotFound:
            return {}  # it was removed meanwhile
        consumer: dict[str, Any] = answer["ConsumerDescription"]
        return consumer

    def _address(self) -> dict[str, Any]:
        if self._stream_arn is None:
            self._stream_arn = str(describe(self._caller)["StreamARN"])
        return {"StreamARN": self._stream_arn, "ConsumerName": self.name}
