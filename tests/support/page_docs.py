# SPDX-License-Identifier: Apache-2.0
"""What docs/streams-page.md shows of the page: its pictures, and its JSON as a real Airflow answers it.

``python -m tests.support.page_docs`` makes them anew. A system test compares the fields of the JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from scripts.environment import ROOT
from tests.support.browser import PATIENCE, Tab, browser, tab
from tests.support.page_airflow import API, ORDERS, PageAirflow, page_airflow

PAGE = ROOT / "docs" / "streams-page.md"
IMAGES = ROOT / "docs" / "images"
#: The most that a picture may have, in bytes: they are part of every clone.
MOST_BYTES = 150_000
ANSWER = re.compile(r"<!-- answer: (\w+) -->\n(?:\n```json\n(.*?)\n```\n)?", re.DOTALL)
#: Where another page has the fields.
ELSEWHERE = {("application", "status")}
#: Endpoints that need no more than an application.
LISTS = ("application", "shards", "batches", "completeness", "reading")
#: Entries of a list that an example shows.
SHOWN = 2
VIEWPORT = (1100, 660)
#: Characters in a line of an example.
WIDTH = 112


def examples(page: str | None = None) -> dict[str, Any]:
    """The answers that the page shows, by their endpoints; ``None`` for one that has none yet."""
    found = ANSWER.findall(PAGE.read_text("utf-8") if page is None else page)
    return {name: json.loads(text) if text else None for name, text in found}


def answers(airflow: PageAirflow) -> dict[str, Any]:
    """An answer of every endpoint."""
    troubles = airflow.application("troubles")
    named = {"batch_id": airflow.troubles["parked"], "shard_id": airflow.troubles["parked shard"]}
    body = {**troubles, "verb": "unpark", "chosen": {"batch_id": named["batch_id"]}, "preview": True}
    act = airflow.ask("POST", f"{API}/act", body=body, headers={"X-Shardbatch": "act"})
    assert act.status == 200, act
    return {
        "applications": airflow.read("applications"),
        **{name: airflow.read(name, **troubles) for name in LISTS},
        "batch": airflow.read("batch", **troubles, batch_id=named["batch_id"]),
        "shard": airflow.read("shard", **troubles, shard_id=airflow.troubles["gap"]),
        "records": airflow.read("records", **troubles, **named),
        "place": airflow.read("place", dag_id="troubles"),
        "act": act.body,
    }


def fields(value: Any) -> Any:
    """What can be compared: the fields of objects, over all entries of a list, and the columns of rows."""
    if isinstance(value, dict):
        if "columns" in value:
            beside = {name: fields(each) for name, each in value.items()}
            return {**beside, "columns": tuple(value["columns"]), "rows": None}
        return {name: fields(each) for name, each in value.items()}
    if isinstance(value, list):
        merged: Any = None
        for each in map(fields, value):
            merged = {**merged, **each} if isinstance(merged, dict) and isinstance(each, dict) else each or merged
        return merged
    return None


def differences(shown: Any, real: Any, place: str) -> list[str]:
    """Where the fields of an example are not those of an answer. What is unknown in one of them is left out."""
    if isinstance(shown, tuple) or isinstance(real, tuple):
        return [] if shown == real else [f"{place}: {shown} in the docs, {real} in the answer"]
    if not shown or not isinstance(shown, dict) or not isinstance(real, dict):
        return []
    missing = [f"{place}.{name} is not in the docs" for name in real.keys() - shown.keys()]
    missing += [f"{place}.{name} is in the docs only" for name in shown.keys() - real.keys()]
    both = sorted(shown.keys() & real.keys())
    return sorted(missing) + [each for name in both for each in differences(shown[name], real[name], f"{place}.{name}")]


def shortened(value: Any, place: tuple[str, ...]) -> Any:
    """An answer as the page shows it."""
    if place in ELSEWHERE:
        return {}
    if isinstance(value, dict):
        return {name: shortened(each, (*place, name)) for name, each in value.items()}
    if isinstance(value, list):
        if place[-1] in ("columns", "rows"):
            return value if place[-1] == "columns" else value[:1]
        return [shortened(each, place) for each in value[:SHOWN]]
    if isinstance(value, str) and value.startswith("file://"):
        return "s3://bucket/staging/" + value.partition("/staging/")[2]
    return value


def write_examples(found: Mapping[str, Any]) -> None:
    def put(match: re.Match[str]) -> str:
        text = laid_out(shortened(found[match[1]], (match[1],)))
        return f"<!-- answer: {match[1]} -->\n\n```json\n{text}\n```\n"

    PAGE.write_text(ANSWER.sub(put, PAGE.read_text("utf-8")), "utf-8")


def laid_out(value: Any, indent: int = 0) -> str:
    """JSON that is read easily: what fits stands on one line, and short members stand side by side."""
    whole = json.dumps(value, ensure_ascii=False)
    if indent + len(whole) <= WIDTH or not isinstance(value, (dict, list)):
        return whole
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {laid_out(each, indent + 1)}" for name, each in value.items()]
    else:
        members = [laid_out(each, indent + 1) for each in value]
    lines = [members[0]]
    for member in members[1:]:
        if "\n" in lines[-1] + member or indent + len(lines[-1]) + len(member) > WIDTH:
            lines.append(member)
        else:
            lines[-1] += f", {member}"
    begin, end = "{}" if isinstance(value, dict) else "[]"
    space = "\n" + " " * (indent + 1)
    return begin + space + f",{space}".join(lines) + "\n" + " " * indent + end


def take_pictures(airflow: PageAirflow) -> None:
    IMAGES.mkdir(exist_ok=True)
    (batch,) = [row for row in airflow.rows(ORDERS)[1] if row.state.value == "FROZEN"]
    with browser() as launched, tab(launched, airflow.address, airflow.session(), viewport=VIEWPORT) as shown:

        def picture(name: str, path: str, *wait: str) -> None:
            shown.go(path)
            for selector in wait:
                shown.page.locator(selector).first.wait_for(timeout=PATIENCE)
            keep(shown, name)

        picture("applications", "/plugin/streams", "table.applications tbody tr")
        shown.page.set_viewport_size({"width": VIEWPORT[0], "height": 860})
        picture("red-run", f"/dags/{ORDERS}/runs/red/plugin/streams-run", f"h2:has-text('{batch.batch_id}')")
        shown.page.set_viewport_size({"width": VIEWPORT[0], "height": VIEWPORT[1]})
        picture("overview", airflow.route("troubles"), ".trouble")
        picture("lineage", airflow.route("troubles", "lineage"), ".drawing.lineage canvas")
        picture("batches", airflow.route("troubles", "batches"), ".drawing.timeline canvas, .drawing.timeline svg")
        picture("shard", airflow.route("troubles", "shard", airflow.troubles["gap"]), "dl.facts")
        shown.go(airflow.route("troubles", "batch", airflow.troubles["parked"]))
        shown.page.get_by_role("button", name="unpark", exact=True).click()
        shown.page.get_by_role("heading", name="Preview").wait_for(timeout=PATIENCE)
        shown.page.get_by_label(re.compile("^Reason")).fill("record 7 is mended")
        keep(shown, "act")


def keep(shown: Tab, name: str) -> None:
    shown.page.wait_for_load_state("networkidle")
    path = IMAGES / f"streams-{name}.png"
    shown.page.screenshot(path=path)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise RuntimeError(f"{path.name} has {size:,} bytes, more than {MOST_BYTES:,}")


def prepare(airflow: PageAirflow) -> None:
    """A red run whose batch waits."""
    airflow.put(400)
    told = airflow.tell("fail")
    state = airflow.run("red")
    told.unlink()
    assert state == "failed", state


def main() -> int:
    with page_airflow() as airflow:
        prepare(airflow)
        write_examples(answers(airflow))
        take_pictures(airflow)
    print(f"wrote {PAGE.relative_to(ROOT)} and {IMAGES.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
