# SPDX-License-Identifier: Apache-2.0
"""The end of a session of Spark Connect, from any worker that reaches its server.

A client that is killed leaves its query running at the server. So the task that goes on ends the session: what runs in
it is interrupted, and its id is released. The server refuses a released id, also to a client that lives on elsewhere or
has not connected yet. Where the server is not reached, the application is fenced as ever: only a recorded start counts.
"""

from __future__ import annotations

from shardbatch.errors import ShardbatchError
from shardbatch.masking import hidden
from shardbatch.submit.applications import FENCED, Ending
from shardbatch.submit.connect import Server, Session, parse, require_packages, server_of
from shardbatch.submit.connect_calls import CallFailed, calls
from shardbatch.submit.output import shortened


def end_recorded(text: str, conn_id: str) -> Ending:
    """End the session that a batch row names.

    :param conn_id: the connection of the task that recorded it.
    """
    session = parse(text)
    if session is None:
        return Ending(False, f"The older application {text} does not name a session of Spark Connect; {FENCED}")
    try:
        require_packages({"grpc": "grpcio"})
        server = server_of(conn_id)
    except ShardbatchError as error:
        return Ending(False, f"The older session {text} cannot be ended from here ({error}); {FENCED}")
    return end(server, session)


def end(server: Server, session: Session) -> Ending:
    """End a session. It takes no longer than the two deadlines of its calls."""
    name = session.reference
    if not session.at(server):
        return Ending(False, f"The older session {name} is of another server or user than the connection; {FENCED}")
    try:
        with calls(server, session) as made:
            made.end()
    except CallFailed as error:
        why = f"{error.code}: {shortened(hidden(error.told, [server.token]))}"
        silent = error.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
        return Ending(False, f"The session {name} could not be ended ({why}); {FENCED}", silent)
    return Ending(True, f"The session {name} is ended: its server refuses it from now on.")
