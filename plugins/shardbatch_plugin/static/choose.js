// SPDX-License-Identifier: Apache-2.0
// Rows out of columns, and which of them a person asked for. Pure functions.
import { ownerShort } from "./format.js";

/** The rows of a columnar answer as objects. */
export function rowsOf({ columns, rows }) {
  return rows.map((row) => {
    const made = {};
    for (let at = 0; at < columns.length; at += 1) made[columns[at]] = row[at];
    return made;
  });
}

export const NO_FILTER = {
  text: "",
  state: "",
  owner: "",
  lag: 0,
  gap: false,
  waits: false,
  sort: "loss",
  down: false,
};

const RISING = {
  shard: (one) => one.shard_id,
  state: (one) => one.state,
  loss: (one) => one.expires_ms,
  behind: (one) => (one.behind_ms === null ? null : -one.behind_ms),
  owner: (one) => one.owner || null,
  batch: (one) => one.batch_id,
  pending: (one) => (one.pending_records ? -one.pending_records : null),
  range: (one) => one.from_key,
  updated: (one) => (one.updated_at_ms === null ? null : -one.updated_at_ms),
  waits: (one) => one.waits_for,
};

const compare = (first, second) => (first < second ? -1 : first > second ? 1 : 0);

/** The shards that a filter lets through, in its order. What is not known stands last, whichever way it is sorted. */
export function chosen(shards, filter) {
  const text = filter.text.trim().toLowerCase();
  const kept = shards.filter(
    (one) =>
      (!filter.state || (filter.state === "open" ? one.state !== "completed" : one.state === filter.state)) &&
      (!filter.owner || one.owner === filter.owner) &&
      (!filter.lag || (one.state !== "completed" && one.behind_ms !== null && one.behind_ms >= filter.lag)) &&
      (!filter.gap || Boolean(one.gap)) &&
      (!filter.waits || Boolean(one.waits_for)) &&
      (!text ||
        one.shard_id.toLowerCase().includes(text) ||
        (one.owner || "").toLowerCase().includes(text) ||
        (one.batch_id || "").toLowerCase().includes(text)),
  );
  const key = RISING[filter.sort];
  const sign = filter.down ? -1 : 1;
  const keyed = kept.map((one) => [key(one), one]);
  const missing = (value) => value === null || value === undefined;
  keyed.sort(([first, one], [second, other]) => {
    if (missing(first) !== missing(second)) return missing(first) ? 1 : -1;
    const order = missing(first) ? 0 : compare(first, second) * sign;
    return order || compare(one.shard_id, other.shard_id);
  });
  return keyed.map(([, one]) => one);
}

/** How many shards are in each state, and who holds how many. */
export function counts(shards) {
  const states = {};
  const owners = new Map();
  let gaps = 0;
  let waits = 0;
  for (const one of shards) {
    states[one.state] = (states[one.state] || 0) + 1;
    if (one.owner) owners.set(one.owner, (owners.get(one.owner) || 0) + 1);
    if (one.gap) gaps += 1;
    if (one.waits_for) waits += 1;
  }
  const held = [...owners].map(([owner, shards]) => ({ owner, shards, name: ownerShort(owner) }));
  held.sort((first, second) => second.shards - first.shards || compare(first.owner, second.owner));
  return { states, owners: held, gaps, waits };
}

/** Which rows of a long list are in sight, with some beside them so that scrolling shows no empty place. */
export function windowOf({ top, height, rowHeight, length, beside = 12 }) {
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight) - beside, length));
  const last = Math.min(length, Math.ceil((top + height) / rowHeight) + beside);
  return { first, last: Math.max(first, last) };
}
