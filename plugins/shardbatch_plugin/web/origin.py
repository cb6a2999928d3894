# SPDX-License-Identifier: Apache-2.0
"""Whether a request that changes something comes from the page itself.

A browser sends Airflow's cookie along with a request that any other site makes. So a change needs what another site
cannot send without being asked for permission first, and what a browser says of the request's origin has to fit.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.configuration import conf
from fastapi import Request

from shardbatch_plugin.web.answers import Forbidden

#: A form of another site cannot send a header of its own, nor JSON.
HEADER, WORD = "x-shardbatch", "act"


def from_the_page(request: Request) -> None:
    """See that a request comes from the page.

    :raises Forbidden: if it does not.
    """
    headers = request.headers
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _refused("its content type is not application/json", "Send JSON.")
    if headers.get(HEADER) != WORD:
        raise _refused("it lacks the header X-Shardbatch", f"Send X-Shardbatch: {WORD}.")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _refused("another site made it", "Use the page itself.")
    origin = headers.get("origin")
    if origin is not None and not _is_ours(origin, headers.get("host", "")):
        raise _refused(
            f"it comes from {origin}",
            "Use the page itself. If this is Airflow's address behind a proxy, set [api] base_url to it.",
        )


def _is_ours(origin: str, host: str) -> bool:
    """Whether an origin is the host that was asked, or Airflow's public address. A proxy may end TLS before Airflow, so
    that the scheme is not known here."""
    public = urlsplit(conf.get("api", "base_url", fallback="") or "")
    there = urlsplit(origin)
    return bool(there.netloc) and there.netloc.lower() in {host.lower(), public.netloc.lower()} - {""}


def _refused(why: str, remedy: str) -> Forbidden:
    return Forbidden(f"This request changes something and is refused: {why}.", remedy=remedy)
