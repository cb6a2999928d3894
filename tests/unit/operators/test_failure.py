# SPDX-License-Identifier: Apache-2.0
"""How an error of ours is told in the log of its task: one sentence, without the stack of our code."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException
from structlog.tracebacks import ExceptionDictTransformer

from shardbatch.errors import AttemptAlive, ConfigurationError, ShardbatchError, StreamNotFound
from shardbatch.operators.failure import LONGEST_CAUSE, final_errors


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
