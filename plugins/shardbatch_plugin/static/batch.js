// SPDX-License-Identifier: Apache-2.0
// One batch: what is in it, what was done with it, and what to do.
import { top } from "./application.js";
import { h } from "./dom.js";
import { bytes, count, counted, duration, utc } from "./format.js";
import {
  airflowLink,
  batchState,
  buttons,
  fact,
  failed,
  instant,
  loss,
  owner,
  pill,
  section,
  size,
  slice,
  waiting,
  wideFact,
} from "./parts.js";
import { viewer } from "./records.js";
import { address } from "./router.js";
import { ofBatch } from "./suited.js";
import { table } from "./table.js";

export const needs = (route) => [
  ["application", "application", address(route)],
  ["batch", "batch", { ...address(route), batch_id: route.batch_id }],
];

const UNDECIDED = ["FROZEN", "PARKED"];
const LOSS_OF = h("span", { class: "quiet" }, " nearest shard of the application");
const QUIET_OUTCOMES = ["open", "no decision"];

function attempt(one, nowMs) {
  const named = new Set(one.starts.map((start) => start.application));
  const applications = one.applications.filter((application) => !named.has(application.name));
  return h(
    "li",
    { key: String(one.attempt) },
    h("strong", null, `Attempt ${one.attempt}`),
    QUIET_OUTCOMES.includes(one.outcome) ? h("span", { class: "quiet" }, one.outcome) : pill(one.outcome),
    one.seen_ms !== null && h("span", { class: "quiet" }, "last sign of life ", instant(one.seen_ms, nowMs)),
    h(
      "ul",
      null,
      applications.map((application) =>
        h(
          "li",
          { key: application.name },
          "Spark application ",
          application.url
            ? h("a", { href: application.url, rel: "noreferrer" }, application.name)
            : h("code", null, application.name),
          application.work && h("span", { class: "quiet" }, ` of ${application.work}`),
        ),
      ),
      one.starts.map((start) =>
        h(
          "li",
          { key: start.start },
          pill(start.state),
          start.work,
          " start ",
          h("code", null, start.start),
          start.application && [" of Spark application ", applicationLink(one, start.application)],
        ),
      ),
      !applications.length && !one.starts.length && h("li", { class: "quiet" }, "No application has entered it."),
    ),
  );
}

/** What the manifest says of a gap: its ends, its reason, and who accepted it. */
const gapText = (gap) =>
  Object.entries(gap)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) =>
      h(
        "span",
        null,
        `${name.replace(/_ms$/, "").replaceAll("_", " ")} `,
        h("code", null, name.endsWith("_ms") ? utc(value) : String(value)),
      ),
    );

function applicationLink(attemptOf, name) {
  const url = attemptOf.applications.find((one) => one.name === name)?.url;
  return url ? h("a", { href: url, rel: "noreferrer" }, name) : h("code", null, name);
}

function slices(context, data, records) {
  const of = address(context.route);
  const columns = [
    {
      title: "Shard",
      width: 210,
      kind: "id",
      cell: (one) => h("a", { href: context.link({ view: "shard", ...of, shard_id: one.shard_id }) }, one.shard_id),
    },
    { title: "Records", width: 100, kind: "number", cell: (one) => count(one.records) },
    { title: "Size", width: 96, kind: "number", cell: (one) => size(one.bytes) },
    { title: "After → until", width: 260, kind: "id", cell: slice },
    {
      title: "State",
      width: 120,
      cell: (one) => [one.gap ? pill("gap") : null, one.ended ? pill("ended", "The shard ends with this slice") : null],
    },
    {
      title: "Files",
      width: 150,
      cell: (one) =>
        h(
          "span",
          { title: (one.files || []).map((file) => `${file.path} (${bytes(file.bytes)})`).join("\n") },
          one.files ? counted(one.files.length, "file") : "not known",
        ),
    },
  ];
  if (records) {
    columns.push({
      title: "Records",
      width: 110,
      cell: (one) => h("button", { type: "button", onclick: () => context.set("records", one.shard_id) }, "show first"),
    });
  }
  return table("table-slices", {
    label: "Slices",
    columns,
    rows: data.slices,
    rowKey: (one) => one.shard_id + (one.after || ""),
    empty: "This batch has no slices.",
  });
}

