# SPDX-License-Identifier: Apache-2.0
"""Watches the server of a session while a script works in it, and keeps the session from being idle.

The client of pyspark tries a server that is gone for ten minutes, and one whose host lost its power for longer. So the
task looks by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from shardbatch.submit.connect import Server, Session
from shardbatch.submit.connect_calls import END_S, CallFailed, calls

log = logging.getLogger("shardbatch")

#: Seconds for which a server may be silent before its script is ended.
LOST_AFTER_S = 120.0


class Watch:
    """While it is entered, a thread asks the server for the session.

    :param server_session: the server's own id of the session: a server that was started anew gives another.
    :param every: seconds between two looks.
    :param lost: is called once, with what became of the server.
    :param patience: seconds for which the server may be silent.
    """

    def __init__(
        self,
        server: Server,
        session: Session,
        server_session: str,
        *,
        every: float,
        lost: Callable[[str], None],
        patience: float = LOST_AFTER_S,
    ) -> None:
        self._server = server
        self._session = session
        self._server_session = server_session
        self._every = every
        self._lost = lost
        self._patience = patience
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shardbatch-connect", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def _run(self) -> None:
        heard = time.monotonic()
        with calls(self._server, self._session) as made:
            while not self._left.wait(self._every):
                try:
                    found = made.open(END_S, wait=False)
                except Exception as error:  # noqa: BLE001 - a thread that ended here would never notice a lost server
                    if isinstance(error, CallFailed) and error.closed:
                        return  # by the script, which goes on without Spark, or by who goes on: then it is refused
                    silent = time.monotonic() - heard
                    if silent >= self._patience:
                        self._tell(f"the server {self._server.place} has not answered for {silent:.0f} s")
                        return
                    code = error.code if isinstance(error, CallFailed) else type(error).__name__
                    log.warning("The Spark Connect server %s did not answer (%s).", self._server.place, code)
                    continue
                heard = time.monotonic()
                if found.server_session != self._server_session:
                    self._tell(f"the server {self._server.place} was started anew and knows its session no more")
                    return

    def _tell(self, what: str) -> None:
        if not self._left.is_set():
            self._lost(what)
