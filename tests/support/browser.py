# SPDX-License-Identifier: Apache-2.0
"""A real browser in front of a real page. What goes wrong on the page is collected, and fails the test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.prepare import BROWSER_RUNS, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ABSENT = "the packed Chromium runs on x86-64 Linux only"
#: Variables, `true` where these tests may not be left out: that of most build services, and that of `.ci/run`.
MUST_RUN = ("CI", "SHARDBATCH_NEEDS_BROWSER")
#: Milliseconds for anything that is waited for, on a machine that is busy with other things.
PATIENCE = 60_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
#: What the browser says of an answer that a busy machine did not give in time. The page tells it, and asks again.
BUSY = "status of 504"
WIDE, NARROW = (1400, 900), (820, 1000)
#: Where Airflow's UI keeps its colour mode: `light`, `dark` or `system`.
THEME = "theme"


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium. Where there is none, the test is skipped, or fails where it has to run."""
    if not BROWSER_RUNS:
        if any(os.environ.get(name) == "true" for name in MUST_RUN):
            pytest.fail(f"{ABSENT}, and {' or '.join(MUST_RUN)} leaves no browser test out")
        pytest.skip(ABSENT)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        try:
            yield launched
        finally:
            launched.close()


@dataclass
class Tab:
    """A tab of a person who is logged in, and all that went wrong on it."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        """Opens a path of Airflow's UI; its own page is loaded anew where only the hash differs."""
        self.page.goto(self.address + path)

    def watch(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error on the page: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type == "error" and BUSY not in message.text:
            self.wrong.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"asked another host: {request.url}")

    @contextlib.contextmanager
    def refused(self, status: int) -> Iterator[None]:
        """A part of a test in which the server refuses a call: the browser says so on its console."""
        before = list(self.wrong)
        yield
        told = [text for text in self.wrong[len(before) :] if f"status of {status} " in text]
        assert told, f"nothing was refused with {status}"
        self.wrong = [text for text in self.wrong if text not in told]


@contextlib.contextmanager
def tab(
    browser: Browser, address: str, token: str, *, viewport: tuple[int, int] = WIDE, theme: str = "light"
) -> Iterator[Tab]:
    """A tab with the session of a person.

    :param token: as Airflow's login gives it.
    :param theme: ``light`` or ``dark``, as the person chose it in Airflow.
    """
    width, height = viewport
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light", locale="en-US")
    context.set_default_timeout(PATIENCE)
    context.add_cookies([{"name": "_token", "value": token, "url": address}])
    context.add_init_script(f"localStorage.setItem({THEME!r}, {theme!r})")
    opened = Tab(context.new_page(), address)
    opened.watch()
    try:
        yield opened
        assert opened.wrong == []
    finally:
        context.close()
