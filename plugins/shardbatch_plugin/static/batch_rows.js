// SPDX-License-Identifier: Apache-2.0
// What the drawings of batches have in common: their order, kind and durations. Pure: no document, no canvas.
import { records } from "./drawing.js";
import { bytes, count, duration, instant, isInstant, isNumber } from "./drawing_text.js";

export const STEPS = ["claim", "read", "freeze", "work", "commit"];
/** What a batch came to, with a sign that tells it without colour. */
export const KINDS = {
  parked: { text: "parked: waits for a person", sign: "■", colour: "parked" },
  set_aside: { text: "set aside: decided without output", sign: "◆", colour: "frozen" },
  void: { text: "void: never commits", sign: "✕", colour: "error" },
  undecided: { text: "not decided yet", sign: "○", colour: "accent" },
  committed: { text: "committed", sign: "", colour: "completed" },
};

/** Batches from the oldest to the newest: `kind`, `steps`, `whole` and `lag` in milliseconds, `attempts` and `gaps`. */
export function batchRows(answer) {
  const rows = records(answer).map((batch) => {
    const took = STEPS.map((step) => batch[`${step}_s`]);
    const steps = took.map((seconds) => (isNumber(seconds) && seconds >= 0 ? seconds * 1000 : null));
    const known = steps.filter((each) => each !== null);
    const created = isInstant(batch.created_at_ms) ? batch.created_at_ms : null;
    const committed = isInstant(batch.committed_at_ms) ? batch.committed_at_ms : null;
    const spent = created !== null && committed !== null && committed >= created ? committed - created : null;
    return {
      batch,
      id: String(batch.batch_id ?? ""),
      kind: kindOf(batch),
      created,
      at: committed ?? created,
      steps,
      whole: known.length ? known.reduce((sum, each) => sum + each, 0) : spent,
      lag: committed !== null && isInstant(batch.max_arrival_ms) ? Math.max(0, committed - batch.max_arrival_ms) : null,
      attempts: isNumber(batch.attempt) ? batch.attempt : 0,
      gaps: isNumber(batch.gaps) ? batch.gaps : 0,
    };
  });
  return rows.sort((a, b) => (a.created ?? 0) - (b.created ?? 0) || (a.id < b.id ? -1 : 1));
}

export function kindOf({ state, set_aside }) {
  if (state === "PARKED") return "parked";
  if (set_aside) return "set_aside";
  if (state === "VOID") return "void";
  return state === "COMMITTED" ? "committed" : "undecided";
}

/** Where the time between two batches is more than four times the usual one: the index of the later, and how long. */
export function pauses(rows) {
  const between = rows.map(({ created }, at) => {
    const before = at ? rows[at - 1].created : null;
    return created !== null && before !== null ? created - before : 0;
  });
  const usual = between.slice(1).sort((a, b) => a - b)[Math.floor((rows.length - 1) / 2)] ?? 0;
  return between.flatMap((ms, index) => (usual > 0 && ms > 4 * usual ? [{ index, ms }] : []));
}

/** What a batch's note says, line by line. */
export function linesOf(row) {
  const { batch, kind, steps, whole, attempts, gaps } = row;
  const lines = [row.id, KINDS[kind].text];
  if (batch.outcome) lines.push(`outcome: ${batch.outcome}`);
  lines.push(`frozen: ${instant(row.created)}`);
  if (batch.committed_at_ms) lines.push(`committed: ${instant(batch.committed_at_ms)}`);
  lines.push(`${count(batch.records)} records, ${bytes(batch.bytes)}`);
  lines.push(`duration: ${duration(whole)}`);
  STEPS.forEach((step, at) => steps[at] !== null && lines.push(`${step}: ${duration(steps[at])}`));
  if (row.lag !== null) lines.push(`lag at commit: ${duration(row.lag)}`);
  if (attempts) lines.push(`attempts: ${count(attempts)}`);
  if (gaps) lines.push(`gaps: ${count(gaps)}`);
  if (batch.note) lines.push(`note: ${batch.note}`);
  return lines;
}

export function summaryOf(rows) {
  if (!rows.length) return "There are no batches yet.";
  const kinds = Object.keys(KINDS).map((kind) => [kind, rows.filter((row) => row.kind === kind).length]);
  const told = kinds.filter(([, many]) => many).map(([kind, many]) => `${count(many)} ${kind.replace("_", " ")}`);
  const again = rows.filter((row) => row.attempts > 1).length;
  const gaps = rows.filter((row) => row.gaps).length;
  return `${count(rows.length)} ${rows.length === 1 ? "batch" : "batches"} from ${instant(rows[0].created)} to`
    + ` ${instant(rows.at(-1).created)}: ${told.join(", ")}.`
    + ` ${count(again)} took more than one attempt, ${count(gaps)} have gaps.`;
}
