// SPDX-License-Identifier: Apache-2.0
// Small parts that several views have.
import {
  ago,
  behind,
  bytes,
  count,
  duration,
  keyRange,
  lossLevel,
  ownerParts,
  ownerShort,
  position,
  untilLoss,
  utc,
} from "./format.js";
import { h } from "./dom.js";

/** An error with what to do. */
export function failed(error, airflow) {
  const login = new URL("api/v2/auth/login", airflow);
  login.searchParams.set("next", location.href);
  return h(
    "div",
    { class: "strip error", role: "alert" },
    h("strong", null, error.message),
    error.remedy && h("span", null, error.remedy),
    error.status === 401 && h("a", { href: login.href }, "Log in"),
  );
}

/** One line about something wrong, with its remedy. */
export function banner(found, ...more) {
  return h(
    "div",
    { class: `strip ${found.level}`, role: found.level === "error" ? "alert" : "status" },
    h("strong", null, found.text),
    found.remedy && h("span", null, found.remedy),
    more,
  );
}

/** A state in its colour. */
export const pill = (state, title) =>
  h("span", { class: `pill ${state.toLowerCase().replace(" ", "-")}`, title }, state);

/** The state of a batch as people call it. */
export const batchState = (batch) => (batch.set_aside === "kept" ? "set aside" : batch.state.toLowerCase());

/** An instant, told from now on, with the exact one in the title. */
export const instant = (ms, nowMs, missing = "never") =>
  ms === null || ms === undefined
    ? h("span", { class: "quiet" }, missing)
    : h("time", { datetime: new Date(ms).toISOString(), title: utc(ms) }, ago(ms, nowMs));

/** The time until data loss, coloured by what is left of the retention. */
export function loss(leftMs, retentionMs, form = duration) {
  const level = lossLevel(leftMs, retentionMs);
  if (level === "none") return h("span", { class: "quiet", title: "No unread record is known" }, "–");
  const text = form === untilLoss ? untilLoss(leftMs) : level === "lost" ? "may be lost" : form(leftMs);
  const title = `${count(leftMs)} ms of a retention of ${retentionMs ? duration(retentionMs) : "unknown length"}`;
  return h("span", { class: `loss ${level}`, title }, text);
}

/** How far behind something is. */
export const lag = (ms) =>
  ms === null || ms === undefined
    ? h("span", { class: "quiet", title: "Not read yet" }, "–")
    : h(
        "span",
        { class: ms < 1000 ? "quiet" : undefined, title: `${count(ms)} ms behind the tip when it was last read` },
        behind(ms).replace(" behind", ""),
      );

/** A size. */
export const size = (number) => h("span", { title: `${count(number)} bytes` }, bytes(number));

/** The part of the hash range that a shard has, as a bar and in words. */
export function range(shard) {
  const { from_key: from, to_key: to } = shard;
  if (from === null || from === undefined) return h("span", { class: "quiet" }, "–");
  const place = `left:${(from * 100).toFixed(3)}%;width:${Math.max((to - from) * 100, 1).toFixed(3)}%`;
  return h(
    "span",
    { class: "range", title: `${from} to ${to} of the hash range` },
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { style: place })),
    keyRange(from, to),
  );
}

/** A link to a DAG of Airflow, to a run or to a task of it. */
export function airflowLink(airflow, { dag_id: dagId, run_id: runId, task_id: taskId, map_index: mapIndex }, text) {
  const parts = ["dags", dagId];
  if (runId) parts.push("runs", runId);
  if (runId && taskId) parts.push("tasks", taskId);
  if (runId && taskId && Number(mapIndex ?? -1) >= 0) parts.push("mapped", String(mapIndex));
  return h("a", { href: new URL(parts.map(encodeURIComponent).join("/"), airflow).href }, text || dagId);
}

/** An owner: a link to its run where that can be known. */
export function owner(text, airflow) {
  if (!text) return h("span", { class: "quiet" }, "–");
  const parts = ownerParts(text);
  if (!parts) return h("span", { title: text }, ownerShort(text));
  const link = airflowLink(airflow, { dag_id: parts.dagId, run_id: parts.runId }, ownerShort(text));
  link.attributes.title = text;
  return link;
}

/** From one position of a shard to another. */
export const slice = ({ after, until }) => [
  h("code", { title: after }, position(after)),
  " → ",
  h("code", { title: until }, position(until)),
];

/** A fact with its name. */
export const fact = (name, ...value) => h("div", { class: "fact" }, h("dt", null, name), h("dd", null, value));

/** A fact that takes more room. */
export const wideFact = (name, ...value) => h("div", { class: "fact wide" }, h("dt", null, name), h("dd", null, value));

/** The buttons of verbs, those that the server offers. */
export function buttons(context, names, values, mayAct = context.application?.may_act) {
  const { application } = context;
  if (!application || !mayAct) return null;
  const verbs = names.map((name) => application.verbs.find((verb) => verb.name === name)).filter(Boolean);
  return h(
    "span",
    { class: "buttons" },
    verbs.map((verb) =>
      h("button", { type: "button", title: verb.help, onclick: () => context.act(verb, values) }, verb.name),
    ),
  );
}

/** A section with its heading. */
export const section = (title, aside, ...children) =>
  h("section", { key: `section-${title}` }, h("header", null, h("h2", null, title), aside), children);

/** What stands where an answer has not come yet. */
export const waiting = () => h("p", { class: "waiting", role: "status" }, "Loading…");
