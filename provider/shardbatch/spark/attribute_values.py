# SPDX-License-Identifier: Apache-2.0
"""DynamoDB's attribute values in Spark's types: how they stand in JSON, and SQL that converts them or says what does
not fit.

Everything becomes an expression of Spark itself, so no Python runs on executors, and Spark Connect can do it too.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from pyspark.sql import types as T

from shardbatch.errors import ConfigurationError

#: A path is told by parts, each an SQL expression of a text.
Path = tuple[str, ...]

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTIONAL = (T.FloatType, T.DoubleType)
_PLAIN = re.compile(r"[A-Za-z0-9_ .\[\]-]*")


def quoted(name: str) -> str:
    """A name of a column or field in SQL."""
    return "`{}`".format(name.replace("`", "``"))


def text(value: str) -> str:
    """A text in SQL, whatever the session's rules for escapes and variables are."""
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def ddl(kind: T.DataType) -> str:
    """A type in SQL, whatever the names of its fields are."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {ddl(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{ddl(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return str(kind.simpleString())


def misfit(path: Path, reason: str) -> str:
    """What says in SQL that the attribute at a path does not fit."""
    whole = f"concat({', '.join(path)})" if len(path) > 1 else path[0]
    return f"named_struct('path', {whole}, 'reason', {text(reason)})"


def shape_of(wanted: T.DataType, where: str, depth: int = 0) -> Shape:
    """How a type is read.

    :param where: the attribute's path, for the error.
    :raises ConfigurationError: for a type that no attribute value has.
    """
    if isinstance(wanted, T.StructType):
        return Item(wanted, where, depth)
    if isinstance(wanted, T.MapType):
        return Map(wanted, where, depth)
    if isinstance(wanted, T.ArrayType):
        return List(wanted, where, depth)
    for kinds, shape in ((T.StringType, Text), (T.BooleanType, Truth), (T.BinaryType, Binary)):
        if isinstance(wanted, kinds):
            return shape(wanted)
    if isinstance(wanted, (*_INTEGRAL, *_FRACTIONAL, T.DecimalType)):
        return Number(wanted)
    raise ConfigurationError(
        f"The schema has {where} as {wanted.simpleString().upper()}, which no DynamoDB attribute has.",
        remedy="Use STRING, BIGINT or DECIMAL as the item stores it, and convert the column afterwards.",
    )


class Shape(ABC):
    """One type of the author's schema. ``it`` is always the SQL of an attribute value, such as ``{"N": "1"}``."""

    #: The members of an attribute value that this type takes, as people know them.
    kinds: str

    def __init__(self, wanted: T.DataType) -> None:
        self.wanted = wanted
        self.name = wanted.simpleString().upper()

    @abstractmethod
    def members(self) -> dict[str, T.DataType]:
        """The members that are read, with their types in JSON."""

    @abstractmethod
    def value(self, it: str) -> str:
        """The value in the type; null if there is none, or if it does not fit."""

    @abstractmethod
    def inner_misfit(self, it: str, path: Path) -> str:
        """What does not fit in a value that is neither missing nor NULL; null if it fits."""

    def wire(self) -> T.StructType:
        """How the attribute value stands in JSON. Members that are not named here are passed over."""
        members = {**self.members(), "NULL": T.BooleanType()}
        return T.StructType([T.StructField(name, kind) for name, kind in members.items()])

    def misfit(self, it: str, path: Path, *, required: bool = False, partly: str = "") -> str:
        """What does not fit; null if it fits.

        :param required: whether a missing value, or NULL, does not fit.
        :param partly: SQL of when it fits all the same.
        """
        without = misfit(path, "is missing or NULL, and the schema says NOT NULL") if required else "NULL"
        if required and partly:
            without = f"IF({partly}, NULL, {without})"
        inner = self.inner_misfit(it, path)
        return f"CASE WHEN {it} IS NULL OR {it}.`NULL` IS NOT NULL THEN {without} ELSE {inner} END"

    def other_kind(self, path: Path) -> str:
        """What says that the value is of another kind."""
        return misfit(path, f"is not of the kind {self.kinds}, which {self.name} takes")


