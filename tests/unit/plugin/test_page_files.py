# SPDX-License-Identifier: Apache-2.0
"""The files of the page: each that another loads is there, and none is taken from a browser's cache unasked."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

LOADS = re.compile(r"""(?:from|import\(|new URL\()\s*"(\.?/?[\w.]+\.(?:js|css))\"""")


def test_every_file_that_another_loads_is_served_as_it_is_now() -> None:
    from shardbatch_plugin.web.app import app

    client = TestClient(app)
    wanted, seen = {"streams.js"}, set()
    while wanted - seen:
        name = min(wanted - seen)
        seen.add(name)
        found = client.get(f"/static/{name}")
        assert found.status_code == 200, name
        assert found.headers["Cache-Control"] == "no-cache"
        assert found.headers["Content-Type"].partition(";")[0].endswith("javascript" if name.endswith(".js") else "css")
        wanted |= {loaded.removeprefix("./") for loaded in LOADS.findall(found.text)}
    assert {"page.js", "lineage.js", "streams.css"} <= seen
    again = client.get("/static/page.js", headers={"If-None-Match": client.get("/static/page.js").headers["ETag"]})
    assert again.status_code == 304
