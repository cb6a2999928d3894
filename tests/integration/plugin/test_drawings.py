# SPDX-License-Identifier: Apache-2.0
"""The drawings of the Streams page in a real browser, with made-up answers of its endpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shardbatch_plugin
from tests.support.browser import PATIENCE, Tab, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

HARNESS = Path(__file__).resolve().parents[2] / "support" / "drawings"
STATIC = Path(shardbatch_plugin.__file__).with_name("static")
DRAWINGS = ("lineage", "timeline", "plots", "completeness")
FEW = "{total: 40, open: 12, levels: 4}"


class Files(SimpleHTTPRequestHandler):
    """The harness, and below `/static/` the page's own files."""

    def translate_path(self, path: str) -> str:
        name = path.partition("?")[0].lstrip("/")
        below, _, rest = name.partition("/")
        return str(STATIC / rest if below == "static" else HARNESS / name)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the browser's console tells of a file that is missing."""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


class Server(ThreadingHTTPServer):
    """Takes all connections that a browser opens at once: with the five of the default, some begin a second late."""

    request_queue_size = 64


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(("127.0.0.1", 0), partial(Files, directory=str(HARNESS))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(chrome: Browser, address: str) -> Iterator[Page]:
    """The harness in a tab of its own; a test fails if anything goes wrong on the page."""
    context = chrome.new_context(viewport={"width": 1300, "height": 800}, reduced_motion="reduce", color_scheme="light")
    context.set_default_timeout(PATIENCE)
    tab = Tab(context.new_page(), address)
    tab.watch()
    show(tab)
    yield tab.page
    context.close()
    assert tab.wrong == []


def show(tab: Tab) -> None:
    """Opens the harness. One that does not get ready fails the test with what the browser said of it."""
    from playwright.sync_api import TimeoutError as NotReady

    tab.go("/harness.html")
    try:
        # Not by frames, which is the default: a browser that is short of processor time draws none for long.
        tab.page.wait_for_function("globalThis.harness", polling=50)
    except NotReady:
        loaded = tab.page.evaluate(
            "performance.getEntriesByType('resource').map(({name, responseEnd}) => [name, responseEnd])"
        )
        raise AssertionError(
            f"the harness did not get ready; the browser said {tab.wrong}, and loaded {loaded}"
        ) from None


def draw(page: Page, name: str, answer: str = "{}", options: str = "{}") -> Locator:
    """Draws it and returns its canvas, which has focus."""
    took = page.evaluate(f"harness.draw({name!r}, {answer}, {options})")
    print(f"first draw of {name} {answer}: {took:.0f} ms")
    canvas = page.locator(".sb-stage canvas")
    if canvas.count():
        canvas.focus()
    return canvas


def wait_for(page: Page, canvas: Locator, name: str, value: str) -> None:
    """Until the canvas says this of what it drew last."""
    page.wait_for_function(
        "([canvas, name, value]) => canvas.dataset[name] === value", arg=[canvas.element_handle(), name, value]
    )


def changed(page: Page, canvas: Locator, name: str, act: Callable[[], None]) -> str:
    """What the canvas says of itself after something was done that changes it."""
    before = canvas.get_attribute(f"data-{name}")
    act()
    found = page.wait_for_function(
        "([canvas, name, before]) => canvas.dataset[name] !== before && canvas.dataset[name]",
        arg=[canvas.element_handle(), name, before],
    )
    return str(found.json_value())


def view_of(canvas: Locator) -> list[str]:
    return (canvas.get_attribute("data-view") or "").split()


def moved(canvas: Locator, x: float, y: float) -> tuple[float, float]:
    """A place on the canvas as one of the page."""
    box = canvas.bounding_box()
    assert box is not None
    return box["x"] + x, box["y"] + y


def told(page: Page) -> str:
    return page.locator("[aria-live]").inner_text()


def picture(page: Page, canvas: Locator) -> dict[str, int]:
    """How many pixels of the canvas have each of its colours, the most frequent ones."""
    found = canvas.evaluate(
        """canvas => {
          const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const counts = {};
          for (let at = 0; at < data.length; at += 4) {
            if (data[at + 3] < 255) continue;
            const colour = "#" + [0, 1, 2].map(i => data[at + i].toString(16).padStart(2, "0")).join("");
            counts[colour] = (counts[colour] ?? 0) + 1;
          }
          return counts;
        }"""
    )
    return {colour: many for colour, many in found.items() if many > 200}


def test_a_lineage_of_5000_shards_is_drawn_whole(page: Page) -> None:
    canvas = draw(page, "lineage")
    assert canvas.get_attribute("data-bars") == "5000"
    assert canvas.get_attribute("data-axis") == "time"
    joined = int(canvas.get_attribute("data-rectangles") or 0)
    assert 1000 < joined < 5000, "bars that look the same are joined to one rectangle"
    summary = page.locator(f"#{canvas.get_attribute('aria-describedby')}").inner_text()
    assert summary.startswith("5,000 shards in 9 generations: ")
    assert "is furthest behind, by 1 d." in summary
    assert {"#2b6fd6", "#c3cad6", "#0c8f83", "#7b57c8"} <= set(picture(page, canvas))


def test_a_lineage_zooms_and_moves_by_keys_buttons_wheel_and_drag(page: Page) -> None:
    canvas = draw(page, "lineage")
    for _ in range(5):
        page.keyboard.press("+")
    wait_for(page, canvas, "zoom", "32.00")
    assert 0 < int(canvas.get_attribute("data-bars") or 0) < 1000
    before = view_of(canvas)
    changed(page, canvas, "view", lambda: page.keyboard.press("Shift+ArrowDown"))
    assert view_of(canvas)[:2] == before[:2], "only the range has moved"
    page.get_by_role("button", name="Show all shards").click()
    wait_for(page, canvas, "bars", "5000")
    canvas.hover(position={"x": 500, "y": 200})
    changed(page, canvas, "view", lambda: page.mouse.wheel(0, -500))
    held = [float(part) for part in view_of(canvas)]
    page.mouse.down()
    page.mouse.move(*moved(canvas, 440, 240))
    changed(page, canvas, "view", lambda: page.mouse.move(*moved(canvas, 400, 260)))
    page.mouse.up()
    after = [float(part) for part in view_of(canvas)]
    assert after[0] > held[0], "what is drawn followed the pointer to the left"
    assert after[2] < held[2], "what is drawn followed the pointer down"
    assert page.evaluate("harness.chosen") == [], "a drag is not a click"


def test_a_click_opens_the_shard_under_the_pointer(page: Page) -> None:
    canvas = draw(page, "lineage", FEW)
    for number in (3, 17, 30):
        shard = page.evaluate("number => harness.generated.shardId(number)", number)
        place = page.evaluate("id => harness.placeOf(id)", shard)
        canvas.hover(position=place)
        assert page.locator(".sb-tip strong").inner_text() == shard
        canvas.click(position=place)
        assert page.evaluate("harness.chosen.at(-1)") == shard
    assert page.evaluate("harness.chosen.length") == 3


def test_a_lineage_is_walked_by_arrow_keys(page: Page) -> None:
    canvas = draw(page, "lineage", FEW)
    page.keyboard.press("ArrowRight")
    first = page.wait_for_function("canvas => canvas.dataset.current", arg=canvas.element_handle()).json_value()
    assert "the furthest of all" in told(page)
    parent = changed(page, canvas, "current", lambda: page.keyboard.press("ArrowLeft"))
    assert f"children: {first}" in told(page) or f", {first}" in told(page)
    child = changed(page, canvas, "current", lambda: page.keyboard.press("ArrowRight"))
    assert f"parents: {parent}" in told(page) or f", {parent}" in told(page)
    below = changed(page, canvas, "current", lambda: page.keyboard.press("ArrowDown"))
    assert below != child
    page.keyboard.press("ArrowUp")
    wait_for(page, canvas, "current", child)
    page.keyboard.press("Enter")
    assert page.evaluate("harness.chosen") == [canvas.get_attribute("data-current")]
    page.keyboard.press("Escape")
    wait_for(page, canvas, "current", "")


def test_a_search_brings_a_shard_into_the_middle(page: Page) -> None:
    canvas = draw(page, "lineage")
    field = page.get_by_role("searchbox", name="Find a shard")
    field.fill("000004500")
    wait_for(page, canvas, "current", "shardId-000000004500")
    place = page.evaluate("harness.placeOf('shardId-000000004500')")
    size = canvas.bounding_box()
    assert size is not None
    assert 0 < place["x"] < size["width"]
    assert 0.2 < place["y"] / size["height"] < 0.8
    assert page.locator(".sb-found").inner_text() == "1 of 1"
    field.fill("shardId-00000000450")
    assert page.locator(".sb-found").inner_text() == "1 of 10"
    field.press("Enter")
    wait_for(page, canvas, "current", "shardId-000000004501")
    field.fill("not there")
    assert page.locator(".sb-found").inner_text() == "no such shard"


@pytest.mark.parametrize(
    "answer",
    ["harness.generated.oddShards()", "{columns: [], rows: []}", "{total: 1}", f"{{...{FEW}, times: false}}"],
    ids=["odd", "none", "one", "without times"],
)
def test_whatever_a_service_says_of_its_shards_is_drawn(page: Page, answer: str) -> None:
    canvas = draw(page, "lineage", answer)
    rows = page.evaluate("harness.answer.rows.length")
    assert canvas.get_attribute("data-bars") == str(rows)
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "+", "Shift+ArrowLeft", "-", "0", "Enter"):
        page.keyboard.press(key)
    canvas.hover(position={"x": 300, "y": 200})
    page.evaluate("harness.handle.update({columns: [], rows: []})")
    wait_for(page, canvas, "bars", "0")
    assert page.locator("main b").count() == 0, "an id is text, whatever it says"


