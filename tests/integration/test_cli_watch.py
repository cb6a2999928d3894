# SPDX-License-Identifier: Apache-2.0
"""The real ``airflow shardbatch watch``: in a terminal, and where the output is not one."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from argparse import Namespace as Arguments
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardbatch.cli.watch import watch
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.rows import SHARD_LEASE, TABLES, Key
from shardbatch.errors import StoreError
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER, filled

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

PROGRAM = Path(sys.executable).with_name("airflow")
WORDS = ("shardbatch", "watch", "-a", "orders-etl", "-s", "orders")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLStore]:
    made = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    made.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert made.create(row)
    connection = {"conn_type": "sqlite", "host": f"{tmp_path}/leases.db"}
    for name, value in {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__SHARDBATCH__LEASES": "sql://leases_db",
        "AIRFLOW_CONN_LEASES_DB": json.dumps(connection),
        "COLUMNS": "250",
        "LINES": "40",
        "TERM": "xterm",
    }.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def give_back(store: SQLStore) -> None:
    """The shard that is held is free from now on."""
    row = store.get(Key(SHARD_LEASE, NAMESPACE, ("", "s-held")))
    assert isinstance(row, Lease)
    assert row.lease_owner == OWNER
    assert store.replace(row, leases.release(row, NOW))


class Screen:
    """What a program shows, with the words of a shard's last line."""

    def __init__(self, source: int) -> None:
        self._source, self.text = source, ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode

    def states(self) -> list[str]:
        """Of ``s-held``, in each table that was shown."""
        return re.findall(r"│ s-held +│ ([a-z]+) ", self.text)

    def until(self, state: str, most_s: float = 100) -> None:
        """Read until the shard is shown in this state."""
        end = time.monotonic() + most_s
        while not self.states() or self.states()[-1] != state:
            ready, _, _ = select.select([self._source], [], [], max(0.0, end - time.monotonic()))
            assert ready, self.text
            piece = os.read(self._source, 65536)
            assert piece, self.text
            self.text += self._decode(piece)


def hears() -> None:
    """A program that is begun in the background would not hear Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(program: subprocess.Popen[bytes], source: int) -> int:
    """Ctrl-C, and how the program ends; what it says until then is read, so that it need not wait."""
    program.send_signal(signal.SIGINT)
    while program.poll() is None:
        if select.select([source], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):  # the terminal is gone with the program
                os.read(source, 65536)
    return program.returncode


def test_in_a_terminal_the_table_changes_in_its_place_and_ctrl_c_ends_it(store: SQLStore) -> None:
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, 250))
    words = [PROGRAM, *WORDS, "--every", "0.2"]
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, preexec_fn=hears) as program:
        os.close(terminal)
        try:
            screen = Screen(main)
            screen.until("held")
            give_back(store)
            screen.until("free")
            assert "\x1b[1A" in screen.text  # it goes up, and writes over what was there
            assert ended(program, main) == 0
            assert program.stderr is not None
            assert "Traceback" not in program.stderr.read().decode()
        finally:
            program.kill()
            os.close(main)


def test_where_the_output_is_not_a_terminal_snapshots_follow_one_another(store: SQLStore) -> None:
    words = [PROGRAM, *WORDS, "--every", "0.2", "--sort", "state"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=hears) as program:
        try:
            assert program.stdout is not None
            screen = Screen(program.stdout.fileno())
            screen.until("held")
            give_back(store)
            screen.until("free")
            assert "\x1b" not in screen.text
            assert ended(program, program.stdout.fileno()) == 0
        finally:
            program.kill()


def given(**more: Any) -> Arguments:
    asked = {"app_name": "orders-etl", "stream_name": "orders", "leases": None, "every": 1.0, "once": False}
    return Arguments(**{**asked, "state": None, "owner": None, "sort": "shard", "limit": None, **more})


def test_one_look_is_a_table_with_what_was_chosen(store: SQLStore, capsys: pytest.CaptureFixture[str]) -> None:
    watch(given(once=True, state=["landed"]))
    shown = capsys.readouterr().out
    assert "│ s-landed " in shown
    assert "│ s-held " not in shown
    watch(given(once=True, limit=2))
    assert "3 more shards are not shown" in capsys.readouterr().out


def test_a_store_that_gives_no_answer_for_once_leaves_the_last_table(
    store: SQLStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    listed = SQLStore.list

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            monkeypatch.setattr(
                SQLStore, "list", lambda *asked, **more: (_ for _ in ()).throw(StoreError("It is away."))
            )
        elif len(waits) == 2:
            monkeypatch.setattr(SQLStore, "list", listed)
        else:
            raise KeyboardInterrupt

    watch(given(every=7.0), wait)
    shown = capsys.readouterr().out
    assert waits == [7.0] * 3
    assert shown.count("│ s-held ") == 3
    assert shown.count("StoreError: It is away.") == 1


def test_a_store_that_never_answered_is_an_error(store: SQLStore) -> None:
    store.close()
    with pytest.raises(SystemExit, match="no application"):
        watch(given(app_name="other", once=True))
