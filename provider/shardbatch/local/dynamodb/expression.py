# SPDX-License-Identifier: Apache-2.0
"""Update expressions: SET and REMOVE of whole attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shardbatch.local.dynamodb.failure import not_done
from shardbatch.local.dynamodb.values import canonical
from shardbatch.local.failure import malformed

_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z0-9_]+)|(\S))")
_CLAUSES = ("SET", "REMOVE", "ADD", "DELETE")
Json = dict[str, Any]


@dataclass
class Update:
    """What an update does to an item."""

    values: dict[str, Json] = field(default_factory=dict)
    """Attributes that are set to a value."""
    copies: dict[str, str] = field(default_factory=dict)
    """Attributes that are set to what another attribute was before."""
    removed: list[str] = field(default_factory=list)

    def attributes(self) -> list[str]:
        """All attributes that it touches."""
        return [*self.values, *self.copies, *self.removed]

    def apply(self, item: Json) -> Json:
        """The item afterwards.

        :raises ServiceError: ValidationException if an attribute that is copied is not there
        """
        changed = {**item, **self.values}
        for name, source in self.copies.items():
            if source not in item:
                raise malformed(f"the expression refers to the attribute {source}, which the item does not have")
            changed[name] = item[source]
        return {name: value for name, value in changed.items() if name not in self.removed}


def parse_update(expression: str, names: dict[str, str], values: Json) -> Update:
    """An update from its text and what its ``#names`` and ``:values`` stand for.

    :raises ServiceError: ValidationException; also for what the service does and this server does not
    """
    return _Parser(expression, names, values).parse()


class _Parser:
    def __init__(self, expression: str, names: dict[str, str], values: Json) -> None:
        self._names = names
        self._values = values
        self._tokens: Iterator[str] = (word or sign for word, sign in _TOKEN.findall(expression))
        self._token = next(self._tokens, "")
        self._used: set[str] = set()

    def parse(self) -> Update:
        update = Update()
        clauses: set[str] = set()
        while self._token:
            clause = self._take().upper()
            if clause in clauses or clause not in _CLAUSES:
                raise malformed(
                    f"UpdateExpression: {clause!r} stands where a clause must begin, once each: SET, REMOVE"
                )
            if clause in ("ADD", "DELETE"):
                raise not_done(f"{clause} of an UpdateExpression")
            clauses.add(clause)
            self._parse_actions(clause, update)
        if not clauses:
            raise malformed("UpdateExpression may not be empty")
        touched = update.attributes()
        if len(set(touched)) < len(touched):
            raise malformed("UpdateExpression touches an attribute twice")
        unused = sorted({*self._names, *self._values} - self._used)
        if unused:
            raise malformed(f"{', '.join(unused)} stands in ExpressionAttributeNames or -Values and is not used")
        return update

    def _parse_actions(self, clause: str, update: Update) -> None:
        while True:
            name = self._attribute()
            if name in update.attributes():
                raise malformed("UpdateExpression touches an attribute twice")
            if clause == "REMOVE":
                update.removed.append(name)
            else:
                self._expect("=")
                if self._token.startswith(":"):
                    update.values[name] = self._value()
                else:
                    update.copies[name] = self._attribute()
                if self._token in ("+", "-"):
                    raise not_done("arithmetic of an UpdateExpression")
            if self._token != ",":
                return
            self._take()

    def _attribute(self) -> str:
        text = self._take()
        if not re.fullmatch(r"#[A-Za-z0-9_]+|[A-Za-z][A-Za-z0-9_]*", text):
            raise malformed(f"UpdateExpression: {text!r} stands where an attribute must")
        if self._token == "(":
            raise not_done(f"the function {text} of an UpdateExpression")
        if self._token in (".", "["):
            raise not_done("paths into an attribute in an UpdateExpression")
        if not text.startswith("#"):
            return text
        self._used.add(text)
        if text not in self._names:
            raise malformed(f"ExpressionAttributeNames has no {text}")
        return self._names[text]

    def _value(self) -> Json:
        text = self._take()
        self._used.add(text)
        if text not in self._values:
            raise malformed(f"ExpressionAttributeValues has no {text}")
        return canonical(self._values[text], text)

    def _expect(self, sign: str) -> None:
        found = self._take()
        if found != sign:
            raise malformed(f"UpdateExpression: {found!r} stands where {sign!r} must")

    def _take(self) -> str:
        if not self._token:
            raise malformed("UpdateExpression ends too early")
        token, self._token = self._token, next(self._tokens, "")
        return token
