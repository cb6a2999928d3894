# SPDX-License-Identifier: Apache-2.0
"""The Airflow and the browser that these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import browser
from tests.support.page_airflow import PageAirflow, page_airflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def airflow() -> Iterator[PageAirflow]:
    with page_airflow() as started:
        yield started


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with browser.browser() as launched:
        yield launched
