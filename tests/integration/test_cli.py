# SPDX-License-Identifier: Apache-2.0
"""The real ``airflow shardbatch`` in an Airflow home of its own, over leases in SQLite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.batch import Batch
from shardbatch.core.decision import Decision
from shardbatch.core.lease import Lease
from shardbatch.core.rows import BATCH, SHARD_LEASE, TABLES, Key
from shardbatch.core.slice import Gap
from shardbatch.landing.area import StagingArea
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, OTHER, OWNER, filled, frozen_batch, of_interval

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

Done = "subprocess.CompletedProcess[str]"
Run = Callable[..., Done]
WHERE = ("--app-name", "orders-etl", "--stream-name", "orders")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(autouse=True)
def store(home: Path) -> Iterator[SQLStore]:
    """The rows of the unit tests, as they were."""
    (home / "leases.db").unlink(missing_ok=True)
    store = SQLStore(f"sqlite:///{home}/leases.db")
    store.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert store.create(row)
    yield store
    store.close()


def settings(home: Path, leases: str = "leases.db") -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__SHARDBATCH__LEASES": "sql://leases_db",
        "AIRFLOW_CONN_LEASES_DB": json.dumps({"conn_type": "sqlite", "host": str(home / leases)}),
    }


@pytest.fixture
def airflow(home: Path) -> Run:
    """The program itself, in a process of its own."""

    def run(*words: str, **changes: str) -> Done:
        program = Path(sys.executable).with_name("airflow")
        env = {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            **settings(home),
            **changes,
        }
        env = {name: value for name, value in env.items() if value}
        return subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=180)

    return run


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The program's own parser and commands, in this process."""

    def run(*words: str, leases: str = "leases.db", **changes: str) -> Done:
        from airflow.cli.cli_parser import get_parser

        for name, value in {"_AIRFLOW_PROCESS_CONTEXT": "", **settings(home, leases), **changes}.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code: Any = 0
        try:
            arguments = get_parser().parse_args(["shardbatch", *words])
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        # As the interpreter does it: a text is an error's last word.
        told, code = (f"{code}\n", 1) if isinstance(code, str) else ("", code)
        return subprocess.CompletedProcess(words, code, printed.out, printed.err + told)

    return run


