# SPDX-License-Identifier: Apache-2.0
"""The staging areas of the contracts of landing and of clean-up: each of them on every kind of file system."""

from __future__ import annotations

import pytest

from shardbatch.landing.area import StagingArea
from tests.contract import landing_backends as backends
from tests.contract.landing_backends import Backend


@pytest.fixture(params=backends.NAMES)
def backend(request: pytest.FixtureRequest, unique_name: str) -> Backend:
    return backends.make_backend(request.param, request, unique_name)


@pytest.fixture
def area(backend: Backend) -> StagingArea:
    return backend.area
