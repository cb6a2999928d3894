// SPDX-License-Identifier: Apache-2.0
// Asks the server. Every failure is an `ApiError` that says what happened and what to do.
import { lasting } from "./pace.js";

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
const TOLD = 300;

async function failure(answer) {
  const text = await answer.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error; // what follows tells a body that is no JSON
  }
  if (body && body.message) return new ApiError(answer.status, body);
  if (BY_STATUS[answer.status]) return new ApiError(answer.status, BY_STATUS[answer.status]);
  const detail = body && body.detail ? JSON.stringify(body.detail) : text.slice(0, TOLD);
  return new ApiError(answer.status, {
    error: "ServerError",
    message: `The server answered with status ${answer.status}: ${detail || "no text"}`,
    remedy: "The log of Airflow's API server has the reason.",
  });
}

/** A client of the JSON below an address. */
export class Api {
  constructor(home) {
    this.home = home;
  }

  async send(path, options) {
    let answer;
    try {
      answer = await fetch(new URL(path, this.home), { credentials: "same-origin", ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, UNREACHABLE);
    }
    if (!answer.ok) throw await failure(answer);
    return answer.text();
  }

  /** An answer as an object, and what of its text lasts, to tell whether anything changed. */
  async get(name, query, signal) {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
    const text = await this.send(`${name}?${new URLSearchParams(given)}`, { signal });
    return { data: JSON.parse(text), lasting: lasting(text) };
  }

  /** Acts, or previews. */
  async act(body) {
    const headers = { "Content-Type": "application/json", "X-Shardbatch": "act" };
    return JSON.parse(await this.send("act", { method: "POST", headers, body: JSON.stringify(body) }));
  }
}
