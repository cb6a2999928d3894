# SPDX-License-Identifier: Apache-2.0
"""Errors: what they say, what they carry, and that they survive a process's border."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from shardbatch import errors
from shardbatch.errors import ManifestChanged, ShardbatchError, SourceError, StagingError, StreamNotFound

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ShardbatchError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_without_words_says_what_its_class_says(kind: type[ShardbatchError]) -> None:
    first = (kind.__doc__ or "").splitlines()[0]
    assert str(kind()) == f"{first} {kind.remedy}".strip()


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_ends_with_what_to_do_and_is_the_same_after_a_pickle(kind: type[ShardbatchError]) -> None:
    for error in (kind("It broke."), kind("It broke.", remedy="Mend it.", retryable=False)):
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(other) is kind
            assert (str(other), other.remedy, other.retryable) == (str(error), error.remedy, error.retryable)
    assert str(error) == "It broke. Mend it."


def test_what_is_said_of_one_error_leaves_its_class_alone() -> None:
    assert SourceError("x", remedy="Look.", retryable=False).retryable is False
    assert SourceError("x").retryable is True
    assert SourceError("x").remedy == SourceError.remedy != "Look."
    assert StreamNotFound("x").retryable is False
    assert SourceError("x", remedy="").args == ("x",)


def test_an_error_has_the_fields_of_its_class_and_no_others() -> None:
    assert StagingError("x", path="/a").path == "/a"
    assert (ManifestChanged("x", uri="file:///m").uri, ManifestChanged("x").path) == ("file:///m", None)
    assert StreamNotFound("x", stream="orders").stream == "orders"
    assert pickle.loads(pickle.dumps(StagingError("x", path="/a"))).path == "/a"
    with pytest.raises(TypeError, match="shard"):
        SourceError("x", shard="s")  # type: ignore[call-arg]
