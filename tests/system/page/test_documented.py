# SPDX-License-Identifier: Apache-2.0
"""docs/streams-page.md shows the JSON as it is: every endpoint, with the fields that a real Airflow answers."""

from __future__ import annotations

import pytest

from tests.support import page_docs
from tests.support.page_airflow import PageAirflow
from tests.system.page.test_permissions import routes

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_the_page_shows_the_fields_of_every_answer(airflow: PageAirflow) -> None:
    shown, real = page_docs.examples(), page_docs.answers(airflow)
    assert set(shown) == set(real) == {path.rpartition("/")[2] for _, path in routes()}
    wrong = []
    for name, answer in real.items():
        wrong += page_docs.differences(page_docs.fields(shown[name]), page_docs.fields(answer), name)
    assert wrong == [], "python -m tests.support.page_docs writes them anew"
