# SPDX-License-Identifier: Apache-2.0
"""Steering the server from another process: JSON under the path ``/_shardbatch/``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs

from shardbatch.local.api import Api
from shardbatch.local.dynamodb.control import TableControl
from shardbatch.local.failure import ServiceError
from shardbatch.local.http import HttpReply, HttpRequest

PREFIX = "/_shardbatch/"
Json = dict[str, Any]


class Control:
    """Clock, options, faults, log of calls, trimming, tables, and a look at the streams."""

    def __init__(self, api: Api, tables: TableControl) -> None:
        self._api = api
        self._engine = api.engine
        self._routes: dict[tuple[str, str], Callable[[Json], object]] = {
            ("GET", "health"): lambda _: {"ok": True},
            ("GET", "clock"): lambda _: {"now": self._engine.clock.now()},
            ("POST", "clock"): lambda given: {"now": self._engine.clock.advance(float(given["advance"]))},
            ("GET", "options"): lambda _: asdict(self._engine.options),
            ("POST", "options"): self._set_options,
            ("GET", "faults"): lambda _: [fault.to_json() for fault in api.faults.waiting()],
            ("POST", "faults"): lambda given: api.faults.add(**given).to_json(),
            ("DELETE", "faults"): lambda _: api.faults.clear(),
            ("GET", "calls"): lambda given: [call.to_json() for call in api.calls.list(**given)],
            ("DELETE", "calls"): lambda _: api.calls.clear(),
            ("POST", "trim"): self._trim,
            ("GET", "streams"): self._show_streams,
            ("GET", "tables"): lambda _: tables.show(),
            ("POST", "tables/create"): lambda given: {"stream": tables.create(**given)},
            ("POST", "tables/fill"): lambda given: {"written": tables.fill(**given)},
            ("POST", "tables/roll"): lambda given: {"children": tables.roll(**given)},
            ("POST", "tables/split"): lambda given: {"children": tables.split(**given)},
            ("POST", "tables/trim"): lambda given: {"trimmed": tables.trim(**given)},
            ("POST", "tables/enable"): lambda given: {"stream": tables.enable(**given)},
            ("POST", "tables/disable"): lambda given: tables.disable(**given),
            ("POST", "tables/expire"): lambda given: {"expired": tables.expire(**given)},
            ("POST", "reset"): self._reset,
        }

    def answer(self, request: HttpRequest) -> HttpReply:
        """Serve one control request; 400 with ``{"error": …}`` if it cannot be done."""
        route = self._routes.get((request.method, request.path.removeprefix(PREFIX)))
        if route is None:
            known = ", ".join(f"{method} {PREFIX}{name}" for method, name in self._routes)
            return _reply(404, {"error": f"there are: {known}"})
        try:
            given = json.loads(request.body or b"{}")
            if not isinstance(given, dict):
                raise ValueError("the body must be a JSON object")
            given |= {name: values[-1] for name, values in parse_qs(request.query).items()}
            with self._engine.lock:
                return _reply(200, route(given))
        except KeyError as error:
            return _reply(400, {"error": f"{error.args[0]} is missing"})
        except (ValueError, TypeError, ServiceError) as error:
            return _reply(400, {"error": str(error)})

    def _set_options(self, given: Json) -> Json:
        self._engine.options.update(**given)
        return asdict(self._engine.options)

    def _trim(self, given: Json) -> Json:
        home = self._engine.home(given.pop("account", None), given.pop("region", None))
        stream = self._engine.find(home, given.pop("stream"))
        return {"trimmed": self._api.records.trim(stream, given.pop("shard", None), **given)}

    def _show_streams(self, _: Json) -> list[Json]:
        return [
            {
                "account": stream.account,
                "name": stream.name,
                "arn": stream.arn,
                "status": stream.status.value,
                "created_ms": stream.created_ms,
                "shards": [
                    {
                        **shard.describe(),
                        "Closed": shard.closed,
                        "Records": shard.next_count - shard.first_count,
                        "Trimmed": shard.first_count - 1,
                    }
                    for shard in stream.shards.values()
                ],
            }
            for stream in self._engine.list()
        ]

    def _reset(self, _: Json) -> None:
        self._engine.clear()
        self._api.tables.clear()
        self._api.faults.clear()
        self._api.calls.clear()


def _reply(status: int, value: object) -> HttpReply:
    return HttpReply(status, json.dumps({} if value is None else value).encode(), "application/json")
