# SPDX-License-Identifier: Apache-2.0
"""What Airflow hands over to an application: the words, and that each way brings them over whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core import handover
from shardbatch.core.handover import WorkOrder, decode, encode
from shardbatch.errors import ConfigurationError, UnsupportedSchema

WORK = WorkOrder("s3://lake/m.json", 3, "sha256:00", "orders.work[2]", "try-1", "b1")

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
HANDOVERS = st.builds(
    WorkOrder,
    manifest=TEXTS.filter(bool),
    attempt=st.integers(1, 10**9),
    digest=TEXTS,
    work=TEXTS,
    token=TEXTS,
    batch_id=TEXTS,
)


def test_the_words_are_those_that_jobs_and_other_versions_know() -> None:
    assert handover.VERSION == 1
    assert handover.to_arguments(encode(WORK)) == [
        "--shardbatch-manifest=s3://lake/m.json",
        "--shardbatch-attempt=3",
        "--shardbatch-digest=sha256:00",
        "--shardbatch-work=orders.work[2]",
        "--shardbatch-token=try-1",
    ]
    assert handover.to_environment(encode(WORK)) == {
        "SHARDBATCH_MANIFEST": "s3://lake/m.json",
        "SHARDBATCH_ATTEMPT": "3",
        "SHARDBATCH_DIGEST": "sha256:00",
        "SHARDBATCH_WORK": "orders.work[2]",
        "SHARDBATCH_TOKEN": "try-1",
    }
    assert handover.to_configuration(WORK) == {
        "spark.shardbatch.manifest": "s3://lake/m.json",
        "spark.shardbatch.attempt": "3",
        "spark.shardbatch.digest": "sha256:00",
        "spark.shardbatch.work": "orders.work[2]",
        "spark.shardbatch.token": "try-1",
        "spark.shardbatch.batch": "b1",
    }
    assert (WORK.tag, handover.LABEL) == ("shardbatch-b1", "shardbatch-batch")


@given(HANDOVERS, st.lists(TEXTS.filter(lambda text: not text.startswith("--shardbatch-"))))
def test_every_way_brings_a_handover_over_whole(made: WorkOrder, others: list[str]) -> None:
    arguments, told = handover.to_arguments(encode(made)), handover.to_configuration(made)
    unnamed = replace(made, batch_id="")
    assert decode(handover.of_arguments([*others, *arguments, *others])) == unnamed
    assert decode(handover.of_environment({"PATH": "/bin", **handover.to_environment(encode(made))})) == unnamed
    assert decode(handover.of_configuration(told.get)) == made
    assert decode(handover.of_submit([*others, *(f"{key}={text}" for key, text in told.items())])) == made


def test_a_command_line_may_have_names_and_texts_apart() -> None:
    apart = [word for argument in handover.to_arguments(encode(WORK)) for word in argument.split("=", 1)]
    assert decode(handover.of_arguments(apart)) == replace(WORK, batch_id="")
    assert handover.of_arguments(["--shardbatch-manifest"]) == {}


def test_the_words_of_version_0_1_0_are_read() -> None:
    assert decode({"manifest": "m", "attempt": "2"}) == WorkOrder("m", 2)


def test_words_that_a_receiver_does_not_know_are_passed_over() -> None:
    words = handover.of_environment({"SHARDBATCH_MANIFEST": "m", "SHARDBATCH_ATTEMPT": "2", "SHARDBATCH_COLOUR": "red"})
    assert decode(words) == WorkOrder("m", 2)
    assert handover.of_arguments(["--shardbatch-colour=red"]) == {}


@pytest.mark.parametrize("version", ["2", "1.1", "-1", "0", "next"])
def test_a_version_that_is_not_known_is_refused_and_the_error_says_on_which_side_to_act(version: str) -> None:
    with pytest.raises(UnsupportedSchema, match=f"has version {version}; .* reads versions up to 1") as refused:
        decode({**encode(WORK), "handover": version})
    assert "on the cluster" in refused.value.remedy
    assert not refused.value.retryable


def test_a_later_version_is_named_in_every_way_and_reads_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = encode(WORK)
    monkeypatch.setattr(handover, "VERSION", 2)
    assert decode(earlier) == decode(encode(WORK)) == replace(WORK, batch_id="")
    assert "--shardbatch-handover=2" in handover.to_arguments(encode(WORK))
    assert handover.to_environment(encode(WORK))["SHARDBATCH_HANDOVER"] == "2"
    assert handover.to_configuration(WORK)["spark.shardbatch.handover"] == "2"
    later = handover.of_arguments(handover.to_arguments(encode(WORK)))
    monkeypatch.setattr(handover, "VERSION", 1)
    with pytest.raises(UnsupportedSchema, match="has version 2"):
        decode(later)


def test_an_attempt_is_a_number_from_one_on() -> None:
    for attempt in ("", "0", "-1", "one", "1.5", None):
        with pytest.raises(ConfigurationError, match="The attempt is"):
            decode({"manifest": "m", "attempt": attempt})
