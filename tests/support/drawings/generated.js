// SPDX-License-Identifier: Apache-2.0
// Made-up answers of the page's endpoints, the same ones at every call: for tests and for looking at the drawings.
export const NOW = Date.UTC(2026, 10, 28, 12, 0, 0);
export const RETENTION = 24 * 3600 * 1000;
const MINUTE = 60 * 1000;
const HOUR = 60 * MINUTE;
const SHARD_COLUMNS = [
  "shard_id", "state", "owner", "checkpoint", "behind_ms", "expires_ms", "parents", "from_key", "to_key", "opened_ms",
  "closed_ms", "batch_id", "pending_records", "gap", "updated_at_ms", "waits_for",
];
const BATCH_COLUMNS = [
  "batch_id", "state", "owner", "attempt", "records", "bytes", "gaps", "created_at_ms", "committed_at_ms",
  "min_arrival_ms", "max_arrival_ms", "set_aside", "note", "claim_s", "read_s", "freeze_s",
  "work_s", "commit_s", "outcome", "dag_id", "run_id",
];

/** Numbers from 0 to 1 that depend on the seed only (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shardId(number) {
  return `shardId-${String(number).padStart(12, "0")}`;
}

/** A stream that was split and merged until it had `total` shards: about `open` of them are open, of `levels` ages. */
export function shards({ total = 5000, open = 1000, levels = 8, seed = 1, ranges = true, times = true } = {}) {
  const chance = random(seed);
  const made = [];
  const begin = NOW - levels * 3 * HOUR;
  const add = (from, to, opened, parents) => {
    const shard_id = shardId(made.length);
    return made.push({ shard_id, from_key: from, to_key: to, opened_ms: opened, closed_ms: null, parents }) - 1;
  };
  const roots = Math.max(1, Math.min(open, Math.round(total / (levels + 1))));
  let living = Array.from({ length: roots }, (_, at) => add(at / roots, (at + 1) / roots, begin, []));
  for (let level = 1; level <= levels && made.length < total; level += 1) {
    const next = [];
    const wanted = level === levels ? total - made.length : Math.round((total - made.length) / (levels - level + 1));
    let spare = wanted;
    const share = Math.min(0.95, (1.15 * wanted) / (2 * living.length));
    for (let at = 0; at < living.length; at += 1) {
      const instant = Math.min(NOW - MINUTE, begin + level * 3 * HOUR + Math.round((chance() - 0.5) * 2 * HOUR));
      const [mine, other] = [made[living[at]], made[living[at + 1]]];
      const merges = (level === levels ? open < living.length : living.length > open * 0.7) ? 0.45 : 0.2;
      if (other && spare >= 1 && other.from_key === mine.to_key && chance() < merges * Math.min(1, share * 2)) {
        mine.closed_ms = instant;
        other.closed_ms = instant;
        next.push(add(mine.from_key, other.to_key, instant, [living[at], living[at + 1]]));
        spare -= 1;
        at += 1;
      } else if (spare >= 2 && chance() < share) {
        const middle = (mine.from_key + mine.to_key) / 2;
        mine.closed_ms = instant;
        next.push(add(mine.from_key, middle, instant, [living[at]]), add(middle, mine.to_key, instant, [living[at]]));
        spare -= 2;
      } else {
        next.push(living[at]);
      }
    }
    living = next;
  }
  const states = ["free", "held", "held", "held", "landed", "frozen"];
  made.forEach((shard, index) => {
    const isOpen = shard.closed_ms === null;
    const behind = isOpen ? Math.round(chance() ** 4 * 20 * MINUTE) : 0;
    const state = isOpen || chance() < 0.02 ? states[Math.floor(chance() * states.length)] : "completed";
    Object.assign(shard, {
      state,
      owner: state === "free" || state === "completed" ? "" : `clicks/scheduled__2026-11-28T11:50:00/${index % 4}`,
      checkpoint: state === "completed" ? "SHARD_END" : String(49000000000000 + index),
      behind_ms: state === "completed" ? null : behind,
      expires_ms: state === "completed" ? null : NOW + RETENTION - behind,
      batch_id: state === "frozen" ? "20261128t115000000-0123456789abcdef" : null,
      pending_records: state === "landed" ? Math.round(chance() * 9000) : null,
      gap: chance() < 0.004,
      updated_at_ms: Math.min(NOW, (shard.closed_ms ?? NOW) + MINUTE),
      waits_for: null,
    });
  });
  const late = living.slice(0, Math.min(living.length, 1 + Math.ceil(total / 500)));
  late.forEach((index, at) => {
    const behind = Math.round(RETENTION * (0.95 - at * 0.09));
    if (behind > 0) Object.assign(made[index], { behind_ms: behind, expires_ms: NOW + RETENTION - behind });
  });
  if (living.length > 6) {
    const longest = made[living[Math.floor(living.length * 0.6)]];
    const behind_ms = RETENTION * 1.02;
    Object.assign(longest, { behind_ms, expires_ms: NOW + RETENTION - behind_ms, state: "free", owner: "" });
  }
  for (const shard of made) {
    if (!ranges) Object.assign(shard, { from_key: null, to_key: null });
    if (!times) Object.assign(shard, { opened_ms: null, closed_ms: null });
  }
  return answer(SHARD_COLUMNS, made, { retention_ms: RETENTION });
}

