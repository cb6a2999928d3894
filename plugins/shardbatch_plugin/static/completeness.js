// SPDX-License-Identifier: Apache-2.0
// Which hours are complete: a row for each day, a cell for each hour, and the watermark where it stands.
import { make, palette, watchTheme } from "./drawing.js";
import { addStyle } from "./drawing_style.js";
import { clock, instant, isInstant } from "./drawing_text.js";

const HOUR = 3600 * 1000;
const DAY = 24 * HOUR;
const STATES = {
  complete: { sign: "✓", text: "complete" },
  open: { sign: "", text: "open: records of it may still be missing" },
  gap: { sign: "▲", text: "gap: records were lost or passed over" },
  before: { sign: "·", text: "before the application began" },
};

/** Days with the cells of their hours, in UTC: `[{from_ms, cells: [hour or null]}]`, 24 cells each. */
export function daysOf(hours) {
  const days = new Map();
  for (const hour of hours.filter(({ from_ms }) => isInstant(from_ms))) {
    const from_ms = Math.floor(hour.from_ms / DAY) * DAY;
    if (!days.has(from_ms)) days.set(from_ms, { from_ms, cells: new Array(24).fill(null) });
    days.get(from_ms).cells[Math.floor((hour.from_ms - from_ms) / HOUR)] = hour;
  }
  return [...days.values()].sort((a, b) => a.from_ms - b.from_ms);
}

/** How many hours have each state, and the watermark, in words. */
export function completenessText({ hours = [], watermark_ms: watermark }) {
  if (!hours.length) return "No hours are known yet.";
  const told = Object.keys(STATES).map((state) => [state, hours.filter((hour) => hour.state === state).length]);
  const parts = told.filter(([, many]) => many).map(([state, many]) => `${many} ${state}`);
  const mark = isInstant(watermark) ? `The watermark is ${instant(watermark)}.` : "The watermark is not known.";
  return `Of the last ${hours.length} hours: ${parts.join(", ")}. ${mark}`;
}

/** Draws the answer of `completeness`. */
export function completeness(element, data) {
  element.classList.add("sb-drawing");
  const unwatch = watchTheme(element, () => palette(element));

  function draw(answer) {
    const hours = answer?.hours ?? [];
    const watermark = answer?.watermark_ms;
    addStyle(element);
    const active = element.getRootNode().activeElement;
    const place = active && element.contains(active) ? active.dataset.from : null;
    palette(element);
    const grid = make("div", { className: "sb-days", role: "group", "aria-label": "Completeness by the hour" });
    const scale = make("div", { className: "sb-hours", "aria-hidden": "true" });
    for (let hour = 0; hour < 24; hour += 1) {
      scale.append(make("span", { text: hour % 3 ? "" : clock(hour * HOUR + 1) }));
    }
    grid.append(make("span", { className: "sb-day", text: "UTC" }), scale);
    for (const { from_ms, cells } of daysOf(hours)) {
      const row = make("div", { className: "sb-hours" });
      cells.forEach((hour) => row.append(hour ? cellOf(hour, watermark) : make("div")));
      grid.append(make("span", { className: "sb-day", text: new Date(from_ms).toISOString().slice(0, 10) }), row);
    }
    const cells = [...grid.querySelectorAll(".sb-days .sb-hour")];
    const focused = cells.find((cell) => cell.dataset.from === place) ?? cells.at(-1);
    focused?.setAttribute("tabindex", "0");
    const told = make("p", { className: "sb-note", role: "status", text: completenessText(answer ?? {}) });
    element.replaceChildren(grid, keysOf(hours, watermark), told);
    if (place) focused?.focus();
  }

  // One cell is in the order of the Tab key; arrow keys lead to the others.
  function move(event) {
    const cells = [...element.querySelectorAll(".sb-days .sb-hour")];
    const from = cells.indexOf(event.target);
    const last = cells.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -24, ArrowDown: 24, Home: -from, End: last - from };
    const next = cells[from + (steps[event.key] ?? NaN)];
    if (from < 0 || !next) return;
    event.preventDefault();
    cells[from].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  element.addEventListener("keydown", move);
  draw(data);
  return {
    update: draw,
    destroy() {
      unwatch();
      element.removeEventListener("keydown", move);
      element.replaceChildren();
      element.classList.remove("sb-drawing");
    },
  };
}

function cellOf({ from_ms: from, state }, watermark) {
  const known = STATES[state];
  const here = isInstant(watermark) && watermark >= from && watermark < from + HOUR;
  const mark = here ? `; the watermark is ${instant(watermark)}` : "";
  const text = `${clock(from + 1)} to ${clock(from + HOUR + 1)} UTC, ${known?.text ?? "unknown"}${mark}`;
  const cell = make("div", {
    className: `sb-hour sb-${known ? state : "unknown"}`, role: "img", tabindex: "-1", title: text, "data-from": from,
    "aria-label": `${new Date(from).toISOString().slice(0, 10)} ${text}`, text: known?.sign ?? "?",
  });
  if (here) {
    const line = make("span", { className: "sb-watermark" });
    line.style.left = `${((watermark - from) / HOUR) * 100}%`;
    cell.append(line);
  }
  return cell;
}

function keysOf(hours, watermark) {
  const states = new Set(hours.map((hour) => hour.state));
  const list = make("ul", { className: "sb-legend" });
  const add = (className, sign, text) => {
    list.append(make("li", {}, make("span", { className, "aria-hidden": "true", text: sign }), make("span", { text })));
  };
  for (const [state, { sign, text }] of Object.entries(STATES)) {
    if (states.has(state)) add(`sb-hour sb-${state} sb-key`, sign, text);
  }
  if (isInstant(watermark)) add("sb-mark", "┃", "watermark");
  return list;
}
