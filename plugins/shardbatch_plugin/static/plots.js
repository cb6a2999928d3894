// SPDX-License-Identifier: Apache-2.0
// Lag, records and duration of the last batches, one above the other on the same axis of time.
import { batchRows, KINDS, pauses, summaryOf } from "./batch_rows.js";
import { handle, make, pointOf, surface, tooltip, unique } from "./drawing.js";
import { about, clock, count, duration, instant, isNumber, timeTicks, valueScale } from "./drawing_text.js";

const LEFT = 74;
const RIGHT = 14;
const TALL = 110;
const EACH = 152;
const TIME = { kind: "time", short: duration, exact: duration };
const PANELS = [
  { ...TIME, name: "lag", text: "lag at commit", colour: "held", value: (row) => row.lag },
  {
    kind: "number", short: about, exact: count, name: "records", text: "records of a batch", colour: "landed",
    value: (row) => row.batch.records,
  },
  { ...TIME, name: "duration", text: "duration of a batch", colour: "frozen", value: (row) => row.whole },
];
const HEIGHT = PANELS.length * EACH + 34;
const HELP = "The lag is the time from the arrival of a batch's newest record to its commit. A batch stands at the time of"
  + " its commit, or of its freeze while it has none, in UTC. Arrow keys move from batch to batch and tell its values.";

