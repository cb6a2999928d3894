# SPDX-License-Identifier: Apache-2.0
"""The watch over a Spark Connect server while a script works in its session."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from shardbatch.submit import connect
from shardbatch.submit.connect import Server
from shardbatch.submit.connect_watch import Watch
from tests.support.waiting import wait_until
from tests.unit.submit.connect_server import Sessions, running


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def server(sessions: Sessions) -> Iterator[Server]:
    with running(sessions) as started:
        yield started


def test_a_server_that_was_started_anew_is_lost(server: Server, sessions: Sessions) -> None:
    told: queue.Queue[str] = queue.Queue()
    with Watch(server, connect.draw(server), "first", every=0.01, lost=told.put):
        wait_until(lambda: len(sessions.seen) > 3, 20, "some looks")
        assert told.empty()
        sessions.generation = "second"
        assert "was started anew" in told.get(timeout=20)


def test_a_server_that_is_silent_for_long_is_lost(sessions: Sessions) -> None:
    told: queue.Queue[str] = queue.Queue()
    with running(sessions) as server:
        pass
    with Watch(server, connect.draw(server), "first", every=0.01, lost=told.put, patience=0.0):
        pass  # left before it was lost: nobody is told
    with Watch(server, connect.draw(server), "first", every=0.01, lost=told.put, patience=0.1):
        assert "has not answered for" in told.get(timeout=60)


def test_a_server_whose_answer_makes_no_sense_is_lost_in_the_end(
    server: Server, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_sense(*of: object) -> bytes:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr("shardbatch.submit.connect_calls._first", no_sense)
    told: queue.Queue[str] = queue.Queue()
    with Watch(server, connect.draw(server), "first", every=0.01, lost=told.put, patience=0.1):
        assert "has not answered for" in told.get(timeout=20)


def test_a_session_that_the_script_has_stopped_is_not_a_lost_server(server: Server, sessions: Sessions) -> None:
    told: queue.Queue[str] = queue.Queue()
    session = connect.draw(server)
    sessions.closed.add((session.user, session.session_id))
    watch = Watch(server, session, "first", every=0.01, lost=told.put)
    with watch:
        watch._thread.join(20)
        assert not watch._thread.is_alive()
    assert told.empty()
