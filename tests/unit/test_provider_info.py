# SPDX-License-Identifier: Apache-2.0
"""What Airflow reads about the provider."""

from __future__ import annotations

import importlib
import json
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema

import shardbatch
from shardbatch.get_provider_info import get_provider_info


def test_it_fits_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text("utf-8"))
    jsonschema.validate(get_provider_info(), schema)


def test_it_names_no_address_that_may_not_be_there() -> None:
    assert "://" not in json.dumps(get_provider_info()["integrations"])


def test_every_module_and_class_that_it_names_is_there() -> None:
    info = get_provider_info()
    for part in ("operators", "hooks", "triggers"):
        for entry in info[part]:
            for module in entry["python-modules"]:
                importlib.import_module(module)
    for path in [*info.get("extra-links", ()), *info["cli"]]:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


def test_airflow_finds_it_by_its_entry_point() -> None:
    found = {point.value for point in entry_points(group="apache_airflow_provider")}
    assert "shardbatch.get_provider_info:get_provider_info" in found


def test_the_settings_have_defaults() -> None:
    from airflow.sdk.configuration import conf

    assert conf.get("shardbatch", "deployment_id") == ""


def test_it_names_every_module_that_has_an_operator_or_a_hook_of_ours() -> None:
    info = get_provider_info()
    homes = {getattr(shardbatch, name).__module__ for name in shardbatch.__all__ if name != "__version__"}
    for part in ("operators", "hooks"):
        (entry,) = info[part]
        of_part = {home for home in homes if home.startswith(f"shardbatch.{part}.")}
        assert of_part
        assert of_part <= set(entry["python-modules"])
    assert "shardbatch.hooks.streams" in info["hooks"][0]["python-modules"]