const files = (data) =>
  h(
    "details",
    { class: "more" },
    h("summary", null, "Paths of the manifest and the files"),
    h("p", { class: "quiet" }, "Manifest ", data.manifest_uri ? h("code", null, data.manifest_uri) : "none"),
    h(
      "ul",
      { class: "paths" },
      data.slices
        .slice(0, 200)
        .flatMap((slice) => slice.files || [])
        .map((file) =>
          h("li", null, h("code", null, file.path), h("span", { class: "quiet" }, ` ${bytes(file.bytes)}`)),
        ),
    ),
  );

export function view(context) {
  const { route, airflow } = context;
  const head = top(context);
  const { data, error } = context.answer("batch");
  if (!data) return [...head, error ? failed(error, airflow) : waiting()];
  const { batch, now_ms: nowMs } = data;
  const open = context.get("records");
  const application = context.application?.application;
  return [
    h("div", { key: "head", class: "view" }, head),
    h(
      "div",
      { class: "head second", key: "batch" },
      h("h2", null, "Batch ", h("code", null, batch.batch_id)),
      pill(batchState(batch)),
      buttons(context, ofBatch(batch), { batch_id: batch.batch_id, scope: batch.scope }, data.may_act),
    ),
    error && failed(error, airflow),
    data.files_error && failed(data.files_error, airflow),
    h(
      "dl",
      { class: "facts", key: "batch-facts" },
      fact("Records", count(batch.records)),
      fact("Size", size(batch.bytes)),
      fact("Frozen", instant(batch.created_at_ms, nowMs)),
      fact("Committed", instant(batch.committed_at_ms, nowMs, "not yet")),
      fact("Attempt", batch.decided ? `${batch.attempt}, decided by ${batch.decided}` : String(batch.attempt)),
      fact("Gaps", batch.gaps ? h("span", { class: "tag bad" }, count(batch.gaps)) : "none"),
      UNDECIDED.includes(batch.state) &&
        wideFact("Until data loss", loss(application?.expires_in_ms, application?.retention_ms), LOSS_OF),
      wideFact(
        "Owner",
        data.owner?.dag_id
          ? airflowLink(airflow, data.owner, `${data.owner.dag_id} · ${data.owner.run_id}`)
          : owner(batch.owner, airflow),
        data.owner?.state && [" ", pill(data.owner.state)],
        data.owner && !data.owner.here && h("div", { class: "quiet" }, "no run of this deployment"),
      ),
      wideFact(
        "Arrived",
        batch.min_arrival_ms === null
          ? "no records"
          : [
              instant(batch.min_arrival_ms, nowMs),
              h("span", { class: "quiet" }, ` over ${duration(batch.max_arrival_ms - batch.min_arrival_ms)}`),
            ],
      ),
      batch.interval && wideFact("Interval run", batch.interval),
    ),
    section(
      "Attempts",
      null,
      data.attempts.length
        ? h(
            "ul",
            { class: "lines tall" },
            data.attempts.map((one) => attempt(one, nowMs)),
          )
        : h("p", { class: "none" }, "No work has opened it yet."),
    ),
    (data.notes.length > 0 || data.gaps.length > 0) &&
      section(
        "Notes and gaps",
        null,
        h(
          "ul",
          { class: "lines" },
          data.notes.map((note) => h("li", null, note)),
          data.gaps.map(({ shard_id: name, ...gap }) =>
            h("li", null, pill("gap"), h("code", null, name), gapText(gap)),
          ),
        ),
      ),
    section(
      "Slices",
      h("span", { class: "quiet" }, counted(data.slices.length, "slice")),
      slices(context, data, context.application?.may_see_records),
      files(data),
    ),
    open && viewer(context, { batch_id: batch.batch_id, shard_id: open }),
  ];
}
