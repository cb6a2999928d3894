// SPDX-License-Identifier: Apache-2.0
// The list of applications, the most urgent first.
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { airflowLink, banner, failed, instant, lag, loss, waiting } from "./parts.js";
import { address } from "./router.js";

export const needs = () => [["applications", "applications", {}]];

const NOT_KNOWN = h("span", { class: "quiet", title: "Its store did not answer" }, "not known");

const numbers = (application) => {
  if (application.error) return NOT_KNOWN;
  const { parked, set_aside: aside, unfinished, gaps } = application;
  const told = [
    gaps > 0 && h("span", { class: "tag bad" }, counted(gaps, "gap")),
    parked > 0 && h("span", { class: "tag bad" }, `${count(parked)} parked`),
    aside > 0 && h("span", { class: "tag warn" }, `${count(aside)} set aside`),
    unfinished > 0 && h("span", { class: "tag quiet" }, `${count(unfinished)} unfinished`),
  ].filter(Boolean);
  return told.length ? told : h("span", { class: "quiet" }, "none");
};

const shardsOf = ({ open_shards: open, held_shards: held }) =>
  open === null ? h("span", { class: "quiet" }, "–") : h("span", { title: `${count(held)} held` }, count(open));

function line(application, context, nowMs, stores) {
  const { airflow } = context;
  const route = { view: "application", ...address(application), tab: "overview" };
  const cell = (name, kind, ...children) => h("td", { "data-label": name, class: kind }, children);
  const untold = stores.get(application.store)?.error?.message === application.error?.message;
  const problem = application.error && untold ? null : application.error || application.problem;
  return h(
    "tr",
    { key: context.link(route), class: `urgency-${application.urgency}` },
    h(
      "th",
      { scope: "row" },
      h("a", { href: context.link(route), class: "name" }, application.app_name),
      h("div", { class: "quiet" }, `${application.stream_name} · ${stores.get(application.store)?.label || application.store}`),
      problem &&
        h(
          "div",
          { class: application.error || application.urgency >= 3 ? "problem" : "quiet", title: problem.remedy },
          problem.text || problem.message,
        ),
    ),
    cell("Until data loss", "number", loss(application.expires_in_ms, application.retention_ms)),
    cell("Behind at last read", "number", lag(application.behind_ms)),
    cell("Complete up to", "number", instant(application.watermark_ms, nowMs, "not known")),
    cell(
      "Last commit",
      "number",
      application.error ? NOT_KNOWN : instant(application.last_commit_ms, nowMs),
    ),
    cell("Open batches and gaps", "tags", numbers(application)),
    cell("Shards", "number", shardsOf(application)),
    cell(
      "At work",
      "",
      application.running.length
        ? application.running
            .slice(0, 2)
            .map((run) => h("div", { class: "run" }, airflowLink(airflow, run, run.run_id)))
        : h("span", { class: "quiet" }, "no run"),
    ),
    cell(
      "DAGs",
      "",
      application.dags.length
        ? application.dags.map((dag) => h("div", null, airflowLink(airflow, dag)))
        : h("span", { class: "quiet" }, "none in this Airflow"),
    ),
  );
}

const HEADS = [
  "Application",
  "Until data loss",
  "Behind at last read",
  "Complete up to",
  "Last commit",
  "Open batches and gaps",
  "Shards",
  "At work",
  "DAGs",
];
const RIGHT = new Set(["Until data loss", "Behind at last read", "Complete up to", "Last commit", "Shards"]);

function list(data, context) {
  const text = (context.get("search") || "").toLowerCase();
  const stores = new Map(data.stores.map((store) => [store.store, store]));
  const matches = (one) =>
    `${one.app_name} ${one.stream_name} ${one.dags.map((dag) => dag.dag_id).join(" ")}`.toLowerCase().includes(text);
  const seen = data.applications.filter(matches);
  return h(
    "div",
    { class: "scroll wide", key: "list", tabindex: "0", role: "group", "aria-label": "Applications" },
    h(
      "table",
      { class: "cards applications", "aria-label": "Applications" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          HEADS.map((head) => h("th", { scope: "col", class: RIGHT.has(head) ? "number" : "" }, head)),
        ),
      ),
      h(
        "tbody",
        null,
        seen.map((one) => line(one, context, data.now_ms, stores)),
        !seen.length &&
          h("tr", null, h("td", { class: "none", colspan: String(HEADS.length) }, "No application has this text.")),
      ),
    ),
  );
}

/** The error of a store with its name, which the error itself may have. */
const naming = ({ label, error: { message } }) => (message.includes(label) ? message : `${label}: ${message}`);

export function view(context) {
  const { data, error } = context.answer("applications");
  const problem = error && failed(error, context.airflow);
  if (!data) return [h("h1", { tabindex: "-1" }, "Streams"), problem || waiting()];
  const search = h("input", {
    type: "search",
    placeholder: "Search application, stream or DAG",
    "aria-label": "Search application, stream or DAG",
    value: context.get("search") || "",
    oninput: (event) => context.set("search", event.target.value),
  });
  const broken = data.stores.filter((store) => store.error);
  return [
    h(
      "div",
      { class: "head" },
      h("h1", { tabindex: "-1" }, "Streams"),
      h("span", { class: "quiet" }, counted(data.applications.length, "application")),
      search,
    ),
    problem,
    broken.map((store) =>
      h(
        "div",
        { key: store.store },
        banner({ level: "error", text: naming(store), remedy: store.error.remedy }),
      ),
    ),
    data.applications.length
      ? list(data, context)
      : h(
          "p",
          { class: "none" },
          broken.length
            ? "No application is shown, because the stores above do not answer."
            : "There is no application yet. Add a DAG with a StreamBatch group: its application appears here " +
                "once Airflow has parsed the DAG. If you expect one here, ask who may let you read its DAG.",
        ),
    data.not_known.length > 0 &&
      h(
        "details",
        { class: "more" },
        h("summary", null, `${counted(data.not_known.length, "group")} of DAGs of which the application is not known`),
        h(
          "ul",
          null,
          data.not_known.map((one) =>
            h("li", null, one.dag_id && airflowLink(context.airflow, one), ` ${one.group_id} ${one.why}`),
          ),
        ),
      ),
  ];
}
