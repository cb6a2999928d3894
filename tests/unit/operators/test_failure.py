# SPDX-License-Identifier: Apache-2.0
"""How an error of ours is told in the log of its task: one sentence, without the stack of our code."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import set_current_context
from structlog.tracebacks import ExceptionDictTransformer

from shardbatch.errors import AttemptAlive, ConfigurationError, ShardbatchError, StreamNotFound
from shardbatch.operators.failure import LONGEST_CAUSE, final, final_errors
from shardbatch.tasks.task_error import KEY, LONGEST


def told(error: ShardbatchError, cause: BaseException | None = None) -> tuple[str, str, int]:
    """Name and text of what Airflow's log shows, which asks structlog for it, and its number of frames of ours."""

    def fail() -> None:
        try:
            raise cause or KeyError("on the way")
        except (KeyError, OSError, ShardbatchError) as found:
            raise error from found if cause else None

    with pytest.raises(AirflowFailException) as caught, final_errors():
        fail()
    value = caught.value
    (shown,) = ExceptionDictTransformer(show_locals=False)((type(value), value, value.__traceback__))
    frames = [frame for frame in shown["frames"] if "/shardbatch/" in frame["filename"]]
    return shown["exc_type"], shown["exc_value"], len(frames)


def test_a_final_error_is_one_sentence_under_its_own_name() -> None:
    name, text, frames = told(StreamNotFound("There is no stream 'orders'.", remedy="Create it."))
    assert (name, text) == ("StreamNotFound", "There is no stream 'orders'. Create it.")
    assert frames == 1  # the one that raises it


def test_a_cause_that_is_not_ours_is_named_once() -> None:
    assert told(StreamNotFound("No stream.", remedy="Create it."), OSError("refused,\n by the\thost"))[1] == (
        "No stream. Create it. (Caused by OSError: refused, by the host)"
    )
    assert told(StreamNotFound("No stream: refused.", remedy=""), OSError("refused"))[1] == "No stream: refused."
    assert told(StreamNotFound("No stream.", remedy=""), OSError())[1] == "No stream. (Caused by OSError)"
    assert told(StreamNotFound("No stream.", remedy=""), ConfigurationError("inner"))[1] == "No stream."


def test_a_cause_is_cut_and_its_secrets_are_hidden() -> None:
    text = told(StreamNotFound("No stream.", remedy=""), OSError("password=abcdef " + "x" * 1000))[1]
    assert "abcdef" not in text
    assert len(text) < LONGEST_CAUSE + 60


def test_an_error_that_may_be_tried_again_stays_what_it_is() -> None:
    with pytest.raises(AttemptAlive), final_errors():
        raise AttemptAlive


class Pushed:
    """The XComs of a task that executes."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.values: dict[str, Any] = {}
        self.fails = fails

    def xcom_push(self, key: str, value: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.values[key] = value


def left(error: ShardbatchError) -> Any:
    """What the failing task leaves for the Streams page."""
    ti: Any = Pushed()
    with (
        set_current_context({"ti": ti}),  # type: ignore[typeddict-item]
        pytest.raises((AirflowFailException, type(error))),
        final_errors(),
    ):
        raise error
    return ti.values[KEY]


@pytest.mark.parametrize("kind", [StreamNotFound, AttemptAlive])
def test_the_error_is_left_as_an_xcom_whether_or_not_it_is_tried_again(kind: type[ShardbatchError]) -> None:
    assert left(kind("It failed: password=abcdef.", remedy="Do this; token=abcdefgh.")) == {
        "error": kind.__name__,
        "message": "It failed: password=***",
        "remedy": "Do this; token=***",
    }
    assert len(left(kind("x" * 5000))["message"]) == LONGEST


def test_an_error_of_rendering_is_left_too_in_the_words_of_its_task() -> None:
    ti: Any = Pushed()
    with set_current_context({"ti": ti}):  # type: ignore[typeddict-item]
        final(ConfigurationError("No.", remedy="Mend it."), "DAG 'd', task 't': No.")
    assert ti.values[KEY]["message"] == "DAG 'd', task 't': No."


def test_an_error_that_cannot_be_left_still_ends_the_task_as_itself(caplog: pytest.LogCaptureFixture) -> None:
    context: Any = {"ti": Pushed(OSError("the API server is away"))}
    with set_current_context(context), pytest.raises(AirflowFailException, match="No stream"), final_errors():
        raise StreamNotFound("No stream.", remedy="")
    assert "the API server is away" in caplog.text