def test_a_source_without_ranges_has_a_tree(page: Page) -> None:
    canvas = draw(page, "lineage", "{total: 60, open: 22, levels: 4, ranges: false}")
    assert canvas.get_attribute("data-axis") == "generation"
    rows = page.evaluate("harness.answer.rows.map(row => row[6].length)")
    assert canvas.get_attribute("data-bars") == str(len(rows))
    assert canvas.get_attribute("data-joins") == str(sum(rows))


def test_an_update_keeps_the_view_and_the_shard_that_is_chosen(page: Page) -> None:
    canvas = draw(page, "lineage", FEW, "{selected: 'shardId-000000000020'}")
    assert canvas.get_attribute("data-current") == "shardId-000000000020"
    changed(page, canvas, "view", lambda: page.keyboard.press("+"))
    before = view_of(canvas)
    page.evaluate("harness.handle.update(harness.answer)")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert (view_of(canvas), canvas.get_attribute("data-current")) == (before, "shardId-000000000020")


def test_the_timeline_shows_the_newest_batches_and_opens_one(page: Page) -> None:
    canvas = draw(page, "timeline")
    shown = int(canvas.get_attribute("data-bars") or 0)
    assert 40 < shown < 100
    assert int(canvas.get_attribute("data-first") or 0) == 500 - shown
    newest = page.evaluate("harness.answer.rows.slice(0, 2).map(row => row[0])")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    wait_for(page, canvas, "current", newest[1])
    assert "parked: waits for a person" in told(page)
    page.keyboard.press("Enter")
    assert page.evaluate("harness.chosen") == [newest[1]]
    page.keyboard.press("Home")
    wait_for(page, canvas, "first", "0")
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": 100, "y": 200})
    assert page.evaluate("harness.answer.rows.findIndex(row => row[0] === harness.chosen.at(-1))") > 400
    # The strip above leads back to the newest ones.
    changed(page, canvas, "first", lambda: canvas.click(position={"x": box["width"] - 20, "y": 20}))
    assert int(canvas.get_attribute("data-first") or 0) > 400


