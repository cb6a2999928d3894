# SPDX-License-Identifier: Apache-2.0
"""Attribute values: one form for equal ones, and their sizes."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.local.dynamodb.values import canonical, size_of_item
from shardbatch.local.failure import ServiceError


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("0", "0"),
        ("-0.00", "0"),
        ("007", "7"),
        ("+1.50", "1.5"),
        ("-1.5E2", "-150"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e-5", "0.00001"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ("9.9999999999999999999999999999999999999E125", "9" * 38 + "0" * 88),
        ("1E-130", "0." + "0" * 129 + "1"),
    ],
)
def test_a_number_has_one_form(given: str, stored: str) -> None:
    assert canonical({"N": given}, "v") == {"N": stored}


@pytest.mark.parametrize(
    "given",
    ["", "x", "1 ", "NaN", "Infinity", "1_0", "٣", "1E126", "1E-131", "1E999999999", "1" * 39, "0x1", "--1", "1E"],
)
def test_what_is_no_number_of_the_service_is_refused(given: str) -> None:
    with pytest.raises(ServiceError) as raised:
        canonical({"N": given}, "v")
    assert raised.value.code == "ValidationException"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"SS": ["b", "a"]}, {"SS": ["a", "b"]}),
        ({"NS": ["10", "9"]}, {"NS": ["9.0", "1E1"]}),
        ({"BS": ["/w==", "AA=="]}, {"BS": ["AA==", "/w=="]}),
        ({"M": {"a": {"L": [{"N": "1.0"}]}}}, {"M": {"a": {"L": [{"N": "1"}]}}}),
    ],
)
def test_equal_values_are_stored_alike(first: Any, second: Any) -> None:
    assert canonical(first, "v") == canonical(second, "v")


@pytest.mark.parametrize(
    "value", [{"S": ""}, {"B": ""}, {"NULL": True}, {"BOOL": False}, {"L": []}, {"M": {}}, {"S": "é\n"}, {"B": "AP8="}]
)
def test_nothing_is_lost(value: Any) -> None:
    assert canonical(value, "v") == value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({}, "ValidationException"),
        ({"S": "a", "N": "1"}, "ValidationException"),
        ({"X": "a"}, "ValidationException"),
        ({"SS": []}, "ValidationException"),
        ({"NS": ["1", "1.0"]}, "ValidationException"),
        ({"NULL": False}, "ValidationException"),
        ("a", "SerializationException"),
        ({"S": 1}, "SerializationException"),
        ({"S": "\ud800"}, "SerializationException"),
        ({"N": 1}, "SerializationException"),
        ({"B": "?"}, "SerializationException"),
        ({"BOOL": "true"}, "SerializationException"),
        ({"L": {}}, "SerializationException"),
        ({"M": []}, "SerializationException"),
        ({"SS": "a"}, "SerializationException"),
    ],
)
def test_a_bad_value_is_refused(value: Any, code: str) -> None:
    with pytest.raises(ServiceError) as raised:
        canonical(value, "v")
    assert raised.value.code == code


def test_nesting_has_an_end() -> None:
    value: Any = {"NULL": True}
    for _ in range(32):
        value = {"L": [value]}
    canonical(value, "v")
    with pytest.raises(ServiceError):
        canonical({"L": [value]}, "v")


ID = {"Id": {"N": "101"}}
NEW = {"Message": {"S": "New item!"}, **ID}
CHANGED = {"Message": {"S": "This item has changed"}, **ID}


@pytest.mark.parametrize(("parts", "size"), [([ID, NEW], 26), ([ID, NEW, CHANGED], 59), ([ID, CHANGED], 38)])
def test_a_record_has_the_size_that_the_service_shows_for_it(parts: list[Any], size: int) -> None:
    """The example event that the guide of DynamoDB Streams gives for Lambda."""
    assert sum(map(size_of_item, parts)) == size


def test_nested_values_and_sets_are_weighed() -> None:
    item = {"a": {"M": {"b": {"L": [{"NULL": True}, {"BOOL": True}]}}}, "c": {"BS": ["AP8=", "AA=="]}}
    assert size_of_item(item) == (1 + 3 + 1 + (1 + 3 + 2 + 2)) + (1 + 3)
    assert size_of_item({"n": {"N": "-0.0012"}}) == 1 + 3
