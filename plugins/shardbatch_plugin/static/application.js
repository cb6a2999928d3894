// SPDX-License-Identifier: Apache-2.0
// One application on one stream: how it stands, and its tabs.
import { batchesTab } from "./batches.js";
import { rowsOf } from "./choose.js";
import { h } from "./dom.js";
import { drawing } from "./drawn.js";
import { count, counted, duration, ownerShort, untilLoss } from "./format.js";
import {
  airflowLink,
  banner,
  batchState,
  buttons,
  fact,
  failed,
  instant,
  lag,
  loss,
  owner,
  pill,
  section,
  size,
  waiting,
} from "./parts.js";
import { TABS, address } from "./router.js";
import { shardsTab } from "./shards.js";
import { ofBatch } from "./suited.js";
import { troubles } from "./troubles.js";

const TITLES = { overview: "Overview", lineage: "Lineage", shards: "Shards", batches: "Batches", plots: "Plots" };
const LATEST = 500;
const FEW = 10;
const HOURS = 72;

const OF_TAB = {
  overview: ["shards", "recent", "completeness", "reading"],
  lineage: ["shards"],
  shards: ["shards", "reading"],
  batches: ["batches"],
  plots: ["batches", "completeness"],
};
const QUESTIONS = {
  shards: ["shards", {}],
  batches: ["batches", { limit: LATEST }],
  recent: ["batches", { limit: FEW }],
  completeness: ["completeness", { hours: HOURS }],
  reading: ["reading", {}],
};

export function needs(route) {
  const of = address(route);
  const parts = OF_TAB[route.tab].map((name) => [name, QUESTIONS[name][0], { ...of, ...QUESTIONS[name][1] }]);
  return [["application", "application", of], ...parts];
}

/** What stands above every view of an application. `told`: the view has a line of its own about what is wrong. */
export function top(context, told = false) {
  const { route, airflow } = context;
  const { data, error } = context.answer("application");
  const home = { view: "application", ...address(route), tab: "overview" };
  const title = h(
    "h1",
    { tabindex: "-1" },
    h("a", { href: context.link(home) }, route.app_name),
    h("span", { class: "quiet" }, ` / ${route.stream_name}`),
  );
  const above = context.answer("place").data?.banner?.text; // the line of the run, which may have the same error
  const failure = error && error.message !== above && failed(error, airflow);
  if (!data) return [h("div", { class: "head", key: "head" }, title), error ? failure : waiting()];
  const { application, now_ms: nowMs } = data;
  const verbs = data.may_act ? data.verbs : [];
  return [
    h(
      "div",
      { class: "head", key: "head" },
      title,
      application.dags.map((dag) => h("span", { class: "dag" }, "DAG ", airflowLink(airflow, dag))),
      application.running.map((run) => h("span", { class: "run" }, airflowLink(airflow, run, run.run_id))),
      verbs.length > 0 && menu(context, verbs),
    ),
    failure,
    application.error && application.error.message !== above && banner({ level: "error", text: application.error.message, remedy: application.error.remedy }),
    !told && said(context) && banner(data.banner),
    route.view === "application" && facts(application, nowMs),
  ];
}

/** Whether the application's own line is told: not where the line of the run, or the list of troubles, says it. */
function said(context) {
  const { route } = context;
  const found = context.application.banner;
  const listed = route.view === "application" && route.tab === "overview";
  return found && !listed && context.answer("place").data?.banner?.text !== found.text;
}

const facts = (application, nowMs) =>
  h(
    "dl",
    { class: "facts", key: "facts" },
    fact("Until data loss", loss(application.expires_in_ms, application.retention_ms)),
    fact("Behind at last read", lag(application.behind_ms)),
    fact("Complete up to", instant(application.watermark_ms, nowMs, "not known")),
    fact("Last commit", instant(application.last_commit_ms, nowMs)),
    fact("Open shards", h("span", { title: `${count(application.held_shards)} held` }, count(application.open_shards))),
    fact("Retention", application.retention_ms ? duration(application.retention_ms) : "not known"),
  );

