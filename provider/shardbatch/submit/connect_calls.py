# SPDX-License-Identifier: Apache-2.0
"""The few calls that a task itself makes to a Spark Connect server: open a session, set its configuration, end it.

They are encoded here, because pyspark's own messages are loaded together with pandas and all of pyspark: two seconds of
every task. Each call has a deadline, so that a server that does not answer never holds a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardbatch.submit.connect import Server, Session

if TYPE_CHECKING:
    import grpc

_SERVICE = "/spark.connect.SparkConnectService/"
_CLIENT = "shardbatch"
#: Seconds that a server has to open a session. The first one of a server takes longest.
OPEN_S = 30.0
#: Seconds for each of the two calls that end a session.
END_S = 15.0
#: What a server says of a session that was released: its id is refused from then on.
CLOSED = "SESSION_CLOSED"


class CallFailed(Exception):
    """A call failed. ``code`` is gRPC's, as ``UNAVAILABLE``; ``told`` is what the server says of it."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(f"{code}: {told}")
        self.code = code
        self.told = told

    @property
    def closed(self) -> bool:
        """Whether the session was released: by another try, by a person, or by the script's own ``spark.stop()``."""
        return CLOSED in self.told

    @property
    def refused(self) -> bool:
        """Whether the server answered that this user may not."""
        return self.code in ("UNAUTHENTICATED", "PERMISSION_DENIED")


@dataclass(frozen=True)
class Opened:
    """An open session: the server's version of Spark, and its own id of the session, which is another one after the
    server was started anew."""

    spark_version: str
    server_session: str


class Calls:
    """Calls to one server about one session. Entered by :func:`calls`."""

    def __init__(self, channel: grpc.Channel, session: Session) -> None:
        self._channel = channel
        self._session = session

    def open(self, timeout: float = OPEN_S, *, wait: bool = True) -> Opened:
        """Open the session, or see that it is open.

        :param wait: whether to wait for a server that is starting.
        :raises CallFailed: if the server does not answer in time, or refuses.
        """
        answer = self._call("AnalyzePlan", _message(10, b""), timeout, wait=wait)
        return Opened(_first(_first(answer, 8), 1).decode("utf-8", "replace"), _first(answer, 15).decode())

    def configure(self, conf: Mapping[str, str], timeout: float = OPEN_S) -> None:
        """Set the session's configuration.

        :raises CallFailed: if the server does not know a name, or it is fixed for all of its sessions.
        """
        pairs = b"".join(_message(1, _text(1, name) + _text(2, value)) for name, value in conf.items())
        self._call("Config", _message(3, _message(1, pairs)), timeout, client=4)

    def end(self, timeout: float = END_S) -> None:
        """Interrupt what runs in the session, and release it: its id is refused from then on, also to a client that
        comes only later. A server forgets a session that it releases without having known it, so it is made to know it.

        :raises CallFailed: if the server does not answer in time, or refuses.
        """
        try:
            self._call("Interrupt", _number(4, 1), timeout)
        except CallFailed as error:
            if error.closed:
                return
            raise
        self._call("ReleaseSession", b"", timeout)

    def _call(self, method: str, body: bytes, timeout: float, *, wait: bool = False, client: int = 3) -> bytes:
        import grpc

        session = self._session
        head = _text(1, session.session_id) + _message(2, _text(1, session.user)) + _text(client, _CLIENT)
        try:
            return bytes(
                self._channel.unary_unary(_SERVICE + method)(head + body, timeout=timeout, wait_for_ready=wait)
            )
        except grpc.RpcError as error:
            # An error of a call that was made is a call, too: it has a code and details.
            told: Any = error
            raise CallFailed(told.code().name, str(told.details() or "")) from None


@contextmanager
def calls(server: Server, session: Session) -> Iterator[Calls]:
    """Calls about a session, with the token and the encryption of its server, as pyspark's client chooses them."""
    import grpc

    credentials = None
    if server.use_ssl or server.token:
        local = server.host == "localhost" and not server.use_ssl
        credentials = grpc.local_channel_credentials() if local else grpc.ssl_channel_credentials()
        if server.token:
            token = grpc.access_token_call_credentials(server.token)
            credentials = grpc.composite_channel_credentials(credentials, token)
    opened = (
        grpc.insecure_channel(server.place) if credentials is None else grpc.secure_channel(server.place, credentials)
    )
    with opened as channel:
        yield Calls(channel, session)


# ---------------------------------------------------------------------- protobuf's encoding


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _first(body: bytes, field: int) -> bytes:
    """The first text or message of a field; empty if there is none. Other kinds of fields are passed over."""
    at = 0
    while at < len(body):
        key, at = _read(body, at)
        kind = key & 7
        if kind == 2:
            length, at = _read(body, at)
            if key >> 3 == field:
                return body[at : at + length]
            at += length
        elif kind == 0:
            _, at = _read(body, at)
        else:
            at += 8 if kind == 1 else 4
    return b""


def _read(body: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while at < len(body):
        byte = body[at]
        number, shift, at = number | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            break
    return number, at