def parsed(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_status_is_readable_and_says_who_holds_what(airflow: Run) -> None:
    done = airflow("shardbatch", "status", *WHERE, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "sqlalchemy" in loaded
    assert not loaded & {"boto3", "botocore", "pyarrow", "pyspark", "pandas"}  # it has to answer soon
    lines = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    assert ["shards held, landed, frozen", "1, 1, 1"] in lines
    assert any(line[0] == OWNER for line in lines)
    assert "Unfinished batches" in done.stdout


def test_machines_get_json_with_numbers(here: Run) -> None:
    found = parsed(here("status", *WHERE, "--output", "json"))
    assert (found["open_shards"], found["completed_shards"], found["millis_behind_latest"]) == (4, 1, 70_000)
    assert [batch["batch_id"] for batch in found["unfinished"]] == ["b2"]
    assert isinstance(found["ms_since_last_commit"], int)
    assert (found["ms_until_loss"], found["expires_unknown"], found["claimed_by"]) == (None, 2, [])


def test_shards_and_batches_are_lists(here: Run) -> None:
    shards = parsed(here("shards", *WHERE, "-o", "json"))
    assert {shard["shard_id"]: shard["state"] for shard in shards}["s-landed"] == "landed"
    (done,) = [shard for shard in shards if shard["shard_id"] == "s-done"]
    assert (done["all_read"], done["ms_until_loss"]) == (True, None)
    batches = parsed(here("batches", *WHERE, "--limit", "1", "-o", "json"))
    assert [batch["batch_id"] for batch in batches] == ["b2"]


@pytest.mark.parametrize("output", ["table", "plain", "yaml"])
def test_every_form_of_output_names_what_there_is(here: Run, output: str) -> None:
    for command, name in (("status", "orders-etl"), ("shards", "s-landed"), ("batches", "b1")):
        done = here(command, *WHERE, "-o", output)
        assert (done.returncode, name in done.stdout) == (0, True), command


def test_release_is_a_preview_until_it_is_told_to_act(here: Run, store: SQLStore) -> None:
    chosen = ("release", *WHERE, "--batch", "b2", "-o", "json")
    key = Key(BATCH, NAMESPACE, ("", "b2"))
    assert [item["result"] for item in parsed(here(*chosen))] == ["would release"]
    seen = store.get(key)
    assert isinstance(seen, Batch)
    assert seen.owner == OWNER

    assert [item["result"] for item in parsed(here(*chosen, "--yes", "--reason", "cluster gone"))] == ["released"]
    seen = store.get(key)
    assert isinstance(seen, Batch)
    assert seen.owner == ""
    assert "cluster gone" in parsed(here("status", *WHERE, "-o", "json"))["last_action"]

    (again,) = parsed(here(*chosen, "--yes", "--reason", "again"))
    assert (again["result"], again["why"].startswith("it is released already")) == ("already", True)


VERBS = [
    (("park", "--batch", "b2"), "parked"),
    (("set-aside", "--batch", "b2"), "set aside"),
    (("drop", "--batch", "b2"), "dropped"),
    (("accept-gap", "--shard", "s-landed"), "accepted"),
    (("reset", "--shard", "s-done", "--to", "TRIM_HORIZON"), "reset"),
    (("reset", "--shard", "s-done", "--to", "2026-11-28T00:00:00+00:00"), "reset"),
    (("reset", "--all", "--to", "TRIM_HORIZON", "--force"), "reset"),
    (("reset", "--all", "--stream-id", "arn:orders:2", "--force"), "reset"),
]


@pytest.mark.parametrize(("words", "done"), VERBS, ids=[" ".join(words) for words, _ in VERBS])
def test_every_verb_is_a_preview_until_it_is_told_to_act(
    here: Run, store: SQLStore, words: tuple[str, ...], done: str
) -> None:
    with_gap(store)
    chosen = (words[0], *WHERE, *words[1:], "-o", "json")
    before = rows(store)
    preview = here(*chosen)
    assert preview.stderr.startswith("This is a preview")
    assert any(item["result"].startswith("would ") for item in parsed(preview))
    assert rows(store) == before
    assert here(*chosen, "--yes").stderr.startswith("ConfigurationError: To ")  # why is missing
    assert done in {item["result"] for item in parsed(here(*chosen, "--yes", "--reason", "ticket 7"))}
    assert "ticket 7" in parsed(here("status", *WHERE, "-o", "json"))["last_action"]
    parsed(here(*chosen, "--yes", "--reason", "again"))  # as often as one likes


def test_a_root_is_forgotten_adopted_and_summed(here: Run, store: SQLStore, tmp_path: Path) -> None:
    staging, out = tmp_path / "staging", tmp_path / "out"
    staging.mkdir(), out.mkdir()
    outputs = StagingArea(str(staging)).outputs
    outputs.look(str(out), (), "etl/orders", shared=False)
    outputs.mark(str(out), Decision("b0", 1, app="etl/orders"))
    seen = store.get(Key(BATCH, NAMESPACE, ("", "b1")))
    assert isinstance(seen, Batch)
    assert store.replace(seen, replace(seen, roots=("/lake/gone",), row_count=seen.row_count + 1))
    for verb, root, name, past in (
        ("forget-root", "file:///lake/gone/", "b1", "forgot"),
        ("adopt-root", str(out), str(out), "adopted"),
        ("sum-markers", str(out), str(out), "summed"),
    ):
        chosen = (verb, *WHERE, "--root", root, "-o", "json")
        before = rows(store), sorted(out.rglob("*"))
        (preview,) = parsed(here(*chosen, AIRFLOW__SHARDBATCH__STAGING=str(staging)))
        assert (preview["name"], preview["result"].startswith("would ")) == (name, True)
        assert (rows(store), sorted(out.rglob("*"))) == before
        told = here(*chosen, "--yes", AIRFLOW__SHARDBATCH__STAGING=str(staging))
        assert told.stderr.startswith("ConfigurationError: To ")
        for word in (past, "already"):
            done = here(*chosen, "--yes", "--reason", "ticket 7", AIRFLOW__SHARDBATCH__STAGING=str(staging))
            assert [item["result"] for item in parsed(done)] == [word]
        assert "ticket 7" in parsed(here("status", *WHERE, "-o", "json"))["last_action"]


def test_a_parked_batch_is_resumed(here: Run) -> None:
    words = (*WHERE, "--batch", "b2", "--yes", "--reason", "x", "-o", "json")
    parsed(here("park", *words))
    left = here("release", *words)
    assert (left.returncode, "unpark --batch b2" in left.stdout) == (3, True)
    assert [item["result"] for item in parsed(here("unpark", *words))] == ["unparked"]


def test_what_is_held_stops_a_reset_with_code_3(here: Run, store: SQLStore) -> None:
    before = rows(store)
    left = here("reset", *WHERE, "--all", "--to", "TRIM_HORIZON", "--yes", "--reason", "x", "-o", "json")
    assert left.returncode == 3
    assert {item["result"] for item in json.loads(left.stdout)} == {"left"}
    assert rows(store) == before


def test_the_batch_of_an_interval_is_found_and_taken_back(here: Run, store: SQLStore, tmp_path: Path) -> None:
    root, staging = tmp_path / "out", tmp_path / "staging"
    root.mkdir()
    staging.mkdir()
    assert store.create(of_interval("b9", str(root)))
    shown = {batch["batch_id"]: batch for batch in parsed(here("batches", *WHERE, "-o", "json"))}
    assert (shown["b9"]["readers"], shown["b9"]["interval"]) == (
        "interval",
        "2027-01-15T06:00:00Z/2027-01-15T07:00:00Z",
    )
    words = ("drop", *WHERE, "--batch", "b9", "-o", "json")
    assert "Give --staging" in here(*words).stderr
    (preview,) = parsed(here(*words, "--staging", str(staging)))
    bounds = (shown["b9"]["from_ms"], shown["b9"]["to_ms"])
    assert f"read_committed(spark, {str(root)!r}, interval={bounds})" in preview["effect"]
    assert not list(root.rglob("*.json"))
    acted = (*words, "--staging", str(staging), "--yes", "--reason", "ticket 8")
    assert [item["result"] for item in parsed(here(*acted))] == ["dropped"]
    (marker,) = root.glob("_shardbatch/b9.2.json")
    assert json.loads(marker.read_text())["starts"] == []
    assert [item["result"] for item in parsed(here(*acted))] == ["already"]
    assert parsed(here("status", *WHERE, "-o", "json"))["intervals"]["seen_batches"] == 0


def test_status_lists_what_was_set_aside_and_what_may_be_orphans(here: Run, store: SQLStore) -> None:
    assert store.create(frozen_batch("b3"))
    for verb, name in (("set-aside", "b2"), ("drop", "b3")):
        parsed(here(verb, *WHERE, "--batch", name, "--yes", "--reason", "x", "-o", "json"))
    table = here("status", *WHERE, "-o", "plain").stdout
    assert "Batches set aside, kept for a replay" in table
    assert "possible orphans" in table
    assert "VOID (possible orphan)" in table
    found = parsed(here("status", *WHERE, "-o", "json"))
    assert [batch["batch_id"] for batch in found["set_aside"]] == ["b2"]
    assert [batch["batch_id"] for batch in found["possible_orphans"]] == ["b3"]


def with_gap(store: SQLStore) -> None:
    """The landed slice begins after lost records."""
    seen = store.get(Key(SHARD_LEASE, NAMESPACE, ("", "s-landed")))
    assert isinstance(seen, Lease)
    assert seen.pending is not None
    pending = replace(seen.pending, gaps=(Gap(seen.checkpoint, "7", reason="records expired before they were read"),))
    assert store.replace(seen, replace(seen, pending=pending, lease_count=seen.lease_count + 1))


def rows(store: SQLStore) -> list[Any]:
    return [row for table in TABLES for row in store.list(table, NAMESPACE)]


@pytest.mark.parametrize(
    ("words", "changes", "text"),
    [
        (("status", "-a", "other", "-s", "orders"), {}, "There is no application other/orders"),
        (("status", "-a", "a/b", "-s", "orders"), {}, "without a slash"),
        (("release", *WHERE), {}, "Nothing was chosen"),
        (("release", *WHERE, "--owner", OTHER, "--yes"), {}, "To release something needs a reason"),
        (("reset", *WHERE, "--all"), {}, "No position"),
        (("reset", *WHERE, "--all", "--to", "LATEST"), {}, "not a fixed place"),
        (("accept-gap", *WHERE), {}, "No gaps were chosen"),
        (("adopt-root", *WHERE, "--root", "/lake"), {}, "none is given. Give --staging"),
        (("batches", *WHERE, "--limit", "0"), {}, "limit of batches is 0"),
        (("shards", *WHERE, "--leases", "sql://nowhere"), {}, "no Airflow connection 'nowhere'"),
        (("shards", *WHERE, "--leases", "redis://x"), {}, "--leases = 'redis://x' cannot be read"),
        (("shards", *WHERE), {"AIRFLOW__SHARDBATCH__LEASES": ""}, "No lease store given"),
        (("shards", *WHERE), {"leases": "none.db"}, "StoreNotFound: The table shard_lease"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(
    here: Run, words: tuple[str, ...], changes: dict[str, str], text: str
) -> None:
    done = here(*words, **changes)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert text in line


def test_connections_kept_in_airflows_database_work_too(airflow: Run, home: Path) -> None:
    assert airflow("db", "migrate").returncode == 0
    connection = json.dumps({"conn_type": "sqlite", "host": str(home / "leases.db")})
    assert airflow("connections", "add", "kept_db", "--conn-json", connection).returncode == 0
    found = airflow("shardbatch", "status", *WHERE, "-l", "sql://kept_db", "-o", "json", AIRFLOW_CONN_LEASES_DB="")
    assert parsed(found)["app_name"] == "orders-etl"


def test_an_error_leaves_the_program_with_code_1_and_no_traceback(airflow: Run) -> None:
    done = airflow("shardbatch", "status", "-a", "other", "-s", "orders")
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no application other/orders" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_lists_its_applications_and_a_slip_of_the_pen_is_told_the_nearest(here: Run) -> None:
    (found,) = parsed(here("list", "-o", "json"))
    assert (found["app_name"], found["stream_name"], found["deployments"]) == (
        "orders-etl",
        "orders",
        ["prod", "staging"],
    )
    assert "orders-etl" in here("list").stdout
    for command in (["status"], ["shards"], ["batches"], ["release", "--owner", OWNER]):
        done = here(*command, "-a", "order-etl", "-s", "orders")
        assert done.returncode == 1
        assert "Did you mean -a 'orders-etl' -s 'orders'?" in done.stderr, command


def test_shards_are_sorted_chosen_and_limited_and_the_rest_is_counted(here: Run) -> None:
    done = here("shards", *WHERE, "--sort", "behind", "--limit", "2", "-o", "plain")
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("s-")] == ["s-frozen", "s-landed"]
    assert "3 more of 5 shards are not shown: --limit 0 shows all" in done.stderr
    assert "more of" not in here("shards", *WHERE).stderr
    assert len(parsed(here("shards", *WHERE, "-o", "json"))) == 5
    held = parsed(here("shards", *WHERE, "--state", "held", "--owner", "prod/", "-o", "json"))
    assert [shard["shard_id"] for shard in held] == ["s-held"]
    assert here("shards", *WHERE, "--limit", "-1").returncode == 2


def test_of_hundreds_of_shards_fifty_are_shown_and_all_in_json(here: Run, store: SQLStore) -> None:
    (lease,) = [
        row for row in store.list(SHARD_LEASE, NAMESPACE) if isinstance(row, Lease) and row.shard_id == "s-free"
    ]
    assert all(store.create_many([replace(lease, shard_id=f"t-{number:04}") for number in range(100)]))
    done = here("shards", *WHERE)
    assert (sum("t-" in line for line in done.stdout.splitlines()), "55 more of 105" in done.stderr) == (45, True)
    assert len(parsed(here("shards", *WHERE, "-o", "json"))) == 105


def test_help_says_all_of_what_is_written_for_every_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's help takes texts for markup of its own: what stands in brackets would be missing."""
    import argparse

    from airflow.cli.cli_parser import get_parser

    monkeypatch.setenv("COLUMNS", "200")

    def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
        (found,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(found.choices)

    verbs = verbs_of(verbs_of(get_parser())["shardbatch"])
    assert {"list", "status", "shards", "import-kcl"} <= set(verbs)
    for name, verb in verbs.items():
        shown = " ".join(verb.format_help().split())
        for text in [verb.description, *(action.help for action in verb._actions)]:
            assert " ".join((text or "").split()) in shown, name
