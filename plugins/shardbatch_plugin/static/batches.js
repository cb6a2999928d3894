// SPDX-License-Identifier: Apache-2.0
// The batches of an application: in time, and as a table.
import { rowsOf } from "./choose.js";
import { h } from "./dom.js";
import { drawing } from "./drawn.js";
import { count, counted, duration } from "./format.js";
import { batchState, failed, instant, owner, pill, size, waiting } from "./parts.js";
import { address } from "./router.js";
import { table } from "./table.js";

export const STEPS = ["claim", "read", "freeze", "work", "commit"];

const secondsOf = (batch, step) => batch[`${step}_s`] ?? null;

/** The seconds of each step of a batch as one bar. */
export function steps(batch) {
  const known = STEPS.map((step) => [step, secondsOf(batch, step)]).filter(([, seconds]) => seconds !== null);
  if (!known.length) return h("span", { class: "quiet", title: "Airflow has no times of its run" }, "–");
  const whole = known.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  const told = known.map(([step, seconds]) => `${step} ${duration(seconds * 1000)}`).join(", ");
  const part = ([step, seconds]) => h("span", { class: step, style: `width:${((seconds / whole) * 100).toFixed(2)}%` });
  return h(
    "span",
    { class: "steps", title: told },
    h("span", { class: "track", "aria-hidden": "true" }, known.map(part)),
    duration(whole * 1000),
  );
}

export function batchesTab(context) {
  const { data, error } = context.answer("batches");
  if (!data) return error ? failed(error, context.airflow) : waiting();
  const of = address(context.route);
  const batches = context.remember("batches", [data], () => rowsOf(data));
  const link = (batch_id) => ({ view: "batch", ...of, batch_id });
  const dash = h("span", { class: "quiet" }, "–");
  const columns = [
    {
      title: "Frozen",
      width: 130,
      cell: (one) =>
        h(
          "a",
          { href: context.link(link(one.batch_id)), title: one.batch_id },
          instant(one.created_at_ms, data.now_ms),
        ),
    },
    {
      title: "State",
      width: 124,
      cell: (one) => [pill(batchState(one)), one.gaps > 0 && pill("gap", counted(one.gaps, "gap"))],
    },
    { title: "Records", width: 100, kind: "number", cell: (one) => count(one.records) },
    { title: "Size", width: 96, kind: "number", cell: (one) => size(one.bytes) },
    {
      title: "Attempts",
      width: 84,
      kind: "number",
      cell: (one) => (one.attempt > 1 ? h("span", { class: "tag warn" }, count(one.attempt)) : one.attempt),
    },
    {
      title: "Outcome",
      width: 170,
      cell: (one) => (one.outcome ? h("span", { title: one.outcome }, one.outcome) : dash),
    },
    { title: "Claim to commit", width: 190, cell: steps },
    { title: "Committed", width: 130, kind: "number", cell: (one) => instant(one.committed_at_ms, data.now_ms, "–") },
    { title: "Owner", width: 240, cell: (one) => owner(one.owner, context.airflow) },
    { title: "Batch", width: 280, kind: "id", cell: (one) => one.batch_id },
  ];
  return h(
    "div",
    { key: "batches" },
    error && failed(error, context.airflow),
    batches.length > 0 && drawing("timeline", data, { onBatch: (batch_id) => context.go(link(batch_id)) }),
    h(
      "p",
      { class: "quiet key" },
      `The latest ${counted(batches.length, "batch", "batches")}. `,
      STEPS.map((step) => h("span", { class: `step ${step}` }, step)),
    ),
    table("table-batches", {
      label: "Batches",
      columns,
      rows: batches,
      rowKey: (one) => one.batch_id,
      empty: "No batch was frozen yet.",
    }),
  );
}