class Scalar(Shape):
    """A type of one value."""

    def members(self) -> dict[str, T.DataType]:
        return {self.kinds: T.StringType()}

    def value(self, it: str) -> str:
        return self.of_text(f"{it}.`{self.kinds}`")

    def of_text(self, raw: str) -> str:
        """The value of a text in JSON, alone or in a set."""
        return raw

    def fits(self, raw: str) -> str:
        """Whether such a text fits, as SQL."""
        return f"{self.of_text(raw)} IS NOT NULL"

    def no_fit(self, path: Path) -> str:
        """What says that a value of the right kind does not fit."""
        return misfit(path, f"does not fit {self.name} without loss")

    def inner_misfit(self, it: str, path: Path) -> str:
        raw = f"{it}.`{self.kinds}`"
        other, lossy = self.other_kind(path), self.no_fit(path)
        return f"CASE WHEN {raw} IS NULL THEN {other} WHEN NOT ({self.fits(raw)}) THEN {lossy} END"


class Text(Scalar):
    """Strings; and numbers as the text that DynamoDB gives, which no type of Spark holds in all cases."""

    kinds = "S or N"

    def members(self) -> dict[str, T.DataType]:
        return {"S": T.StringType(), "N": T.StringType()}

    def value(self, it: str) -> str:
        return f"coalesce({it}.`S`, {it}.`N`)"

    def inner_misfit(self, it: str, path: Path) -> str:
        return f"CASE WHEN {self.value(it)} IS NULL THEN {self.other_kind(path)} END"


class Truth(Scalar):
    """Booleans."""

    kinds = "BOOL"

    def members(self) -> dict[str, T.DataType]:
        return {"BOOL": T.BooleanType()}


class Binary(Scalar):
    """Bytes, which stand in JSON as base64."""

    kinds = "B"

    def of_text(self, raw: str) -> str:
        return f"try_to_binary({raw}, 'base64')"


class Number(Scalar):
    """Numbers, which stand in JSON as text. Decimals and integers fit only without loss."""

    kinds = "N"

    def of_text(self, raw: str) -> str:
        if isinstance(self.wanted, _INTEGRAL):
            return f"try_cast(try_cast({raw} AS DECIMAL(38, 0)) AS {self.name})"
        return f"try_cast({raw} AS {self.name})"

    def fits(self, raw: str) -> str:
        if isinstance(self.wanted, _FRACTIONAL):
            return f"abs({self.of_text(raw)}) < CAST('Infinity' AS {self.name})"
        scale = self.wanted.scale if isinstance(self.wanted, T.DecimalType) else 0
        # A cast rounds what has more digits behind the point, without a word.
        return f"{self.of_text(raw)} IS NOT NULL AND {_within_scale(raw, scale)}"


def _within_scale(raw: str, scale: int) -> str:
    """Whether a number's text has no digit but zero beyond so many places behind the point."""
    plain = f"{raw} RLIKE '^[+-]?[0-9]*([.][0-9]{{0,{scale}}}0*)?$'"
    mantissa, exponent = "substring_index(number, 'E', 1)", "try_cast(substring_index(number, 'E', -1) AS INT)"
    digits = f"replace({mantissa}, '.', '')"
    counted = f"trim(TRAILING '0' FROM {digits})"
    behind = f"IF(instr({mantissa}, '.') = 0, 0, length({mantissa}) - instr({mantissa}, '.'))"
    places = f"{behind} - (length({digits}) - length({counted})) - {exponent}"
    powered = f"instr(number, 'E') > 0 AND ({counted} IN ('', '-', '+') OR {places} <= {scale})"
    return f"({plain} OR exists(array(upper({raw})), number -> {powered}))"


class Map(Shape):
    """A map whose values have one type."""

    kinds = "M"

    def __init__(self, wanted: T.MapType, where: str, depth: int) -> None:
        super().__init__(wanted)
        if not isinstance(wanted.keyType, T.StringType):
            raise ConfigurationError(
                f"The schema has {where} as {self.name}.",
                remedy="The keys of a DynamoDB map are texts: use MAP<STRING, ...>.",
            )
        self.values = shape_of(wanted.valueType, f"{where}.*", depth + 1)
        self.required = not wanted.valueContainsNull
        self.key, self.one = f"k{depth}", f"v{depth}"

    def members(self) -> dict[str, T.DataType]:
        return {"M": T.MapType(T.StringType(), self.values.wire())}

    def value(self, it: str) -> str:
        return f"transform_values({it}.`M`, ({self.key}, {self.one}) -> {self.values.value(self.one)})"

    def inner_misfit(self, it: str, path: Path) -> str:
        entry = self.one
        inside = self.values.misfit(f"{entry}.value", (*path, "'.'", f"{entry}.key"), required=self.required)
        found = first(f"transform(map_entries({it}.`M`), {entry} -> {inside})")
        return f"CASE WHEN {it}.`M` IS NULL THEN {self.other_kind(path)} ELSE {found} END"