function menu(context, verbs) {
  const close = (details) => {
    details.open = false;
    details.querySelector("summary").focus();
  };
  const choose = (verb) => (event) => {
    close(event.target.closest("details")); // where the focus returns to after the dialog
    context.act(verb, {});
  };
  const keydown = (event) => {
    if (event.key === "Escape") close(event.target.closest("details"));
  };
  const leave = (event) => {
    const details = event.target.closest("details");
    if (!details.contains(event.relatedTarget)) details.open = false;
  };
  return h(
    "details",
    { class: "verbs", key: "verbs", onkeydown: keydown, onfocusout: leave },
    h("summary", { "aria-label": "Act on this application" }, "Act…"),
    h(
      "ul",
      { tabindex: "-1" }, // Safari gives a button that is clicked no focus: the list around it takes it
      verbs.map((verb) =>
        h("li", null, h("button", { type: "button", onclick: choose(verb) }, h("strong", null, verb.name), verb.help)),
      ),
    ),
  );
}

function tabs(context) {
  const { route } = context;
  const one = (tab) =>
    h(
      "a",
      { href: context.link({ ...route, tab }), "aria-current": route.tab === tab ? "page" : undefined },
      TITLES[tab],
    );
  return h("nav", { class: "tabs", key: "tabs", "aria-label": "Views of this application" }, TABS.map(one));
}

const MOST = 5;

function trouble(one, context) {
  const shardLink = (shard) =>
    h(
      "a",
      {
        href: context.link({ ...context.route, view: "shard", shard_id: shard.shard_id }),
        title: ownerShort(shard.owner),
      },
      shard.shard_id,
    );
  const nowMs = context.now();
  const shards = one.shards && [
    one.shards
      .slice(0, MOST)
      .map((shard) =>
        h(
          "li",
          { key: shard.shard_id },
          shardLink(shard),
          one.kind === "loss" &&
            loss(shard.expires_ms - nowMs, context.application.application.retention_ms, untilLoss),
          shard.owner && h("span", null, "held by ", owner(shard.owner, context.airflow)),
          shard.waits_for && h("span", null, `waits for ${shard.waits_for}`),
        ),
      ),
    one.shards.length > MOST &&
      h(
        "li",
        { key: "rest" },
        h(
          "a",
          { href: context.link({ ...context.route, tab: "shards" }), onclick: () => context.set("filter", null) },
          `and ${count(one.shards.length - MOST)} more`,
        ),
      ),
  ];
  const named = one.batch && { batch_id: one.batch.batch_id, scope: one.batch.scope };
  const gaps = one.kind === "gap" && { shards: one.shards.slice(0, 100).map((shard) => shard.shard_id) };
  return h(
    "li",
    { key: `${one.kind}-${one.level}-${one.batch?.batch_id || ""}`, class: `trouble ${one.level}` },
    h(
      "div",
      null,
      h("div", null, h("strong", null, one.text), one.batch && [" ", pill(batchState(one.batch))]),
      h("div", { class: "quiet" }, one.remedy),
      one.batch &&
        h(
          "ul",
          null,
          h(
            "li",
            null,
            h(
              "a",
              { href: context.link({ ...context.route, view: "batch", batch_id: one.batch.batch_id }) },
              one.batch.batch_id,
            ),
            one.batch.owner && h("span", null, "owner ", owner(one.batch.owner, context.airflow)),
            one.batch.note && h("span", { class: "said" }, one.batch.note),
          ),
        ),
      shards && h("ul", null, shards),
    ),
    one.batch && buttons(context, ofBatch(one.batch), named),
    gaps && buttons(context, ["accept-gap", "reset"], gaps),
  );
}

function holders(status, context) {
  if (!status.owners.length) return h("p", { class: "none" }, "No shard and no batch is held.");
  return h(
    "ul",
    { class: "lines" },
    status.owners.map((one) =>
      h(
        "li",
        { key: one.owner },
        owner(one.owner, context.airflow),
        h("span", null, `${counted(one.shards, "shard")}, ${counted(one.batches, "batch", "batches")}`),
        h("span", { class: "quiet" }, "last write ", instant(one.updated_at_ms, context.now())),
        buttons(context, ["release"], { owner: one.owner }),
      ),
    ),
  );
}

