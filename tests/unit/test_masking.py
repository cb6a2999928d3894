# SPDX-License-Identifier: Apache-2.0
"""Secrets are not shown, in whatever form a driver, a service or a person writes them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.errors import ShardbatchError, StoreError
from shardbatch.masking import masked, secrets_in, shown

LETTERS = st.characters(min_codepoint=33, max_codepoint=126)
#: Begins so that it stands nowhere by chance.
PASSWORDS = st.text(LETTERS, min_size=1, max_size=20).map(lambda text: "5e" + text + "cr37")
NAMES = st.text("abcdefgh_-.", min_size=1, max_size=8)
FORMS = (
    "postgresql://{user}:{quoted}@db:5432/leases",
    "postgresql+psycopg://{user}:{password}@db/leases?sslmode=require",
    "could not connect to redis://:{quoted}@cache:6379/0, giving up",
    "{user}:{password}@db/leases",
    "cannot read '{user}:{quoted}@[::1]:5432'",
    "postgresql://{user}@db/leases?password={quoted}&sslmode=require",
    "mysql://db/leases?user={user}&passwd={plus}",
    "postgresql://db/leases?sslpassword={quoted}",
    "https://api/x?token={quoted}",
    "host=db user={user} password={conninfo} dbname=leases",
    "Could not use {json}",
    "aws_secret_access_key = {quoted}",
    "AccountKey={quoted};EndpointSuffix=core",
    "{{'user': '{user}', 'password': {python}}}",
    "password: {quoted}",
)


def conninfo(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize("form", FORMS)
@given(user=NAMES, password=PASSWORDS)
@settings(max_examples=60, deadline=None)
def test_no_secret_is_shown_in_any_form(form: str, user: str, password: str) -> None:
    text = form.format(
        user=user,
        password=password,
        quoted=quote(password, safe=""),
        plus=quote_plus(password),
        conninfo=conninfo(password),
        python=repr(password),
        json=json.dumps({"login": user, "extra": {"aws_session_token": password}}),
    )
    for told in (str(ShardbatchError(f"It failed: {text}.")), masked(text), str(StoreError("x", remedy=text))):
        for shape in (password, quote(password, safe=""), json.dumps(password)[1:-1], repr(password)[1:-1]):
            assert shape not in told


@given(secret=st.text(min_size=4, max_size=20).filter(lambda text: "*" not in text))
@settings(max_examples=100, deadline=None)
def test_a_known_secret_is_shown_nowhere(secret: str) -> None:
    for text in (f"about {secret} it is", f"at {quote(secret, safe='')}", f"in {secret!r}"):
        told = masked(text, [secret])
        assert secret not in told
        assert quote(secret, safe="") not in told


@pytest.mark.parametrize(
    "text",
    [
        "It looks like postgresql+psycopg://user@host/database.",
        "SQLStore('postgresql+psycopg://me:***@db:5432/leases?sslmode=require')",
        "abfss://container@account.dfs.core.windows.net/out cannot be read",
        "s3://lake/staging/etl/orders/batches/20261128.1/manifest.json",
        "ExpiredTokenException: The security token included in the request is expired",
        "InvalidSignatureException: Signature expired: 20261128T000000Z is now earlier",
        'FATAL:  password authentication failed for user "me"',
        "prod/d/manual__2026-11-28T00:00:00+00:00/etl/incremental",
        "http://127.0.0.1:4567/ does not answer",
        "assigned=3 design=x resigned: 4",
        "User:arn:aws:iam::1:user/me@corp.com is not authorized",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("name", ["sig", "SIG", "blob_sig", "x-sig", "sig2", "blobSig", "signature", "X-Amz-Signature"])
def test_a_signature_is_a_secret_whatever_stands_around_its_name(name: str) -> None:
    assert masked(f"https://store/x?se=1&{name}=5ecr37&sp=r").count("5ecr37") == 0
    assert secrets_in({name: "5ecr37", "assigned_to": "me", "design": "x", "designer": "y"}) == ["5ecr37"]


def test_a_long_text_is_masked_quickly() -> None:
    for text in ("a" * 200_000, "a:" * 100_000, "a," * 100_000, "//a:" * 50_000, "token" * 40_000, "'a:" * 50_000):
        masked(text)


def test_an_error_is_chained_only_if_nothing_behind_it_holds_a_secret() -> None:
    def behind(text: str) -> Any:
        outer = ValueError("outer")
        outer.__cause__ = KeyError("middle")
        outer.__cause__.__context__ = OSError(text)
        return outer

    harmless = behind("connection refused")
    assert shown(harmless) is harmless
    assert shown(behind("postgresql://me:s3cr3t@db")) is None
    assert shown(behind("it was s3cr3t"), ["s3cr3t"]) is None
    loop = ValueError("x")
    loop.__cause__ = loop
    assert shown(loop) is loop


def test_fields_that_hold_secrets_are_known_by_their_names() -> None:
    fields = {
        "sslpassword": "a",
        "host": "b",
        "passwd": "c",
        "aws_secret_access_key": "d",
        "sslkey": "/f",
        "token": None,
    }
    assert secrets_in(fields) == ["a", "c", "d"]


def test_the_identity_of_a_stream_is_shown_whole() -> None:
    """It is an ARN with the time of creation behind an at sign, and a person has to give it to `reset --stream-id`."""
    identity = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders@1764288000000"
    assert identity in str(ShardbatchError(f"The stream is {identity}, but its checkpoints belong to another."))
