// SPDX-License-Identifier: Apache-2.0
// What needs a person, the most urgent first. Pure functions.
import { counted, duration, lossLevel } from "./format.js";

const RANK = { lost: 0, bad: 1, error: 1, warn: 2, note: 3 };
const BY_LOSS = {
  lost: (shards) => `${counted(shards.length, "shard")} may have lost records`,
  bad: (shards, left) => `${counted(shards.length, "shard")} will lose records, the first in ${duration(left)}`,
  warn: (shards, left) =>
    `${counted(shards.length, "shard")} used half of the retention; data loss in ${duration(left)}`,
};

const LATE = "Let a run read them at once. What has expired by then shows as a gap.";
const IN_TIME = "See what holds the shard: its owner, its batch or its parent. Nothing is lost if it is read in time.";

const expiring = (shards, retentionMs, nowMs) => {
  const found = { lost: [], bad: [], warn: [] };
  for (const shard of shards) {
    if (shard.state === "completed" || shard.expires_ms === null || shard.gap) continue;
    found[lossLevel(shard.expires_ms - nowMs, retentionMs)]?.push(shard);
  }
  return Object.entries(found)
    .filter(([, of]) => of.length)
    .map(([level, of]) => {
      of.sort((first, second) => first.expires_ms - second.expires_ms);
      return {
        level,
        kind: "loss",
        text: BY_LOSS[level](of, of[0].expires_ms - nowMs),
        remedy: level === "lost" ? LATE : IN_TIME,
        shards: of,
      };
    });
};

const unfinished = (batch, running, nowMs) => {
  const age = `frozen ${duration(nowMs - batch.created_at_ms)} ago, attempt ${batch.attempt}`;
  const held = `${counted(batch.records, "record")}, ${age}`;
  if (batch.state === "PARKED") {
    const remedy = "Its shards wait. Fix the work, then unpark it; or set it aside, so that its shards go on.";
    return [{ level: "error", kind: "batch", text: `A batch is parked: ${held}`, remedy, batch }];
  }
  if (batch.attempt > 1) {
    const remedy = "Fix its work and clear the failed task. Until then you may park it, so that other shards go on.";
    return [{ level: "warn", kind: "batch", text: `The work of a batch has failed before: ${held}`, remedy, batch }];
  }
  if (running) return [];
  const remedy = "The next run finishes it. If its task failed, fix the work and clear that task.";
  return [{ level: "warn", kind: "batch", text: `A batch is frozen, and no run is at work: ${held}`, remedy, batch }];
};

/** What is wrong with an application, or waits for a person. */
export function troubles({ application, status, shards, nowMs }) {
  const found = expiring(shards, application.retention_ms, nowMs);
  const gaps = shards.filter((shard) => shard.gap && shard.waits_for);
  if (gaps.length) {
    found.push({
      level: "error",
      kind: "gap",
      text: `${counted(gaps.length, "shard")} ${gaps.length === 1 ? "waits" : "wait"} at a gap`,
      remedy: "Records expired unread. Accept the gap, and the shards go on after it; or reset them.",
      shards: gaps,
    });
  }
  const running = application.running.length > 0;
  for (const batch of [...status.unfinished, ...status.intervals.unfinished])
    found.push(...unfinished(batch, running, nowMs));
  for (const batch of [...status.set_aside, ...status.intervals.set_aside]) {
    const remedy = "Readers do not see its records. Replay it once the work is fixed, or drop it.";
    const text = `A batch is set aside: ${counted(batch.records, "record")}`;
    found.push({ level: "warn", kind: "batch", text, remedy, batch });
  }
  for (const batch of [...status.possible_orphans, ...status.intervals.possible_orphans]) {
    const remedy = "Look for rows with its id in your sink. Drop it once there are none.";
    found.push({ level: "note", kind: "batch", text: "A dropped batch may have left rows in a sink", remedy, batch });
  }
  return found.sort((first, second) => RANK[first.level] - RANK[second.level]);
}
