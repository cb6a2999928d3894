# SPDX-License-Identifier: Apache-2.0
"""How an application learns which batch it works on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.core.handover import WorkOrder
from shardbatch.errors import ConfigurationError, UnsupportedSchema
from shardbatch.spark.arguments import find_order


def find(
    given: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    conf: dict[str, str] | None = None,
    argv: list[str] | None = None,
) -> WorkOrder:
    session: Any = SimpleNamespace(conf=conf or {})  # a session's configuration answers as a dict does
    return find_order(session, given or {}, environ or {}, argv or [])


ENVIRON = {
    "SHARDBATCH_MANIFEST": "m-env",
    "SHARDBATCH_ATTEMPT": "2",
    "SHARDBATCH_DIGEST": "d",
    "SHARDBATCH_WORK": "w",
    "SHARDBATCH_TOKEN": "t",
}
CONF = {"spark.shardbatch.manifest": "m-conf", "spark.shardbatch.attempt": "3", "spark.shardbatch.schemes": "s3=s3a"}
ARGV = ["in.csv", "--shardbatch-manifest", "m-argv", "--verbose", "--shardbatch-attempt=4", "--shardbatch-work"]


def test_the_environment_comes_before_the_configuration_before_the_command_line() -> None:
    assert find(None, ENVIRON, CONF, ARGV) == WorkOrder("m-env", 2, "d", "w", "t", schemes={"s3": "s3a"})
    assert find(None, {}, CONF, ARGV) == WorkOrder("m-conf", 3, "", "", "", schemes={"s3": "s3a"})
    assert find(None, {}, {}, ARGV) == WorkOrder("m-argv", 4)


def test_arguments_come_before_all() -> None:
    assert find({"attempt": 7, "work": "mine"}, ENVIRON) == WorkOrder("m-env", 7, "d", "mine", "t")
    assert find({"manifest": "m-env"}, ENVIRON) == WorkOrder("m-env", 2, "d", "w", "t")


def test_the_attempt_of_another_manifest_is_not_taken() -> None:
    assert find({"manifest": "m-conf"}, ENVIRON, CONF) == WorkOrder("m-conf", 3, "", "", "", schemes={"s3": "s3a"})
    with pytest.raises(ConfigurationError, match="attempt"):
        find({"manifest": "m-other"}, ENVIRON, CONF, ARGV)


def test_a_missing_manifest_names_every_way_to_give_it() -> None:
    with pytest.raises(ConfigurationError, match="SparkSubmitBatchOperator") as failure:
        find(argv=["--shardbatch-manifest"])
    for way in ("batch.args", "SHARDBATCH_MANIFEST", "open_batch"):
        assert way in str(failure.value)


@pytest.mark.parametrize("attempt", ["", "0", "-1", "one", "1.5"])
def test_an_attempt_is_a_number_from_one_on(attempt: str) -> None:
    with pytest.raises(ConfigurationError, match="attempt"):
        find({"manifest": "m", "attempt": attempt})


def test_schemes_are_read_from_text() -> None:
    assert find({"manifest": "m", "attempt": 1, "schemes": "S3=s3a, gs=gcs"}).schemes == {"s3": "s3a", "gs": "gcs"}
    with pytest.raises(ConfigurationError, match="s3=s3a"):
        find({"manifest": "m", "attempt": 1, "schemes": "s3"})


LATER = {"SHARDBATCH_HANDOVER": "2"}


def test_what_a_later_version_hands_over_is_refused_wherever_it_would_be_taken() -> None:
    for place in (
        {"environ": {**ENVIRON, **LATER}},
        {"given": {"manifest": "m-env"}, "environ": {**ENVIRON, **LATER}},
        {"conf": {**CONF, "spark.shardbatch.handover": "2"}},
        {"argv": [*ARGV, "--shardbatch-handover=2"]},
    ):
        with pytest.raises(UnsupportedSchema, match="has version 2"):
            find(**place)  # type: ignore[arg-type]


def test_a_later_version_in_a_place_that_is_not_asked_does_not_matter() -> None:
    assert find({"manifest": "m-conf"}, LATER, CONF) == WorkOrder("m-conf", 3, schemes={"s3": "s3a"})
    assert find(None, ENVIRON, {**CONF, "spark.shardbatch.handover": "2"}) == find(None, ENVIRON, CONF)
    assert find({"manifest": "m", "attempt": 1}, LATER) == WorkOrder("m", 1)
    assert find(None, LATER, CONF) == find(None, {}, CONF)


@pytest.mark.parametrize("text", ["0.1.0", "2", "latest"])
def test_variables_of_an_image_that_happen_to_begin_alike_do_not_matter(text: str) -> None:
    image = {"SHARDBATCH_VERSION": text, "SHARDBATCH_HOME": "/opt", "SHARDBATCH_TOKEN": "x", "SHARDBATCH_WORK": "/work"}
    assert find(None, image, CONF) == find(None, {}, CONF)
    assert find(None, image, {}, ARGV) == find(None, {}, {}, ARGV)
    assert find(None, {**image, **ENVIRON}) == find(None, ENVIRON)
    with pytest.raises(ConfigurationError, match="No manifest"):
        find(None, image)
