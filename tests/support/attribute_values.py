# SPDX-License-Identifier: Apache-2.0
"""Attribute values of DynamoDB: random ones, and a slow conversion in plain Python that says what is right."""

from __future__ import annotations

import base64
from decimal import Decimal, localcontext
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import types as T

LIMITS = {T.ByteType: 7, T.ShortType: 15, T.IntegerType: 31, T.LongType: 63}


class Misfit(Exception):
    """The value at a path does not fit its type."""


# ---------------------------------------------------------------------- what is right


def converted(value: dict[str, Any] | None, wanted: T.DataType, path: str) -> Any:
    """An attribute value in a type.

    :raises Misfit: with the path that does not fit.
    """
    if value is None or "NULL" in value:
        return None
    ((kind, held),) = value.items()
    if isinstance(wanted, T.ArrayType) and kind == "L":
        return [converted(one, wanted.elementType, f"{path}[{n}]") for n, one in enumerate(held)]
    if isinstance(wanted, T.ArrayType) and kind in ("SS", "NS", "BS"):
        if isinstance(wanted.elementType, (T.ArrayType, T.MapType, T.StructType, T.BooleanType)):
            raise Misfit(path)
        try:
            return sorted(converted({kind[0]: one}, wanted.elementType, f"{path}[]") for one in held)
        except Misfit:
            fits = {"SS": T.StringType, "BS": T.BinaryType}.get(kind)
            raise Misfit(path if fits and not isinstance(wanted.elementType, fits) else f"{path}[]") from None
    if isinstance(wanted, T.MapType) and kind == "M":
        return {name: converted(one, wanted.valueType, f"{path}.{name}") for name, one in held.items()}
    if isinstance(wanted, T.StructType) and kind == "M":
        return item(held, wanted, path)
    if isinstance(wanted, T.StringType) and kind in ("S", "N"):
        return held
    if isinstance(wanted, T.BooleanType) and kind == "BOOL":
        return held
    if isinstance(wanted, T.BinaryType) and kind == "B":
        return base64.b64decode(held)
    if kind == "N":
        return number(held, wanted, path)
    raise Misfit(path)


def item(attributes: dict[str, Any], schema: T.StructType, path: str) -> dict[str, Any]:
    """An image in the types of a schema."""
    return {f.name: converted(attributes.get(f.name), f.dataType, f"{path}.{f.name}") for f in schema.fields}


def number(text: str, wanted: T.DataType, path: str) -> Any:
    with localcontext() as context:
        context.prec = 1000
        exact = Decimal(text)
        if isinstance(wanted, T.DoubleType):
            return float(exact)
        if isinstance(wanted, T.DecimalType):
            held = exact.quantize(Decimal(1).scaleb(-wanted.scale))
            if held == exact and abs(held) < Decimal(10) ** (wanted.precision - wanted.scale):
                return held
        bits = LIMITS.get(type(wanted))
        if bits is not None and exact == int(exact) and -(2**bits) <= exact < 2**bits:
            return int(exact)
    raise Misfit(path)


# ---------------------------------------------------------------------- random ones

#: Names with what has a meaning in SQL, in paths and in attribute values.
NAMES = ["a", "b c", "d.e", "quo'te", 'dou"ble', "back\\slash", "back`tick", "ключ", "S", "NULL", "$x", "%s{0}"]


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Texts of numbers that DynamoDB holds: up to 38 digits, from 1E-130 to 9.99E+125."""
    digits = draw(st.integers(0, 10 ** draw(st.sampled_from([1, 3, 10, 19, 38])) - 1))
    if digits == 0:
        return draw(st.sampled_from(["0", "-0", "0.0", "0E-5"]))
    room = 126 - len(str(digits))
    power = draw(st.sampled_from([0, 0, 0, -1, -2, -3, -10, 2, 9]) | st.integers(-130, room))
    value = Decimal(digits).scaleb(power).copy_sign(draw(st.sampled_from([1, -1])))
    return draw(st.sampled_from([str(value), f"{value:f}", f"{value:E}", f"{value:e}"]))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
BYTES = st.binary(max_size=6).map(lambda raw: base64.b64encode(raw).decode())
SCALARS = (
    st.fixed_dictionaries({"S": TEXTS})
    | st.fixed_dictionaries({"N": numbers()})
    | st.fixed_dictionaries({"B": BYTES})
    | st.fixed_dictionaries({"BOOL": st.booleans()})
    | st.just({"NULL": True})
)
SETS = (
    st.fixed_dictionaries({"SS": st.lists(TEXTS, min_size=1, max_size=4, unique=True)})
    | st.fixed_dictionaries({"NS": st.lists(numbers(), min_size=1, max_size=4, unique_by=Decimal)})
    | st.fixed_dictionaries({"BS": st.lists(BYTES, min_size=1, max_size=4, unique=True)})
)
VALUES = st.recursive(
    SCALARS | SETS,
    lambda inner: (
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"M": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)})
    ),
    max_leaves=5,
)

PLAIN_TYPES = st.sampled_from(
    [T.StringType(), T.BooleanType(), T.BinaryType(), T.DoubleType(), *(kind() for kind in LIMITS)]
) | st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: T.DecimalType(p, s)))


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[T.DataType]) -> T.StructType:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    return T.StructType([T.StructField(name, draw(inner)) for name in names])


TYPES: st.SearchStrategy[T.DataType] = st.recursive(
    PLAIN_TYPES,
    lambda inner: inner.map(T.ArrayType) | inner.map(lambda kind: T.MapType(T.StringType(), kind)) | structs(inner),
    max_leaves=4,
)


def values_for(wanted: T.DataType) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly values of the kind that a type takes, and some of any."""
    if isinstance(wanted, T.ArrayType):
        kind = {T.StringType: "SS", T.BinaryType: "BS"}.get(type(wanted.elementType), "NS")
        sets = SETS.filter(lambda value: kind in value)
        of_kind = st.fixed_dictionaries({"L": st.lists(values_for(wanted.elementType), max_size=3)}) | sets
    elif isinstance(wanted, T.MapType):
        held = st.dictionaries(st.sampled_from(NAMES), values_for(wanted.valueType), max_size=3)
        of_kind = st.fixed_dictionaries({"M": held})
    elif isinstance(wanted, T.StructType):
        of_kind = st.fixed_dictionaries({"M": images(wanted)})
    else:
        kind = {T.StringType: "S", T.BooleanType: "BOOL", T.BinaryType: "B"}.get(type(wanted), "N")
        of_kind = SCALARS.filter(lambda value: kind in value)
    return st.one_of([of_kind] * 9 + [st.just({"NULL": True}), VALUES])


def images(schema: T.StructType) -> st.SearchStrategy[dict[str, Any]]:
    """Images for a schema: some attributes are missing, some are not in the schema."""
    named = st.fixed_dictionaries({}, optional={f.name: values_for(f.dataType) for f in schema.fields})
    unknown = st.fixed_dictionaries({}, optional={"unknown": VALUES})
    return st.tuples(named, unknown).map(lambda both: both[0] | both[1])
