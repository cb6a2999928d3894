# SPDX-License-Identifier: Apache-2.0
"""The Streams page in a real browser, as a person on call uses it. The tests go on from each other, in this order."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from scripts.environment import CACHE
from shardbatch.core.batch import BatchState
from tests.support import browser, page_rows
from tests.support.browser import PATIENCE, Tab
from tests.support.page_airflow import ORDERS, PageAirflow
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

#: How long each view took to open on this machine, for people to look at.
TIMES = CACHE / "page-times.json"
#: What has the focus, seen through the page's shadow root.
FOCUSED = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element;
}"""
OUTLINED = f"() => getComputedStyle(({FOCUSED})()).outlineStyle !== 'none'"


@pytest.fixture
def tab(airflow: PageAirflow, chromium: Browser) -> Iterator[Tab]:
    with browser.tab(chromium, airflow.address, airflow.session()) as opened:
        yield opened


def heading(tab: Tab, text: str | re.Pattern[str]) -> Locator:
    return tab.page.get_by_role("heading", name=text)


def see(locator: Locator) -> Locator:
    locator.first.wait_for(timeout=PATIENCE)
    return locator.first


def button(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("button", name=name, exact=True)


def frozen(airflow: PageAirflow, name: str = ORDERS) -> Any:
    """The one batch of an application that is not decided."""
    (found,) = [row for row in airflow.rows(name)[1] if row.state is BatchState.FROZEN]
    return found


def test_from_a_red_run_to_the_shard_and_what_to_press_in_two_clicks(airflow: PageAirflow, tab: Tab) -> None:
    airflow.put(40)
    told = airflow.tell("fail")
    assert airflow.run("red") == "failed"
    told.unlink()
    batch = frozen(airflow)
    tab.go(f"/dags/{ORDERS}/runs/red")
    see(tab.page.get_by_role("link", name="Streams")).click()
    alert = see(tab.page.get_by_role("alert").filter(has_text="batch.work"))
    assert "it gets the same records" in alert.inner_text()  # what to do, as the error of the work has it
    see(heading(tab, f"Batch {batch.batch_id}"))
    for verb in ("park", "set-aside", "drop", "release"):
        see(button(tab, verb))
    shard_id = airflow.rows(ORDERS)[0][0].shard_id
    see(tab.page.get_by_role("link", name=shard_id)).click()
    see(heading(tab, f"Shard {shard_id}"))
    facts = see(tab.page.locator("dl.facts").filter(has_text="Hash range")).inner_text()
    for fact in ("Until data loss", "Held by", "Checkpoint", batch.batch_id, "red"):
        assert fact in facts
    see(button(tab, "release"))


def test_every_task_and_the_dag_lead_to_the_same_places(airflow: PageAirflow, tab: Tab) -> None:
    batch = frozen(airflow)
    named = heading(tab, f"Batch {batch.batch_id}")
    tab.go(f"/dags/{ORDERS}/plugin/streams-dag")
    see(heading(tab, f"{ORDERS} / {ORDERS}"))
    tab.go(f"/dags/{ORDERS}/runs/red/tasks/batch.work/plugin/streams-task")
    see(named)
    tab.go(f"/dags/{ORDERS}/runs/red/tasks/batch.read/mapped/0/plugin/streams-task")
    see(tab.page.get_by_text(airflow.rows(ORDERS)[0][0].shard_id))  # the shards that it read, which wait with the batch
    links = airflow.client.call("GET", f"dags/{ORDERS}/dagRuns/red/taskInstances/batch.freeze/links")["extra_links"]
    assert f"/batch/{batch.batch_id}" in links["Batch"]
    tab.go(links["Batch"].removeprefix(airflow.address))
    see(named)


def test_the_page_follows_a_run_by_itself(airflow: PageAirflow, tab: Tab) -> None:
    batch_id = frozen(airflow).batch_id
    hold = airflow.tell("hold")
    tab.go(airflow.route(ORDERS, "batch", batch_id))
    see(tab.page.locator(".pill", has_text="frozen"))
    airflow.start("live")
    see(tab.page.get_by_text("live", exact=True).locator("visible=true"))
    see(tab.page.locator(".fact", has_text="Attempt").filter(has_text="2"))
    hold.unlink()
    assert airflow.client.wait_for_run(ORDERS, "live", 600) == "success"
    see(tab.page.locator(".pill", has_text="committed"))


def test_the_list_has_every_application_and_a_silent_store_hides_none(airflow: PageAirflow, tab: Tab) -> None:
    tab.go("/plugin/streams")
    rows = tab.page.locator("table.applications tbody tr")
    see(rows)
    names = [text.split("\n")[0] for text in rows.all_inner_texts()]
    assert sorted(names) == ["elsewhere", "orders", "silent", "troubles", "wide"]
    assert names.index("troubles") < names.index("orders")
    troubles = rows.filter(has_text="troubles").inner_text()
    for told in ("1 gap", "1 parked", "1 set aside", "2 unfinished"):
        assert told in troubles
    alert = see(tab.page.get_by_role("alert")).inner_text()
    assert "leases_silent" in alert
    assert "s3cr3t" not in tab.page.content()
    see(tab.page.get_by_role("searchbox", name=re.compile("^Search"))).fill("elsewh")
    wait_until(lambda: rows.count() == 1, 30, "the list to show one application")
    tab.page.get_by_role("link", name="elsewhere").click()
    see(heading(tab, "elsewhere / elsewhere"))


def test_an_application_says_what_is_wrong_and_its_views_show_it(airflow: PageAirflow, tab: Tab) -> None:
    names = airflow.troubles
    tab.go(airflow.route("troubles"))
    for trouble in ("gap", "parked", "set aside", "frozen"):
        see(tab.page.locator(".trouble").filter(has_text=names[trouble]))
    see(tab.page.locator(".drawing.completeness .sb-hour"))
    for view, drawing in {"Lineage": "lineage", "Batches": "timeline", "Plots": "plots"}.items():
        see(tab.page.get_by_role("link", name=view, exact=True)).click()
        see(tab.page.locator(f".drawing.{drawing} canvas, .drawing.{drawing} svg"))
    see(tab.page.get_by_role("link", name="Shards", exact=True)).click()
    see(tab.page.get_by_label(re.compile(r"^gap"))).check()
    see(tab.page.get_by_text("1 of 11 shards"))
    see(tab.page.get_by_role("link", name=names["gap"])).click()
    see(heading(tab, f"Shard {names['gap']}"))
    see(tab.page.get_by_role("status").or_(tab.page.get_by_role("alert")).filter(has_text="gap"))
    tab.page.go_back()
    see(tab.page.get_by_text("1 of 11 shards"))


def test_first_records_of_a_slice_are_shown(airflow: PageAirflow, tab: Tab) -> None:
    tab.go(airflow.route("troubles", "batch", airflow.troubles["parked"]))
    see(button(tab, "show first")).click()
    see(tab.page.get_by_text("key-0"))


def test_an_act_is_previewed_then_done_and_a_second_tabs_stale_preview_is_refused(
    airflow: PageAirflow, chromium: Browser, tab: Tab
) -> None:
    batch_id = airflow.troubles["parked"]
    path = airflow.route("troubles", "batch", batch_id)

    def note() -> tuple[BatchState, str]:
        (row,) = [row for row in airflow.rows("troubles")[1] if row.batch_id == batch_id]
        return row.state, row.note

    def preview(of: Tab, reason: str) -> Locator:
        of.go(path)
        see(button(of, "unpark")).click()
        see(of.page.get_by_role("dialog").get_by_role("heading", name="Preview"))
        of.page.get_by_label(re.compile("^Reason")).fill(reason)
        return button(of, "Do it: unpark")

    before = note()
    with browser.tab(chromium, airflow.address, airflow.session("ursula")) as other:
        late = preview(other, "too late")
        now = preview(tab, "record 7 is mended")
        assert note() == before
        now.click()
        see(tab.page.get_by_role("dialog").get_by_role("heading", name="Done"))
        done = note()
        assert done[0] is BatchState.FROZEN
        assert done[1].endswith("ada unparked: record 7 is mended")
        with other.refused(409):
            late.click()
            see(other.page.get_by_role("dialog").get_by_role("alert"))
        assert note() == done
        see(button(other, "Look again"))


def test_a_viewer_is_offered_nothing_to_press(airflow: PageAirflow, chromium: Browser) -> None:
    with browser.tab(chromium, airflow.address, airflow.session("vera")) as viewer:
        viewer.go(airflow.route("troubles"))
        see(viewer.page.locator(".trouble"))
        assert viewer.page.get_by_role("button", name="accept-gap").count() == 0


def test_the_keyboard_reaches_everything_and_the_focus_is_seen(airflow: PageAirflow, tab: Tab) -> None:
    keyboard = tab.page.keyboard

    def walk(text: str, most: int = 80) -> None:
        """Presses Tab until something with this text has the focus."""
        for _ in range(most):
            keyboard.press("Tab")
            found = tab.page.evaluate(f"() => {{ const e = ({FOCUSED})(); return e?.ariaLabel || e?.textContent; }}")
            if (found or "").strip() == text:
                assert tab.page.evaluate(OUTLINED), f"the focus on {text!r} is not seen"
                return
        raise AssertionError(f"Tab does not reach {text!r}")

    tab.go("/plugin/streams")
    see(tab.page.get_by_role("link", name="troubles").first)
    walk("troubles")
    keyboard.press("Enter")
    see(tab.page.get_by_role("link", name="Batches", exact=True))
    walk("Batches")
    keyboard.press("Enter")
    see(tab.page.locator(".drawing.timeline canvas, .drawing.timeline svg"))
    walk("Overview")
    keyboard.press("Enter")
    see(button(tab, "accept-gap"))
    walk("accept-gap")
    keyboard.press("Enter")
    see(tab.page.get_by_role("dialog"))
    inside = f"() => {{ const e = ({FOCUSED})(); return e === document.body || e.closest('dialog') !== null; }}"
    for _ in range(15):
        keyboard.press("Tab")
        assert tab.page.evaluate(inside), "Tab leaves the dialog"
    keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")
    assert tab.page.evaluate(f"() => ({FOCUSED})().textContent") == "accept-gap"
    walk("Act on this application")
    keyboard.press("Enter")
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Enter")  # a menu that acts as soon as an arrow key moves would have opened the verb before
    see(tab.page.get_by_role("dialog").get_by_role("heading", name="park"))
    keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")
    assert tab.page.evaluate(f"() => ({FOCUSED})().ariaLabel") == "Act on this application"


@pytest.mark.parametrize(("theme", "viewport"), [("dark", browser.WIDE), ("light", browser.NARROW)])
def test_the_page_looks_as_airflow_does_and_fits(
    airflow: PageAirflow, chromium: Browser, theme: str, viewport: tuple[int, int]
) -> None:
    with browser.tab(chromium, airflow.address, airflow.session(), viewport=viewport, theme=theme) as opened:
        opened.go(airflow.route("troubles", "shards"))
        shown = see(opened.page.locator("main.page"))
        see(opened.page.get_by_text("11 of 11 shards"))
        colour = shown.evaluate("e => getComputedStyle(e).color.match(/\\d+/g).slice(0, 3).map(Number)")
        assert (sum(colour) > 3 * 128) == (theme == "dark"), colour
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_thousands_of_shards_open_and_stay_readable(airflow: PageAirflow, tab: Tab) -> None:
    times: dict[str, float] = {}

    def timed(name: str, path: str, shown: Locator) -> None:
        tab.go("/plugin/streams#/none")
        began = time.monotonic()
        tab.go(path)
        see(shown)
        times[name] = round(time.monotonic() - began, 2)

    shards = tab.page.get_by_text(f"{page_rows.WIDE:,} of {page_rows.WIDE:,} shards")
    timed("5,000 shards as a table", airflow.route("wide", "shards"), shards)
    assert tab.page.locator("table tbody tr").count() < 200  # only those in sight are drawn
    tab.page.get_by_role("searchbox", name=re.compile("^Search")).fill("000004321")
    see(tab.page.get_by_text("1 of 5,000 shards"))
    timed("5,000 shards as lineage", airflow.route("wide", "lineage"), tab.page.locator(".drawing.lineage canvas"))
    print(times)
    TIMES.write_text(json.dumps(times, indent=1), "utf-8")
