// SPDX-License-Identifier: Apache-2.0
// The table of an application's shards, with its filters.
import { NO_FILTER, chosen, counts, rowsOf } from "./choose.js";
import { h } from "./dom.js";
import { bytes, count, counted, duration } from "./format.js";
import { instant, lag, loss, owner, pill, range } from "./parts.js";
import { address } from "./router.js";
import { table } from "./table.js";

const LAGS = [
  [0, "any lag"],
  [60000, "1 min behind or more"],
  [600000, "10 min behind or more"],
  [3600000, "1 h behind or more"],
  [21600000, "6 h behind or more"],
];
const STATES = ["open", "free", "held", "landed", "frozen", "completed"];

function columns(context, retentionMs, nowMs, reading) {
  const of = address(context.route);
  const shard = (one) =>
    h("a", { href: context.link({ view: "shard", ...of, shard_id: one.shard_id }), title: one.shard_id }, one.shard_id);
  const batch = (one) =>
    one.batch_id
      ? h(
          "a",
          { href: context.link({ view: "batch", ...of, batch_id: one.batch_id }), title: one.batch_id },
          one.batch_id,
        )
      : h("span", { class: "quiet" }, "–");
  const done = h("span", { class: "quiet" }, "–");
  return [
    { title: "Shard", width: 168, kind: "id", sort: "shard", cell: shard },
    {
      title: "Until data loss",
      width: 122,
      kind: "number",
      sort: "loss",
      help: "When the oldest unread record expires",
      cell: (one) =>
        one.state === "completed" ? done : loss(one.expires_ms === null ? null : one.expires_ms - nowMs, retentionMs),
    },
    {
      title: "Behind at last read",
      width: 96,
      kind: "number",
      sort: "behind",
      cell: (one) => (one.state === "completed" ? done : lag(one.behind_ms)),
    },
    { title: "State", width: 128, sort: "state", cell: (one) => [pill(one.state), one.gap ? pill("gap") : null] },
    { title: "Owner", width: 220, sort: "owner", cell: (one) => owner(one.owner, context.airflow) },
    {
      title: "Waits for",
      width: 190,
      sort: "waits",
      cell: (one) => (one.waits_for ? h("span", { title: one.waits_for }, one.waits_for) : done),
    },
    { title: "Batch", width: 150, kind: "id", sort: "batch", cell: batch },
    {
      title: "Read",
      width: 96,
      kind: "number",
      sort: "pending",
      help: "Records that are read and not frozen yet",
      cell: (one) => readOf(one, reading.get(one.shard_id)),
    },
    { title: "Hash range", width: 170, sort: "range", cell: range },
    {
      title: "Last write",
      width: 130,
      kind: "number",
      sort: "updated",
      cell: (one) => instant(one.updated_at_ms, nowMs),
    },
  ];
}

/** What is read of a shard and not frozen: landed, or shown by the read that is at work. */
function readOf(shard, now) {
  if (!now) return shard.pending_records ? count(shard.pending_records) : h("span", { class: "quiet" }, "–");
  const left = now.behind_ms === null ? "how much is left is not known" : `${duration(now.behind_ms)} to go`;
  const title = `${bytes(now.bytes)} so far; ${left}`;
  return h("span", { title }, h("span", { class: "dot on", "aria-hidden": "true" }), " ", count(now.records));
}

function select(label, value, options, onChange) {
  return h(
    "select",
    { "aria-label": label, value, onchange: (event) => onChange(event.target.value) },
    options.map(([option, text]) => h("option", { value: option, key: option }, text)),
  );
}

const toggle = (label, checked, onChange) =>
  h(
    "label",
    { class: "toggle" },
    h("input", { type: "checkbox", checked, onchange: (event) => onChange(event.target.checked) }),
    label,
  );

export function shardsTab(context, shards) {
  const filter = { ...NO_FILTER, ...context.get("filter") };
  const change = (changed) => context.set("filter", { ...filter, ...changed });
  const found = counts(shards);
  const seen = context.remember("chosen", [shards, JSON.stringify(filter)], () => chosen(shards, filter));
  const { application } = context.application;
  const shown = context.answer("reading").data;
  const reading = new Map(shown ? rowsOf(shown).map((one) => [one.shard_id, one]) : []);
  const open = shards.length - (found.states.completed || 0);
  const states = STATES.map((state) => [
    state,
    `${state} (${count(state === "open" ? open : found.states[state] || 0)})`,
  ]);
  const owners = found.owners.map((one) => [one.owner, `${one.name} (${count(one.shards)})`]);
  if (filter.owner && !owners.some(([name]) => name === filter.owner))
    owners.push([filter.owner, `${filter.owner} (0)`]);
  const narrowed = Object.keys(NO_FILTER).some(
    (name) => !["sort", "down"].includes(name) && filter[name] !== NO_FILTER[name],
  );
  return h(
    "div",
    { key: "shards" },
    h(
      "div",
      { class: "filters", role: "search" },
      h("input", {
        type: "search",
        placeholder: "Search shard, owner or batch",
        "aria-label": "Search shard, owner or batch",
        value: filter.text,
        oninput: (event) => change({ text: event.target.value }),
      }),
      select("State", filter.state, [["", "all states"], ...states], (state) => change({ state })),
      select("Owner", filter.owner, [["", "all owners"], ...owners], (name) => change({ owner: name })),
      select(
        "Lag",
        String(filter.lag),
        LAGS.map(([ms, text]) => [String(ms), text]),
        (ms) => change({ lag: Number(ms) }),
      ),
      toggle(`gap (${count(found.gaps)})`, filter.gap, (gap) => change({ gap })),
      toggle(`waits (${count(found.waits)})`, filter.waits, (waits) => change({ waits })),
      narrowed &&
        h("button", { type: "button", class: "plain", onclick: () => context.set("filter", null) }, "Show all"),
      h("span", { class: "quiet told", role: "status" }, `${count(seen.length)} of ${counted(shards.length, "shard")}`),
    ),
    table("table-shards", {
      label: "Shards",
      columns: columns(context, application.retention_ms, context.now(), reading),
      rows: seen,
      rowKey: (one) => one.shard_id,
      sort: { by: filter.sort, down: filter.down },
      onSort: (sort, down) => change({ sort, down }),
      from: JSON.stringify(filter),
      empty: shards.length
        ? "No shard is like this."
        : "This application has no shard yet: its first run makes their rows.",
    }),
  );
}
