# SPDX-License-Identifier: Apache-2.0
"""The table of metrics: names that every backend takes, no tag that grows, and none that nothing sends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shardbatch
from shardbatch.core import metrics
from shardbatch.core.metrics import METRICS, TAGS, Kind, Metric
from tests.support.pages import DOCS

SOURCES = Path(shardbatch.__file__).parent


def test_a_name_stands_once_and_begins_with_ours() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"shardbatch(\.[a-z_]+){1,2}", name) for name in names)


def test_no_tag_grows_with_runs_batches_or_shards() -> None:
    assert TAGS == ("app", "stream", "mode")
    assert {tag for metric in METRICS for tag in metric.tags} == {"step", "error"}


def test_every_metric_stands_in_the_table_and_is_measured_somewhere() -> None:
    defined = {name: found for name, found in vars(metrics).items() if isinstance(found, Metric)}
    assert set(defined.values()) == set(METRICS)
    files = [path for path in SOURCES.rglob("*.py") if path != SOURCES / "core" / "metrics.py"]
    text = "\n".join(path.read_text("utf-8") for path in files)
    assert [name for name in defined if not re.search(rf"(metrics\.|measure\(|self\(|\()({name}),", text)] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_page_has_every_metric_with_its_kind_unit_tags_and_meaning(metric: Metric) -> None:
    tags = ", ".join(f"`{tag}`" for tag in (*TAGS, *metric.tags))
    row = f"| `{metric.name}` | {metric.kind.value} | {metric.unit} | {tags} | {metric.meaning} |"
    assert row in (DOCS / "metrics.md").read_text("utf-8").splitlines()


def test_the_page_has_no_other_metric() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    assert set(re.findall(r"`(shardbatch\.[a-z_.]+)`", page)) == {metric.name for metric in METRICS}


def test_by_default_nothing_is_sent() -> None:
    metrics.unmeasured(metrics.LAG, 1.0)
    assert [kind.value for kind in Kind] == ["counter", "gauge", "timer"]