class List(Shape):
    """A list, or a set in ascending order."""

    def __init__(self, wanted: T.ArrayType, where: str, depth: int) -> None:
        super().__init__(wanted)
        self.elements = shape_of(wanted.elementType, f"{where}[]", depth + 1)
        self.required = not wanted.containsNull
        self.one, self.at = f"x{depth}", f"i{depth}"
        sets: dict[type[Shape], tuple[str, ...]] = {Text: ("SS", "NS"), Number: ("NS",), Binary: ("BS",)}
        self.sets = sets.get(type(self.elements), ())
        self.kinds = " or ".join(("L", *self.sets))

    def members(self) -> dict[str, T.DataType]:
        found: dict[str, T.DataType] = {"L": T.ArrayType(self.elements.wire())}
        return {**found, **{name: T.ArrayType(T.StringType()) for name in self.sets}}

    def value(self, it: str) -> str:
        listed = f"transform({it}.`L`, {self.one} -> {self.elements.value(self.one)})"
        if not isinstance(self.elements, Scalar):
            return listed
        element = self.elements.of_text(self.one)
        sets = [f"array_sort(transform({it}.`{name}`, {self.one} -> {element}))" for name in self.sets]
        return f"coalesce({', '.join([listed, *sets])})"

    def inner_misfit(self, it: str, path: Path) -> str:
        place = (*path, "'['", f"CAST({self.at} AS STRING)", "']'")
        inside = self.elements.misfit(self.one, place, required=self.required)
        found = first(f"transform({it}.`L`, ({self.one}, {self.at}) -> {inside})")
        cases = [f"WHEN {it}.`L` IS NOT NULL THEN {found}"]
        if isinstance(self.elements, Scalar):
            all_fit = f"{self.one} -> {self.elements.fits(self.one)}"
            said = self.elements.no_fit((*path, "'[]'"))
            cases += [
                f"WHEN {it}.`{name}` IS NOT NULL THEN IF(forall({it}.`{name}`, {all_fit}), NULL, {said})"
                for name in self.sets
            ]
        return f"CASE {' '.join(cases)} ELSE {self.other_kind(path)} END"


class Item(Shape):
    """A map with known attributes, or an item. Attributes that the schema does not name are passed over."""

    kinds = "M"

    def __init__(self, wanted: T.StructType, where: str, depth: int = 0) -> None:
        super().__init__(wanted)
        self.name = "STRUCT"
        if not wanted.fields:
            raise ConfigurationError(f"The schema has no attribute in {where}.", remedy="Name one, or use a MAP.")
        self.fields = wanted.fields
        self.shapes = {f.name: shape_of(f.dataType, f"{where}.{f.name}", depth + 1) for f in wanted.fields}

    def attributes(self) -> T.StructType:
        """How the attributes stand in JSON."""
        return T.StructType([T.StructField(name, shape.wire()) for name, shape in self.shapes.items()])

    def members(self) -> dict[str, T.DataType]:
        return {"M": self.attributes()}

    def value(self, it: str) -> str:
        return self.value_of(f"{it}.`M`")

    def inner_misfit(self, it: str, path: Path) -> str:
        held = f"{it}.`M`"
        return f"CASE WHEN {held} IS NULL THEN {self.other_kind(path)} ELSE {self.misfit_of(held, path)} END"

    def value_of(self, attributes: str) -> str:
        """The struct of some attributes, null if there are none."""
        pairs = [f"{text(n)}, {shape.value(f'{attributes}.{quoted(n)}')}" for n, shape in self.shapes.items()]
        return f"IF({attributes} IS NULL, NULL, named_struct({', '.join(pairs)}))"

    def misfit_of(self, attributes: str, path: Path, *, partly: str = "") -> str:
        """The first attribute that does not fit.

        :param partly: SQL of when attributes may be missing even if the schema says NOT NULL.
        """
        found = [
            self.shapes[field.name].misfit(
                f"{attributes}.{quoted(field.name)}",
                (*path, text(f".{field.name}")),
                required=not field.nullable,
                partly=partly,
            )
            for field in self.fields
        ]
        return f"coalesce({', '.join(found)})"


def first(misfits: str) -> str:
    """The first of an array that is not null."""
    return f"get(filter({misfits}, found -> found IS NOT NULL), 0)"
