// SPDX-License-Identifier: Apache-2.0
// Numbers and instants as people read them. Pure functions: the exact value stands in a title beside each.
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const pair = (ms, large, small, names) => {
  const first = Math.floor(ms / large);
  const second = Math.floor((ms % large) / small);
  return second ? `${first} ${names[0]} ${second} ${names[1]}` : `${first} ${names[0]}`;
};

/** A length of time in at most two units: `3 h 10 min`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < SECOND) return ms === 0 ? "0 s" : "under 1 s";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < 10 * MINUTE) return pair(ms, MINUTE, SECOND, ["min", "s"]);
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return pair(ms, HOUR, MINUTE, ["h", "min"]);
  return pair(ms, DAY, HOUR, ["d", "h"]);
}

/** How far behind something is. */
export function behind(ms) {
  if (ms === null || ms === undefined) return "not known";
  return ms < SECOND ? "at the tip" : `${duration(ms)} behind`;
}

/** How long until records are lost. */
export function untilLoss(ms) {
  if (ms === null || ms === undefined) return "not known";
  return ms <= 0 ? "records may be lost" : `${duration(ms)} until data loss`;
}

/** How urgent the time until data loss is, by what is left of the retention. */
export function lossLevel(leftMs, retentionMs) {
  if (leftMs === null || leftMs === undefined) return "none";
  if (leftMs <= 0) return "lost";
  if (!retentionMs) return leftMs < HOUR ? "bad" : leftMs < 6 * HOUR ? "warn" : "ok";
  const left = leftMs / retentionMs;
  return left < 0.15 ? "bad" : left < 0.5 ? "warn" : "ok";
}

const whole = (ms) => (ms < MINUTE ? ms : ms - (ms % MINUTE));

/** An instant as it lies from now: `3 min ago`, `in 2 h`. */
export function ago(instantMs, nowMs) {
  if (instantMs === null || instantMs === undefined) return "never";
  const past = nowMs - instantMs;
  if (Math.abs(past) < 2 * SECOND) return "just now";
  return past > 0 ? `${duration(whole(past))} ago` : `in ${duration(whole(-past))}`;
}

/** An instant in full, UTC. */
export function utc(instantMs) {
  if (instantMs === null || instantMs === undefined) return "not known";
  return new Date(instantMs)
    .toISOString()
    .replace("T", " ")
    .replace(/(\.000)?Z$/, " UTC");
}

/** The time of an instant, with its day if it is not today's; UTC. */
export function clock(instantMs, nowMs) {
  if (instantMs === null || instantMs === undefined) return "not known";
  const text = new Date(instantMs).toISOString();
  const today = new Date(nowMs).toISOString().slice(0, 10);
  const time = text.slice(11, 19);
  return text.slice(0, 10) === today ? time : `${text.slice(0, 10)} ${time}`;
}

/** A whole number with its thousands apart. */
export function count(number) {
  if (number === null || number === undefined) return "not known";
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** A count with its noun: `1 shard`, `5,000 shards`. */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A number of bytes. */
export function bytes(number) {
  if (number === null || number === undefined) return "not known";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = number;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at += 1;
  }
  return at === 0 ? `${value} B` : `${value.toFixed(1)} ${names[at]}`;
}

/** A part of the hash range, by its two ends from 0 to 1. */
export function keyRange(from, to) {
  if (from === null || from === undefined || to === null || to === undefined) return "no range";
  const size = to - from;
  const digits = size >= 0.1 ? 0 : size >= 0.01 ? 1 : size >= 0.001 ? 2 : 3;
  return `${(from * 100).toFixed(digits)}–${(to * 100).toFixed(digits)} %`;
}

const LONGEST_POSITION = 20;

/** A position as a row shows it: of a sequence number its first and its last digits. */
export function position(text) {
  if (!text) return "the beginning";
  return /^\d/.test(text) && text.length > LONGEST_POSITION ? `${text.slice(0, 4)}…${text.slice(-10)}` : text;
}

const OWNER_PARTS = 5;

/** An owner's text as its parts, or null if it is not the group of a run (a reset, a person, another version). */
export function ownerParts(text) {
  const parts = (text || "").split("/");
  if (parts.length !== OWNER_PARTS) return null;
  let decoded;
  try {
    decoded = parts.map(decodeURIComponent);
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
  const [deployment, dagId, runId, groupId, mode] = decoded;
  return { deployment, dagId, runId, groupId, mode };
}

/** An owner as a row shows it: the DAG and the run. */
export function ownerShort(text) {
  const owner = ownerParts(text);
  if (owner) return `${owner.dagId} · ${owner.runId}`;
  return (text || "").startsWith("reset:") ? "a reset" : text || "";
}