function recent(context) {
  const { data, error } = context.answer("recent");
  if (!data) return error ? failed(error, context.airflow) : waiting();
  const batches = rowsOf(data);
  if (!batches.length) return h("p", { class: "none" }, "No batch was frozen yet.");
  return h(
    "ul",
    { class: "lines" },
    batches.map((batch) =>
      h(
        "li",
        { key: batch.batch_id },
        pill(batchState(batch)),
        h(
          "a",
          { href: context.link({ ...context.route, view: "batch", batch_id: batch.batch_id }), title: batch.batch_id },
          instant(batch.created_at_ms, data.now_ms),
        ),
        h("span", null, counted(batch.records, "record")),
        batch.attempt > 1 && h("span", { class: "tag warn" }, `attempt ${batch.attempt}`),
        batch.gaps > 0 && h("span", { class: "tag bad" }, counted(batch.gaps, "gap")),
      ),
    ),
  );
}

function readingNow(context) {
  const { data, error } = context.answer("reading");
  if (error) return failed(error, context.airflow);
  if (!data?.tasks.length) return null;
  return section(
    "Reading now",
    null,
    h(
      "ul",
      { class: "lines" },
      data.tasks.map((task) =>
        h(
          "li",
          { key: `${task.run_id}-${task.task_id}-${task.map_index}` },
          h("span", { class: "dot on", "aria-hidden": "true" }),
          airflowLink(context.airflow, task, task.map_index < 0 ? task.task_id : `${task.task_id} [${task.map_index}]`),
          h("span", null, `${count(task.over)} of ${counted(task.shards, "shard")} done`),
          h("span", null, counted(task.records, "record")),
          size(task.bytes),
          h("span", { class: "quiet" }, "shown ", instant(task.at_ms, data.now_ms)),
        ),
      ),
    ),
  );
}

function overview(context, shards, error) {
  const { application, status } = context.application;
  const found = troubles({ application, status, shards: shards || [], nowMs: context.now() });
  const seen = shards || error ? found : null;
  const complete = context.answer("completeness");
  return [
    error && failed(error, context.airflow),
    section(
      "Needs a person",
      null,
      application.problem &&
        !found.length &&
        banner(context.application.banner || { level: "warning", ...application.problem }),
      !seen && waiting(),
      seen?.length > 0 &&
        h(
          "ul",
          { class: "troubles" },
          seen.map((one) => trouble(one, context)),
        ),
      seen?.length === 0 && !application.problem && h("p", { class: "fine" }, "Nothing. All shards are read in time."),
    ),
    readingNow(context),
    h(
      "div",
      { class: "columns" },
      section("Who holds what", null, holders(status, context)),
      section(
        "Latest batches",
        h("a", { href: context.link({ ...context.route, tab: "batches" }) }, "all"),
        recent(context),
      ),
    ),
    section(
      "Completeness by the hour",
      h("span", { class: "quiet" }, `last ${HOURS} hours`),
      complete.data
        ? drawing("completeness", complete.data)
        : complete.error
          ? failed(complete.error, context.airflow)
          : waiting(),
    ),
  ];
}

function lineageTab(context, data) {
  const onShard = (shard_id) => context.go({ view: "shard", ...address(context.route), shard_id });
  return h(
    "div",
    { key: "lineage" },
    drawing("lineage", data, { onShard, retention_ms: context.application.application.retention_ms }),
  );
}

function plotsTab(context) {
  const { data, error } = context.answer("batches");
  if (!data) return error ? failed(error, context.airflow) : waiting();
  return h("div", { key: "plots" }, error && failed(error, context.airflow), drawing("plots", data));
}

function body(context) {
  const { tab } = context.route;
  const { data, error } = context.answer("shards");
  if (tab === "overview") return overview(context, data && context.rows("shards"), error);
  if (tab === "batches") return batchesTab(context);
  if (tab === "plots") return plotsTab(context);
  const told = error && failed(error, context.airflow);
  if (!data) return told || waiting();
  return [told, tab === "shards" ? shardsTab(context, context.rows("shards")) : lineageTab(context, data)];
}

export function view(context) {
  if (!context.application) return top(context);
  return [top(context), tabs(context), h("div", { key: `tab-${context.route.tab}`, class: "view" }, body(context))];
}
