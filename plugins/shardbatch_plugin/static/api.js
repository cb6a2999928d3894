// SPDX-License-Identifier: Apache-2.0
// Asks the server. Every failure is an `ApiError` that says what happened and what to do.
import { lasting, timeless } from "./pace.js";

export class ApiError extends Error {
  constructor(status, { error, message, remedy }) {
    super(message);
    this.status = status;
    this.error = error || "";
    this.remedy = remedy || "";
  }
}

const UNREACHABLE = {
  error: "Unreachable",
  message: "The server does not answer.",
  remedy: "The page asks again by itself. If this stays, look whether Airflow's API server runs.",
};
const NOT_JSON = {
  error: "NotJson",
  message: "What answered is not shardbatch.",
  remedy: "A proxy may want you to log in: reload the page.",
};
const BY_STATUS = {
  401: { error: "NotLoggedIn", message: "You are logged out.", remedy: "Log in again." },
  403: {
    error: "Forbidden",
    message: "Airflow does not let you do this.",
    remedy: "Ask an administrator for the right to edit the DAG of this application.",
  },
  404: {
    error: "NotFound",
    message: "There is nothing of this name, or Airflow does not let you see it.",
    remedy: "Go back to the list of applications.",
  },
};
const NOT_KNOWN = {
  error: "NotKnown",
  message: "The server did not answer, so it is not known whether this was done.",
  remedy: "Look again: the preview shows how things stand now.",
};
const TOLD = 300;
/** Longer than the server itself takes for any answer. */
const MOST_MS = 60000;
const NO_SERVER = [502, 503, 504];
const LATE = 504;

function objectOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function failure(status, body, text) {
  if (body?.message) return new ApiError(status, body);
  if (BY_STATUS[status]) return new ApiError(status, BY_STATUS[status]);
  if (NO_SERVER.includes(status)) return new ApiError(status, UNREACHABLE); // a proxy in front of it says so
  const detail = body?.detail ? JSON.stringify(body.detail) : text.slice(0, TOLD);
  return new ApiError(status, {
    error: "ServerError",
    message: `The server answered with status ${status}: ${detail || "no text"}`,
    remedy: "The log of Airflow's API server has the reason.",
  });
}

/** A client of the JSON below an address. */
export class Api {
  constructor(home, mostMs = MOST_MS) {
    this.home = home;
    this.mostMs = mostMs;
  }

  async send(path, { signal, ...options }) {
    const late = AbortSignal.timeout(this.mostMs);
    const bound = signal ? AbortSignal.any([signal, late]) : late;
    let answer;
    let text;
    try {
      answer = await fetch(new URL(path, this.home), { credentials: "same-origin", ...options, signal: bound });
      text = await answer.text();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, UNREACHABLE);
    }
    const body = objectOf(text);
    if (!answer.ok) throw failure(answer.status, body, text);
    if (body === null) throw new ApiError(answer.status, NOT_JSON);
    return { body, text };
  }

  /** An answer as an object, with its text as far as it tells whether anything changed. */
  async get(name, query, signal) {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
    const { body, text } = await this.send(`${name}?${new URLSearchParams(given)}`, { signal });
    return { data: body, lasting: lasting(text), timeless: timeless(text) };
  }

  /** Acts, or previews. */
  async act(body) {
    const headers = { "Content-Type": "application/json", "X-Shardbatch": "act" };
    try {
      return (await this.send("act", { method: "POST", headers, body: JSON.stringify(body) })).body;
    } catch (error) {
      const begun = error.error === UNREACHABLE.error || error.status === LATE;
      if (!body.preview && begun) throw new ApiError(error.status, NOT_KNOWN);
      throw error;
    }
  }
}