def test_plots_tell_exact_values(page: Page) -> None:
    canvas = draw(page, "plots")
    assert canvas.get_attribute("data-log") == "lag duration"
    assert 1400 < int(canvas.get_attribute("data-points") or 0) <= 1500
    canvas.hover(position={"x": 500, "y": 100})
    lines = page.locator(".sb-tip").inner_text().splitlines()
    assert [line.partition(":")[0] for line in lines[3:]] == [
        "lag at commit",
        "records of a batch",
        "duration of a batch",
    ]
    page.mouse.move(5, 5)
    page.keyboard.press("Home")
    oldest = page.evaluate("harness.answer.rows.at(-1)")
    assert told(page).startswith(str(oldest[0]))
    assert f"records of a batch: {oldest[4]:,}" in told(page)


def test_hours_are_cells_with_the_watermark(page: Page) -> None:
    draw(page, "completeness")
    cells = page.locator(".sb-days .sb-hour")
    assert cells.count() == 72
    assert page.locator(".sb-days .sb-gap").count() == 1
    held = page.locator(".sb-hour:has(.sb-watermark)")
    assert "09:00 to 10:00 UTC, complete; the watermark is 2026-11-28 09:36:00 UTC" in (
        held.get_attribute("title") or ""
    )
    page.locator(".sb-hour[tabindex='0']").focus()
    page.keyboard.press("ArrowUp")
    focused = page.locator(".sb-hour:focus")
    assert (focused.get_attribute("aria-label") or "").startswith("2026-11-27 12:00 to 13:00 UTC, complete")


