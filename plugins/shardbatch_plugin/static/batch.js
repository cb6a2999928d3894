// SPDX-License-Identifier: Apache-2.0
// One batch: what is in it, what was done with it, and what to do.
import { top } from "./application.js";
import { h } from "./dom.js";
import { bytes, count, counted, duration } from "./format.js";
import { airflowLink, banner, batchState, buttons, fact, failed, instant, owner, pill, section, size, waiting } from "./parts.js";
import { viewer } from "./records.js";
import { address } from "./router.js";
import { ofBatch } from "./suited.js";
import { table } from "./table.js";

export const needs = (route) => [
  ["application", "application", address(route)],
  ["batch", "batch", { ...address(route), batch_id: route.batch_id }],
];

function attempt(one) {
  return h(
    "li",
    { key: String(one.attempt) },
    h("strong", null, `Attempt ${one.attempt}`),
    one.outcome && h("span", null, one.outcome),
    h(
      "ul",
      null,
      one.applications.map((application) =>
        h(
          "li",
          null,
          "Spark application ",
          application.url ? h("a", { href: application.url, rel: "noreferrer" }, application.name) : h("code", null, application.name),
          application.work && h("span", { class: "quiet" }, ` of ${application.work}`),
        ),
      ),
      one.starts.map((start) => h("li", null, "start ", h("code", null, start.start), " ", pill(start.state))),
      !one.applications.length && !one.starts.length && h("li", { class: "quiet" }, "No application has entered it."),
    ),
  );
}

const range = (slice) => [h("code", { title: slice.after }, slice.after || "the beginning"), " → ", h("code", { title: slice.until }, slice.until)];

function slices(context, data, records) {
  const of = address(context.route);
  const columns = [
    { title: "Shard", width: 210, kind: "id", cell: (one) => h("a", { href: context.link({ view: "shard", ...of, shard_id: one.shard_id }) }, one.shard_id) },
    { title: "Records", width: 100, kind: "number", cell: (one) => count(one.records) },
    { title: "Size", width: 96, kind: "number", cell: (one) => size(one.bytes) },
    { title: "After → until", width: 380, kind: "id", cell: range },
    { title: "State", width: 120, cell: (one) => [one.gap ? pill("gap", String(one.gap)) : null, one.ended ? pill("ended", "The shard ends with this slice") : null] },
    {
      title: "Files", width: 150, cell: (one) =>
        h("span", { title: (one.files || []).map((file) => `${file.path} (${bytes(file.bytes)})`).join("\n") },
          one.files ? counted(one.files.length, "file") : "not known"),
    },
  ];
  if (records) {
    columns.push({
      title: "Records", width: 110,
      cell: (one) => h("button", { type: "button", onclick: () => context.set("records", one.shard_id) }, "show first"),
    });
  }
  return table("table-slices", { label: "Slices", columns, rows: data.slices, rowKey: (one) => one.shard_id + (one.after || ""), empty: "This batch has no slices." });
}

const files = (data) =>
  h(
    "details",
    { class: "more" },
    h("summary", null, "Paths of the files"),
    h("ul", { class: "paths" }, data.slices.slice(0, 200).flatMap((slice) => slice.files || []).map((file) => h("li", null, h("code", null, file.path), h("span", { class: "quiet" }, ` ${bytes(file.bytes)}`)))),
  );

export function view(context) {
  const { route, airflow } = context;
  const head = top(context);
  const { data, error } = context.answer("batch");
  if (!data) return [...head, error ? failed(error, airflow) : waiting()];
  const { batch, now_ms: nowMs } = data;
  const open = context.get("records");
  return [
    h("div", { key: "head", class: "view" }, head),
    h(
      "div",
      { class: "head second", key: "batch" },
      h("h2", null, "Batch ", h("code", null, batch.batch_id)),
      pill(batchState(batch)),
      buttons(context, ofBatch(batch), { batch_id: batch.batch_id, scope: batch.scope }),
    ),
    error && failed(error, airflow),
    data.files_error && banner({ level: "warning", text: data.files_error.message || data.files_error, remedy: data.files_error.remedy }),
    h(
      "dl",
      { class: "facts", key: "batch-facts" },
      fact("Records", count(batch.records)),
      fact("Size", size(batch.bytes)),
      fact("Frozen", instant(batch.created_at_ms, nowMs)),
      fact("Committed", instant(batch.committed_at_ms, nowMs, "not yet")),
      fact("Attempt", batch.decided ? `${batch.attempt}, decided by ${batch.decided}` : String(batch.attempt)),
      fact("Gaps", batch.gaps ? h("span", { class: "tag bad" }, count(batch.gaps)) : "none"),
      fact("Arrived", batch.min_arrival_ms === null ? "no records" : [instant(batch.min_arrival_ms, nowMs), h("span", { class: "quiet" }, ` over ${duration(batch.max_arrival_ms - batch.min_arrival_ms)}`)]),
      batch.interval && fact("Interval run", batch.interval),
    ),
    h(
      "div",
      { class: "columns", key: "who" },
      section(
        "Owner",
        null,
        h(
          "p",
          null,
          data.owner?.here
            ? airflowLink(airflow, data.owner, `${data.owner.dag_id} · ${data.owner.run_id}`)
            : owner(batch.owner, airflow),
          data.owner?.state && [" ", pill(data.owner.state)],
        ),
        data.owner && !data.owner.here && h("p", { class: "quiet" }, "This run is of another deployment, or Airflow has removed it."),
        h("p", { class: "quiet" }, "Manifest ", data.manifest_uri ? h("code", null, data.manifest_uri) : "none"),
      ),
      section("Attempts", null, data.attempts.length ? h("ul", { class: "lines tall" }, data.attempts.map(attempt)) : h("p", { class: "none" }, "No work has opened it yet.")),
    ),
    (data.notes.length > 0 || data.gaps.length > 0) &&
      section(
        "Notes and gaps",
        null,
        h(
          "ul",
          { class: "lines" },
          data.notes.map((note) => h("li", null, typeof note === "string" ? note : note.text)),
          data.gaps.map((gap) => h("li", null, pill("gap"), typeof gap === "string" ? gap : [gap.shard_id, " ", gap.text || gap.reason || `${gap.after} → ${gap.until}`])),
        ),
      ),
    section("Slices", h("span", { class: "quiet" }, counted(data.slices.length, "slice")), slices(context, data, context.application?.may_see_records), files(data)),
    open && viewer(context, { batch_id: batch.batch_id, shard_id: open }),
  ];
}
