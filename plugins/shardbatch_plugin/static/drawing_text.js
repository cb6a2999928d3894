// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and times as people read them, and the round values of an axis. All instants are shown in UTC.
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = [[DAY, "d", HOUR, "h"], [HOUR, "h", MINUTE, "min"], [MINUTE, "min", SECOND, "s"]];

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND, 30 * SECOND, MINUTE,
  2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
  2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY,
];
const POWERS_OF_TIME = [1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY];

/** A length of time in at most two units: `1.2 s`, `4 min 10 s`, `3 d 4 h`; `unknown` if it is not a number. */
export function duration(ms) {
  if (!isNumber(ms)) return "unknown";
  const size = Math.abs(ms);
  const sign = ms < 0 ? "−" : "";
  if (size < SECOND) return `${sign}${Math.round(size)} ms`;
  if (size < MINUTE - 50) return `${sign}${trimmed(size / SECOND)} s`;
  for (const [unit, name, next, part] of UNITS) {
    const rounded = Math.round(size / next) * next;
    if (rounded < unit) continue;
    const rest = Math.round((rounded % unit) / next);
    return `${sign}${Math.floor(rounded / unit)} ${name}${rest ? ` ${rest} ${part}` : ""}`;
  }
  return `${sign}${trimmed(size / SECOND)} s`;
}

/** All digits, in groups of three. */
export function count(value) {
  return isNumber(value) ? value.toLocaleString("en-US") : "unknown";
}

/** About three digits: `12.3 k`, `4 M`. */
export function about(value) {
  return isNumber(value) ? scaled(value, ["", " k", " M", " G", " T"]) : "unknown";
}

export function bytes(value) {
  return isNumber(value) ? scaled(value, [" B", " kB", " MB", " GB", " TB"]) : "unknown";
}

/** `2026-11-28 01:22:41 UTC`. */
export function instant(ms) {
  return isInstant(ms) ? `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC` : "unknown";
}

/** What an axis says at an instant: a clock time, and the day where a day begins. */
export function clock(ms, step = HOUR) {
  const text = new Date(ms).toISOString();
  if (step >= DAY || ms % DAY === 0) return text.slice(5, 10);
  return step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

export function isInstant(value) {
  return isNumber(value) && Math.abs(value) <= 8.64e15;
}

/** Round instants between two others, at most `most`, and the step between them. */
export function timeTicks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? Math.ceil((to - from) / most / DAY) * DAY;
  const values = [];
  for (let at = Math.ceil(from / step) * step; at <= to && values.length <= most; at += step) values.push(at);
  return { step, values };
}

/**
 * Where values stand on an axis from 0 to 1. The axis is logarithmic if the largest value is more than 200 times the
 * smallest above zero, or 15 times the middle one; zero and less then stand at its foot. `kind` is `time` for
 * milliseconds.
 */
export function valueScale(values, kind = "number", most = 4) {
  const positive = values.filter((value) => isNumber(value) && value > 0).sort((a, b) => a - b);
  const [low, middle, top] = [positive[0] ?? 1, positive[positive.length >> 1] ?? 1, positive.at(-1) ?? 1];
  if (top / low > 200 || top / middle > 15) {
    const powers = kind === "time" ? POWERS_OF_TIME : Array.from({ length: 24 }, (_, power) => 10 ** (power - 3));
    const foot = Math.log10(powers.findLast((power) => power <= low) ?? low) - 0.15;
    const head = Math.log10(top) + 0.05;
    const at = (value) => (value > 0 ? Math.min(1, Math.max(0, (Math.log10(value) - foot) / (head - foot))) : 0);
    const inside = powers.filter((power) => Math.log10(power) >= foot && power <= top * 1.1);
    const every = Math.ceil(inside.length / (most + 1));
    return { log: true, top, at, ticks: inside.filter((_, index) => index % every === 0) };
  }
  return linear(top, kind, most);
}

/**
 * A linear axis from zero for bars. Where a few values are far larger than the others, it ends before them, so that the
 * others can be compared: `cut(value)` says which ones reach over its end.
 */
export function barScale(values, kind = "number", most = 4) {
  const positive = values.filter((value) => isNumber(value) && value > 0).sort((a, b) => a - b);
  const [usual, top] = [positive[Math.floor(positive.length * 0.9)] ?? 1, positive.at(-1) ?? 1];
  const end = top > 4 * usual ? 2 * usual : top;
  return { ...linear(end, kind, most), cut: (value) => value > end };
}

function linear(top, kind, most) {
  const step = kind === "time" ? timeTicks(0, top, most).step : niceStep(top / most);
  const end = Math.max(top * 1.05, step);
  const ticks = [];
  for (let index = 0; index * step <= end; index += 1) ticks.push(index * step);
  return { log: false, top, at: (value) => Math.min(1, Math.max(0, value / end)), ticks };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
}

function scaled(value, units) {
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${trimmed(size)}${units[unit]}`;
}

function trimmed(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}
