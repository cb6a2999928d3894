// SPDX-License-Identifier: Apache-2.0
// One shard: how it stands, what it waits for, and its history.
import { top } from "./application.js";
import { h } from "./dom.js";
import { bytes, count, counted, duration, position } from "./format.js";
import {
  banner,
  buttons,
  fact,
  failed,
  instant,
  lag,
  loss,
  owner,
  pill,
  range,
  section,
  slice,
  waiting,
  wideFact,
} from "./parts.js";
import { address } from "./router.js";
import { ofShard } from "./suited.js";
import { table } from "./table.js";

export const needs = (route) => [
  ["application", "application", address(route)],
  ["shard", "shard", { ...address(route), shard_id: route.shard_id }],
];

function relatives(title, found, context) {
  const link = ({ shard_id }) =>
    h("a", { href: context.link({ view: "shard", ...address(context.route), shard_id }) }, shard_id);
  return wideFact(
    title,
    found.length
      ? found.map((one) => h("div", null, link(one), one.state && [" ", pill(one.state)]))
      : h("span", { class: "quiet" }, "none"),
  );
}

function waits(found, context, gap) {
  const remedy = gap && "Find out why records expired unread. Then accept the gap, or reset the shard.";
  const of = address(context.route);
  const link =
    (found.shard_id &&
      h("a", { href: context.link({ view: "shard", ...of, shard_id: found.shard_id }) }, found.shard_id)) ||
    (found.batch_id &&
      h("a", { href: context.link({ view: "batch", ...of, batch_id: found.batch_id }) }, found.batch_id)) ||
    (found.owner && owner(found.owner, context.airflow));
  return h("div", { key: "waits" }, banner({ level: "warning", text: `It waits for ${found.text}.`, remedy }, link));
}

export function view(context) {
  const { route, airflow } = context;
  const { data, error } = context.answer("shard");
  const head = h("div", { key: "head", class: "view" }, top(context, Boolean(data?.waits_for && data.shard.pending_gap)));
  if (!data) return [head, error ? failed(error, airflow) : waiting()];
  const { shard, now_ms: nowMs, reading } = data;
  const retention = context.application?.application.retention_ms;
  const of = address(route);
  const left = shard.expires_from_ms === null ? null : shard.expires_from_ms - nowMs;
  const columns = [
    {
      title: "Batch",
      width: 290,
      kind: "id",
      cell: (one) => h("a", { href: context.link({ view: "batch", ...of, batch_id: one.batch_id }) }, one.batch_id),
    },
    { title: "State", width: 110, cell: (one) => pill(one.outcome) },
    { title: "Records", width: 100, kind: "number", cell: (one) => count(one.records) },
    { title: "Committed", width: 130, kind: "number", cell: (one) => instant(one.committed_at_ms, nowMs, "–") },
    { title: "After → until", width: 260, kind: "id", cell: slice },
  ];
  return [
    head,
    h(
      "div",
      { class: "head second", key: "shard" },
      h("h2", null, "Shard ", h("code", null, shard.shard_id)),
      pill(shard.state),
      shard.pending_gap && pill("gap"),
      buttons(context, ofShard(shard), { shards: [shard.shard_id] }),
    ),
    error && failed(error, airflow),
    data.waits_for && waits(data.waits_for, context, shard.pending_gap),
    h(
      "dl",
      { class: "facts", key: "shard-facts" },
      fact(
        "Until data loss",
        shard.all_read ? h("span", { class: "quiet" }, "read to its end") : loss(left, retention),
      ),
      fact("Behind at last read", lag(shard.millis_behind_latest)),
      wideFact("Held by", owner(shard.owner, airflow)),
      wideFact(
        "Batch",
        shard.batch_id
          ? h("a", { href: context.link({ view: "batch", ...of, batch_id: shard.batch_id }) }, shard.batch_id)
          : h("span", { class: "quiet" }, "none"),
      ),
      fact(
        "Landed, not frozen",
        shard.pending_records ? counted(shard.pending_records, "record") : h("span", { class: "quiet" }, "nothing"),
      ),
      fact("Hash range", range(shard)),
      fact("Checkpoint", h("code", { title: shard.checkpoint }, position(shard.checkpoint))),
      fact("Last write", instant(shard.updated_at_ms, nowMs)),
      relatives("Parents", data.parents, context),
      relatives("Children", data.children, context),
    ),
    reading &&
      h(
        "p",
        { class: "reading", key: "reading", role: "status" },
        h("span", { class: "dot on", "aria-hidden": "true" }),
        `Reading: ${counted(reading.records, "record")}, ${bytes(reading.bytes)} so far, `,
        reading.behind_ms === null ? "how much is left is not known" : `${duration(reading.behind_ms)} to go`,
        ", shown ",
        instant(reading.at_ms, nowMs),
      ),
    section(
      "Its batches",
      h("span", { class: "quiet" }, `among the latest ${count(data.batches_looked_at)} of the application`),
      data.files_error && failed(data.files_error, airflow),
      table("table-history", {
        label: "Batches of this shard",
        columns,
        rows: data.batches,
        rowKey: (one) => one.batch_id,
        empty: "None of these has records of this shard.",
      }),
    ),
  ];
}