/** What a service or an old row may say of shards: nothing of it may stop the drawing. */
export function oddShards() {
  const odd = [
    { shard_id: "circle-a", parents: ["circle-b"], from_key: 0, to_key: 0.25, opened_ms: NOW - HOUR },
    { shard_id: "circle-b", parents: ["circle-a"], from_key: 0, to_key: 0.25, opened_ms: NOW - HOUR },
    { shard_id: "own-parent", parents: ["own-parent", 4], from_key: 0.25, to_key: 0.5, opened_ms: NOW - 2 * HOUR },
    { shard_id: "orphan", parents: ["not-listed", 999, -1], from_key: 0.5, to_key: 0.75, opened_ms: NOW - HOUR },
    {
      shard_id: "turned", parents: null, from_key: 0.5, to_key: 0.25, opened_ms: NOW - 3 * HOUR,
      closed_ms: NOW - 4 * HOUR,
    },
    { shard_id: "half", parents: ["parent-of-half"], from_key: 0.75, to_key: null, opened_ms: NOW - HOUR },
    { shard_id: "other-half", parents: ["parent-of-half"], from_key: null, to_key: null, opened_ms: null },
    { shard_id: "parent-of-half", parents: [], from_key: 0.75, to_key: 1, opened_ms: NOW - 3 * HOUR },
    { shard_id: "no-range", parents: [], from_key: null, to_key: null, opened_ms: NOW - HOUR },
    { shard_id: "text-range", parents: "x", from_key: "0", to_key: NaN, opened_ms: "yesterday", closed_ms: 1e99 },
    { shard_id: "thin", parents: [], from_key: 0.1, to_key: 0.1, opened_ms: NOW - HOUR, state: "not-a-state" },
    { shard_id: "same-time", parents: ["thin"], from_key: 0.1, to_key: 0.2, opened_ms: NOW - HOUR },
    { shard_id: null, parents: [], from_key: -3, to_key: 7, opened_ms: NOW + HOUR },
    { shard_id: "<b>marked</b>", parents: [], from_key: 0.3, to_key: 0.4, opened_ms: NOW - HOUR, behind_ms: Infinity },
  ];
  return answer(SHARD_COLUMNS, odd.map((shard) => ({ state: "held", gap: shard.shard_id === "half", ...shard })));
}

/** The last `count` batches, five minutes apart, the newest first as the endpoint gives them. */
export function batches({ count = 500, seed = 2 } = {}) {
  const chance = random(seed);
  const made = [];
  for (let at = 0; at < count; at += 1) {
    const created = NOW - (count - at) * 5 * MINUTE - (at < count * 0.6 ? 7 * HOUR : 0);
    const busy = 1 + 0.7 * Math.sin(at / 30) + (chance() < 0.02 ? 6 : 0);
    const records = Math.round(20000 * busy * (0.7 + chance() * 0.6));
    const seconds = [1, 20 * busy, 1.5, 35 * busy, 0.8].map((usual) => usual * (0.7 + chance() * 0.6));
    const total = seconds.reduce((sum, each) => sum + each, 0) * 1000;
    const attempt = chance() < 0.05 ? 2 + Math.floor(chance() * 3) : 1;
    const known = chance() > 0.03;
    const late = Math.round(at > count * 0.8 ? (at - count * 0.8) * 90000 : 2000 * busy);
    const stamp = new Date(created).toISOString();
    made.push({
      batch_id: `${stamp.replace(/[-:.Z]/g, "").replace("T", "t")}-${String(at).padStart(16, "0")}`,
      state: "COMMITTED", owner: `clicks/scheduled__${at}`, attempt, records, bytes: records * 412,
      gaps: chance() < 0.01 ? 1 : 0,
      created_at_ms: created, committed_at_ms: Math.round(created + total * attempt), set_aside: null, note: null,
      min_arrival_ms: created - 6 * MINUTE - late, max_arrival_ms: created - late,
      claim_s: known ? seconds[0] : null, read_s: known ? seconds[1] : null, freeze_s: known ? seconds[2] : null,
      work_s: known ? seconds[3] : null, commit_s: known ? seconds[4] : null,
      outcome: "committed", dag_id: "clicks", run_id: `scheduled__${at}`,
    });
  }
  const change = (back, values) => made[count - back] && Object.assign(made[count - back], values);
  change(2, { state: "PARKED", committed_at_ms: null, attempt: 3, outcome: "parked", note: "the schema changed" });
  change(1, { state: "FROZEN", committed_at_ms: null, outcome: "frozen", work_s: null, commit_s: null });
  change(9, { state: "COMMITTED", set_aside: "kept", outcome: "set aside" });
  change(17, { state: "VOID", committed_at_ms: null, outcome: "void" });
  change(25, { records: 0, bytes: 0, min_arrival_ms: null, max_arrival_ms: null });
  return answer(BATCH_COLUMNS, made.reverse());
}

/** Hours up to now: before the start, complete, one with a gap, and open ones behind the watermark. */
export function hours({ count = 72 } = {}) {
  const last = Math.floor(NOW / HOUR) * HOUR;
  const state = (back) => (back < 3 ? "open" : back === 20 ? "gap" : back > count - 6 ? "before" : "complete");
  const backs = Array.from({ length: count }, (_, at) => count - 1 - at);
  const list = backs.map((back) => ({ from_ms: last - back * HOUR, state: state(back) }));
  return { now_ms: NOW, hours: list, watermark_ms: last - 2.4 * HOUR, complete_from_ms: list[0].from_ms + 5 * HOUR };
}

function answer(columns, made, more = {}) {
  return { now_ms: NOW, ...more, columns, rows: made.map((each) => columns.map((name) => each[name] ?? null)) };
}