/** Draws the answer of `batches`. */
export function plots(element, batches) {
  const summary = make("p", { className: "sb-unseen", id: unique("plots") });
  const told = make("p", { className: "sb-unseen", "aria-live": "polite" });
  const stage = make("div", { className: "sb-stage" });
  element.classList.add("sb-drawing");
  element.replaceChildren(stage, make("p", { className: "sb-note", text: HELP }), summary, told);
  let rows = [];
  let scales = [];
  let breaks = new Set();
  let span = null;
  let current = null;

  const drawn = surface(stage, {
    height: HEIGHT, label: "Plots of lag, records and duration", role: "application", "aria-describedby": summary.id,
    paint,
  });
  const { canvas } = drawn;
  const tip = tooltip(stage);
  const xOf = (at, width) => LEFT + ((at - span.from) / (span.to - span.from)) * (width - LEFT - RIGHT);

  function take(answer) {
    const id = current === null ? null : rows[current].id;
    rows = batchRows(answer).filter((row) => row.at !== null).sort((a, b) => a.at - b.at);
    const place = rows.findIndex((row) => row.id === id);
    current = place < 0 ? null : place;
    if (current === null) tip.hide();
    breaks = new Set(pauses(rows).map(({ index }) => index));
    scales = PANELS.map(({ kind, value }) => valueScale(rows.map(value), kind, 4));
    const [from, to] = rows.length ? [rows[0].at, rows.at(-1).at] : [0, 1];
    span = to > from ? { from, to } : { from: from - 1800000, to: to + 1800000 };
    const ranges = PANELS.map(({ text, value, exact }) => {
      const known = rows.map(value).filter(isNumber);
      if (!known.length) return "";
      const [low, high] = [Math.min(...known), Math.max(...known)];
      return ` ${text}: from ${exact(low)} to ${exact(high)}, last ${exact(known.at(-1))}.`;
    });
    summary.textContent = summaryOf(rows) + ranges.join("");
  }

  function paint(context, width, height, colours) {
    const ticks = timeTicks(span.from, span.to, Math.max(2, Math.floor((width - LEFT - RIGHT) / 90)));
    let points = 0;
    PANELS.forEach((panel, at) => {
      const top = at * EACH + 26;
      paintGrid(context, width, colours, panel, scales[at], top, ticks);
      points += paintLine(context, width, colours, panel, scales[at], top);
    });
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    for (const tick of rows.length ? ticks.values : []) {
      context.fillText(clock(tick, ticks.step), xOf(tick, width), HEIGHT - 22);
    }
    if (!rows.length) context.fillText("There are no batches yet.", (LEFT + width) / 2, 26 + TALL / 2);
    if (current !== null) paintCross(context, width, colours);
    const log = PANELS.filter((_, at) => scales[at].log).map(({ name }) => name).join(" ");
    Object.assign(canvas.dataset, { points, log, current: current === null ? "" : rows[current].id });
  }

  function paintGrid(context, width, colours, panel, scale, top, ticks) {
    context.strokeStyle = colours.line;
    context.fillStyle = colours.muted;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.beginPath();
    for (const tick of scale.ticks) {
      const y = Math.round(top + TALL * (1 - scale.at(tick))) + 0.5;
      context.moveTo(LEFT, y);
      context.lineTo(width - RIGHT, y);
      context.fillText(tick ? panel.short(tick) : "0", LEFT - 8, y);
    }
    for (const tick of rows.length ? ticks.values : []) {
      const x = Math.round(xOf(tick, width)) + 0.5;
      context.moveTo(x, top);
      context.lineTo(x, top + TALL);
    }
    context.stroke();
    context.textAlign = "left";
    context.fillStyle = colours.text;
    context.fillText(`${panel.text}${scale.log ? " (logarithmic)" : ""}`, 0, top - 14);
  }

  // The line breaks where a value is not known, and where there was no batch for long. Batches that need a look have
  // the sign that they have on the timeline.
  function paintLine(context, width, colours, { colour, value }, scale, top) {
    let points = 0;
    let before = false;
    const place = (row) => [xOf(row.at, width), top + TALL * (1 - scale.at(value(row)))];
    const path = new Path2D();
    for (const [at, row] of rows.entries()) {
      const known = isNumber(value(row));
      if (known) {
        points += 1;
        if (before && !breaks.has(at)) path.lineTo(...place(row));
        else path.moveTo(...place(row));
      }
      before = known;
    }
    context.strokeStyle = colours[colour];
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.stroke(path);
    const apart = (width - LEFT - RIGHT) / Math.max(1, rows.length);
    context.fillStyle = colours[colour];
    const absent = (at) => !rows[at] || !isNumber(value(rows[at]));
    const alone = (at) => (absent(at - 1) || breaks.has(at)) && (absent(at + 1) || breaks.has(at + 1));
    context.textAlign = "center";
    rows.forEach((row, at) => {
      if (!isNumber(value(row))) return;
      const [x, y] = place(row);
      if (apart > 7 || alone(at)) {
        context.fillStyle = colours[colour];
        context.beginPath();
        context.arc(x, y, 2.5, 0, 2 * Math.PI);
        context.fill();
      }
      if (row.kind !== "committed" || row.gaps) {
        const { sign, colour: signed } = row.gaps ? { sign: "▲", colour: "gap" } : KINDS[row.kind];
        context.fillStyle = colours[signed];
        context.fillText(sign, x, Math.max(top + 6, y - 10));
      }
    });
    return points;
  }

  function paintCross(context, width, colours) {
    const row = rows[current];
    const x = Math.round(xOf(row.at, width)) + 0.5;
    context.strokeStyle = colours.text;
    context.lineWidth = 1;
    PANELS.forEach(({ colour, value, exact }, at) => {
      const top = at * EACH + 26;
      context.beginPath();
      context.moveTo(x, top - 4);
      context.lineTo(x, top + TALL);
      context.strokeStyle = colours.muted;
      context.stroke();
      const right = x > width - 160;
      context.textAlign = right ? "right" : "left";
      context.fillStyle = colours.text;
      context.fillText(exact(value(row)), x + (right ? -6 : 6), top - 14);
      if (!isNumber(value(row))) return;
      context.beginPath();
      context.arc(x, top + TALL * (1 - scales[at].at(value(row))), 4.5, 0, 2 * Math.PI);
      context.fillStyle = colours[colour];
      context.fill();
      context.strokeStyle = colours.surface;
      context.lineWidth = 1.5;
      context.stroke();
    });
  }

  function choose(index) {
    current = index;
    drawn.later();
    return linesOf(rows[index]);
  }

  function nearest(x) {
    const wanted = span.from + ((x - LEFT) / (drawn.width - LEFT - RIGHT)) * (span.to - span.from);
    let low = 0;
    let high = rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].at < wanted) low = middle + 1;
      else high = middle;
    }
    return low && wanted - rows[low - 1].at < rows[low].at - wanted ? low - 1 : low;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!rows.length) return;
    const { x, y } = pointOf(event, canvas);
    tip.show(choose(nearest(x)), x, y);
  });
  canvas.addEventListener("pointerleave", () => {
    current = null;
    tip.hide();
    drawn.later();
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    const from = current ?? rows.length;
    const last = rows.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -from, End: last - from };
    if (!(event.key in steps)) return;
    event.preventDefault();
    told.textContent = choose(Math.min(last, Math.max(0, from + steps[event.key]))).join(", ");
  });

  take(batches);
  drawn.now();
  return handle(element, drawn, take);
}

function linesOf(row) {
  const values = PANELS.map(({ text, value, exact }) => `${text}: ${exact(value(row))}`);
  return [row.id, instant(row.at), KINDS[row.kind].text, ...values];
}