@pytest.mark.parametrize("name", DRAWINGS[:3])
def test_a_drawing_turns_dark_with_the_page(page: Page, name: str) -> None:
    canvas = draw(page, name, FEW if name == "lineage" else "{count: 60}")
    light = picture(page, canvas)
    page.evaluate("document.documentElement.className = 'dark'")
    page.wait_for_function(
        "canvas => getComputedStyle(canvas.closest('.sb-drawing')).getPropertyValue('--sbd-text') === '#e8ecf3'",
        arg=canvas.element_handle(),
    )
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    dark = picture(page, canvas)
    assert "#2b6fd6" in light
    assert "#2b6fd6" not in dark
    assert "#5b9bff" in dark


def test_a_drawing_follows_the_width_of_its_place_and_the_pixels_of_the_screen(chrome: Browser, address: str) -> None:
    context = chrome.new_context(viewport={"width": 1000, "height": 800}, device_scale_factor=2)
    page = context.new_page()
    show(Tab(page, address))
    canvas = draw(page, "lineage", FEW)
    assert canvas.evaluate("canvas => canvas.width") == 2 * canvas.evaluate("canvas => canvas.clientWidth")
    page.set_viewport_size({"width": 600, "height": 800})
    page.wait_for_function("canvas => canvas.clientWidth < 600", arg=canvas.element_handle())
    box = page.locator(".sb-stage").bounding_box()
    assert box is not None
    assert box["width"] == canvas.evaluate("canvas => canvas.clientWidth")
    page.evaluate("harness.handle.destroy()")
    assert canvas.count() == 0
    context.close()


@pytest.mark.parametrize("name", ["timeline", "plots"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_batches_are_drawn(page: Page, name: str, count: int) -> None:
    canvas = draw(page, name, f"{{count: {count}}}")
    for key in ("ArrowLeft", "Home", "End", "+", "-"):
        page.keyboard.press(key)
    canvas.hover(position={"x": 120, "y": 200})
    page.evaluate("harness.handle.update([{}, {batch_id: '<b>', created_at_ms: 'x', records: null, state: null}])")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert canvas.get_attribute("aria-label")
