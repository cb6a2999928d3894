# SPDX-License-Identifier: Apache-2.0
"""The form of every answer of the JSON, and of every error."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from shardbatch.errors import (
    ApplicationUnknown,
    ConfigurationError,
    OwnerUnknown,
    ProtocolError,
    ShardbatchError,
    StagingError,
    StoreError,
)
from shardbatch.masking import masked
from shardbatch_plugin.web.stores import NoAnswer


class NotFound(ShardbatchError):
    """There is no such batch or shard."""

    remedy = "Go back to the list. It may have been removed meanwhile."


class Forbidden(ShardbatchError):
    """You may not do this."""

    remedy = "Ask somebody who may edit the application's DAG."


#: The first that fits counts.
STATUS: tuple[tuple[type[ShardbatchError], int], ...] = (
    (NotFound, 404),
    (ApplicationUnknown, 404),
    (Forbidden, 403),
    (NoAnswer, 504),
    (ConfigurationError, 400),
    (ProtocolError, 409),
    (StoreError, 502),
    (StagingError, 502),
    (OwnerUnknown, 502),
)


def now_ms() -> int:
    """The time by this machine's clock."""
    return time.time_ns() // 1_000_000


def answer(**fields: Any) -> JSONResponse:
    """An answer. It is not given to FastAPI as objects, which it would walk through again."""
    return JSONResponse({"now_ms": now_ms(), **fields}, headers={"Cache-Control": "no-store"})


def told(error: ShardbatchError) -> dict[str, str]:
    """An error for people; its text has no secrets."""
    return {"error": type(error).__name__, "message": error.message, "remedy": masked(error.remedy)}


def status_of(error: ShardbatchError) -> int:
    """The status of an answer that is this error."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def add_errors(app: FastAPI) -> None:
    """Give every foreseen error of an endpoint its form."""

    @app.exception_handler(ShardbatchError)
    async def foreseen(request: Request, error: ShardbatchError) -> JSONResponse:
        return JSONResponse(told(error), status_of(error), headers={"Cache-Control": "no-store"})

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        remedy = "Log in to Airflow, or send a token that is valid." if error.status_code == 401 else ""
        known = {"error": HTTPStatus(error.status_code).phrase, "message": str(error.detail), "remedy": remedy}
        return JSONResponse(known, error.status_code, {**(error.headers or {}), "Cache-Control": "no-store"})

    @app.exception_handler(RequestValidationError)
    async def unusable(request: Request, error: RequestValidationError) -> JSONResponse:
        said = error.errors()[0]
        name = str(said["loc"][-1])
        wrong = ConfigurationError(f"{name!r} of the request cannot be used: {said['msg']}.", remedy="Mend it.")
        return JSONResponse(told(wrong), status_of(wrong), headers={"Cache-Control": "no-store"})

    @app.exception_handler(SQLAlchemyError)
    async def database(request: Request, error: SQLAlchemyError) -> JSONResponse:
        # The text of a driver may name the database's address.
        known = {
            "error": "DatabaseError",
            "message": f"Airflow's database did not answer ({type(error).__name__}).",
            "remedy": "See the log of the API server. The page asks again by itself.",
        }
        return JSONResponse(known, 502, headers={"Cache-Control": "no-store"})
