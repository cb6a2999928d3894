# SPDX-License-Identifier: Apache-2.0
"""Passwords, keys and tokens are hidden in errors, in the errors behind them, and in the printed form of a store.

There are two ways: texts that look like a secret are hidden, and the secrets of a connection wherever they occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

HIDDEN = "***"
#: A text that is shorter than this is hidden only where it stands as a secret: of `a` every letter would go.
SHORTEST = 4

#: ``//user:password@host``; the password may contain unquoted slashes and at signs.
_USERINFO = re.compile(r"(//[^\s/@:?#]{0,256}):(\S{1,2000})@")
#: ``user:password@host`` with nothing before it; neither an ARN with an at sign behind it, nor ``User:arn:…``.
_BARE = re.compile(r"""(?<![^\s'"(=<\[,`])(?!arn:)([^\s:/@'"(=<\[,`]{1,256}):(?!//|arn:)(\S{1,2000})@(?=[\w\[.-])""")
_VALUE = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)"""
_SECRET = "passw(?:or)?d|passwd|pwd|passfile|passphrase|secret"
#: A word of its own, or the last one of ``blobSig``; no part of ``assigned``.
_SIG = "(?:(?<![a-z])sig|(?-i:(?<=[a-z])Sig))(?![a-z])"
_OTHERS = f"token|credential|api[_-]?key|(?:access|account|private|shared)[_-]?key|signature|{_SIG}"
#: ``password=…`` and ``token = …``; ``"token": …``; ``password: …``.
_NAMED = (
    re.compile(rf"(?i)((?:{_SECRET}|{_OTHERS})[\w.-]{{0,64}}\s*=\s*){_VALUE}"),
    re.compile(rf"""(?i)((?:{_SECRET}|{_OTHERS})[\w.-]{{0,64}}["']\s*:\s*){_VALUE}"""),
    re.compile(rf"(?i)((?:{_SECRET})[\w.-]{{0,64}}\s*:\s*){_VALUE}"),
)
_SECRET_NAME = re.compile(rf"(?i){_SECRET}|{_OTHERS}")


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets, for people and logs.

    :param text: a text from elsewhere: a driver, a service, a person.
    :param secrets: known secrets, hidden wherever they occur, also in URL-quoted form; default: none.
    """
    text = hidden(text, secrets)
    text = _USERINFO.sub(rf"\1:{HIDDEN}@", text)
    text = _BARE.sub(rf"\1:{HIDDEN}@", text)
    for named in _NAMED:
        text = named.sub(rf"\1{HIDDEN}", text)
    return text


def hidden(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, also where they are quoted as in a URL."""
    for secret in sorted(_forms(secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _forms(secrets: Iterable[str]) -> set[str]:
    """How secrets may be written: as they are, quoted for a URL, within Python's quotes."""
    forms = (form for one in secrets for form in (one, quote(one, safe=""), quote_plus(one), repr(one)[1:-1]))
    return {form for form in forms if len(form) >= SHORTEST}


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_in(fields: Mapping[str, object]) -> list[str]:
    """The secrets among named values."""
    return [str(value) for name, value in fields.items() if is_secret(name) and value]


def shown(error: BaseException, secrets: Iterable[str] = ()) -> BaseException | None:
    """The error, to be chained to one of ours (``raise … from shown(error)``), or ``None`` if it or one behind it holds
    a secret, because the traceback of our error would print that secret too."""
    known = list(secrets)
    texts = [str(one) for one in _chain(error)]
    return error if all(masked(text, known) == text for text in texts) else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
