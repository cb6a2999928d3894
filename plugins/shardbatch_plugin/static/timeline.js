// SPDX-License-Identifier: Apache-2.0
// The batches one beside the other: how long each step took, records, bytes, attempts, and what each came to.
import { batchRows, KINDS, linesOf, pauses, STEPS, summaryOf } from "./batch_rows.js";
import { BOLD, FONT, fill, handle, legend, make, pointOf, surface, tooltip, unique } from "./drawing.js";
import { about, barScale, bytes, clock, duration, valueScale } from "./drawing_text.js";
import { columnsOf, holding, newest, within, zoomed } from "./timeline_view.js";

const SHAPES = { claim: "solid", read: "solid", freeze: "rows", work: "slashes", commit: "dots" };
const LEFT = 74;
const RIGHT = 12;
const BRUSH = { top: 4, tall: 40 };
const LANES = { steps: { top: 84, tall: 170 }, records: { top: 288, tall: 70 }, bytes: { top: 392, tall: 54 } };
const SIGNS_AT = 466;
const ATTEMPTS_AT = 484;
const TIMES_AT = 506;
const HEIGHT = 530;
const HELP = "The strip above shows all batches: drag in it, turn the wheel or press + and − to choose which are shown"
  + " below. Arrow keys walk from batch to batch, Enter opens one. Times are UTC.";

/** Draws the answer of `batches`; calls `onBatch(id)` for the batch that is chosen. */
export function timeline(element, batches, { onBatch = () => {} } = {}) {
  const summary = make("p", { className: "sb-unseen", id: unique("timeline") });
  const told = make("p", { className: "sb-unseen", "aria-live": "polite" });
  const stage = make("div", { className: "sb-stage" });
  const keys = make("div");
  element.classList.add("sb-drawing");
  element.replaceChildren(stage, keys, make("p", { className: "sb-note", text: HELP }), summary, told);

  let rows = [];
  let breaks = [];
  let window = null;
  let current = null;
  let hovered = null;
  let drag = null;
  let legendOf = null;

  const drawn = surface(stage, {
    height: HEIGHT, label: "Timeline of the batches", role: "application", "aria-describedby": summary.id,
    paint(context, width, height, colours) {
      window = window ? within(window, rows.length, plotOf(width)) : newest(rows.length, plotOf(width));
      paint(context, width, colours);
      if (legendOf === colours) return;
      legendOf = colours;
      keys.replaceChildren(legend(colours, entries()));
    },
  });
  const { canvas } = drawn;
  const tip = tooltip(stage);
  const plot = () => plotOf(drawn.width);
  const columns = () => columnsOf(window, LEFT, plot());

  function take(answer) {
    const [id, under] = [current, hovered].map((index) => (index === null ? null : rows[index].id));
    const [count, following] = [rows.length, !window || window.to >= rows.length - 0.01];
    rows = batchRows(answer);
    breaks = pauses(rows);
    [current, hovered] = [id, under].map((each) => {
      const place = each === null ? -1 : rows.findIndex((row) => row.id === each);
      return place < 0 ? null : place;
    });
    if (hovered === null) tip.hide();
    if (window && following) window = { from: window.from + rows.length - count, to: window.to + rows.length - count };
    summary.textContent = summaryOf(rows);
    legendOf = null;
  }

  function paint(context, width, colours) {
    const { each, x } = columns();
    const [first, last] = [Math.max(0, Math.floor(window.from)), Math.min(rows.length, Math.ceil(window.to))];
    const shown = rows.slice(first, last);
    const scales = {
      steps: barScale(shown.map((row) => row.whole), "time", 4),
      records: barScale(shown.map((row) => row.batch.records), "number", 2),
      bytes: barScale(shown.map((row) => row.batch.bytes), "number", 2),
    };
    paintBrush(context, width, colours);
    paintLane(context, colours, width, LANES.steps, "duration", scales.steps, duration);
    paintLane(context, colours, width, LANES.records, "records", scales.records, about);
    paintLane(context, colours, width, LANES.bytes, "bytes", scales.bytes, bytes);
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    context.fillText("result", LEFT - 8, SIGNS_AT);
    context.fillText("attempts", LEFT - 8, ATTEMPTS_AT);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, plot(), HEIGHT);
    context.clip();
    const thick = Math.max(1, each > 6 ? each - 3 : each > 3 ? each - 1 : each);
    let drawnBars = 0;
    for (let index = first; index < last; index += 1) {
      const left = x(index) + (each - thick) / 2;
      if (index === hovered || index === current) paintChosen(context, colours, x(index), each, index === current);
      paintSteps(context, colours, rows[index], left, thick, scales.steps);
      const { batch, whole } = rows[index];
      paintValue(context, colours, batch.records, "held", LANES.records, scales.records, left, thick);
      paintValue(context, colours, batch.bytes, "landed", LANES.bytes, scales.bytes, left, thick);
      paintCut(context, colours, LANES.steps, scales.steps, whole, duration, left, thick);
      paintCut(context, colours, LANES.records, scales.records, batch.records, about, left, thick);
      paintCut(context, colours, LANES.bytes, scales.bytes, batch.bytes, bytes, left, thick);
      paintSigns(context, colours, rows[index], x(index) + each / 2, each);
      drawnBars += 1;
    }
    paintPauses(context, colours, x, first, last);
    context.restore();
    paintTimes(context, colours, width, x, each, first, last);
    if (!rows.length) {
      context.textAlign = "center";
      context.fillText("There are no batches yet.", LEFT + plot() / 2, LANES.steps.top + 60);
    }
    const chosen = current === null ? "" : rows[current].id;
    Object.assign(canvas.dataset, { bars: drawnBars, first, current: chosen });
  }

  function paintBrush(context, width, colours) {
    const wide = plot();
    const each = wide / Math.max(1, rows.length);
    const scale = valueScale(rows.map((row) => row.whole), "time");
    context.fillStyle = colours.raised;
    context.fillRect(LEFT, BRUSH.top, wide, BRUSH.tall);
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    context.fillText(`all ${rows.length}`, LEFT - 8, BRUSH.top + BRUSH.tall / 2);
    rows.forEach((row, index) => {
      const plain = row.kind === "committed";
      context.fillStyle = row.gaps ? colours.gap : plain ? colours.muted : colours[KINDS[row.kind].colour];
      const tall = Math.max(2, (BRUSH.tall - 8) * (row.whole === null ? 0 : scale.at(row.whole)));
      const bar = Math.max(plain && !row.gaps ? Math.min(each * 0.75, WIDE) : 2.5, Math.min(each * 0.75, WIDE));
      context.fillRect(LEFT + index * each, BRUSH.top + BRUSH.tall - tall, bar, tall);
      if (!plain || row.gaps) context.fillRect(LEFT + index * each - 1, BRUSH.top, bar + 2, 4);
    });
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    const [from, to] = [LEFT + window.from * each, LEFT + Math.min(rows.length, window.to) * each];
    context.strokeRect(from + 1, BRUSH.top - 1, Math.max(4, to - from - 2), BRUSH.tall + 2);
    context.fillStyle = colours.accent;
    for (const edge of [from, to]) context.fillRect(edge - 3, BRUSH.top + BRUSH.tall / 2 - 8, 6, 16);
  }

  function paintSteps(context, colours, row, left, thick, scale) {
    const { top, tall } = LANES.steps;
    const foot = top + tall;
    if (row.whole === null) {
      context.fillStyle = colours.muted;
      context.fillRect(left, foot - 2, thick, 2);
      return;
    }
    const high = tall * scale.at(row.whole);
    if (row.steps.every((each) => each === null)) {
      context.strokeStyle = colours.muted;
      context.lineWidth = 1;
      context.setLineDash([3, 2]);
      context.strokeRect(left + 0.5, foot - high + 0.5, Math.max(1, thick - 1), high - 1);
      context.setLineDash([]);
      return;
    }
    let base = foot;
    STEPS.forEach((step, at) => {
      const part = row.steps[at] === null || !row.whole ? 0 : (high * row.steps[at]) / row.whole;
      context.fillStyle = fill(context, colours, `step-${step}`, thick >= 6 ? SHAPES[step] : "solid");
      context.fillRect(left, base - part, thick, part);
      base -= part;
    });
    if (row.kind === "committed") return;
    context.strokeStyle = colours[KINDS[row.kind].colour];
    context.lineWidth = 2;
    context.strokeRect(left - 1, foot - high - 1, thick + 2, high + 1);
  }

  function paintValue(context, colours, value, colour, lane, scale, left, thick) {
    const high = value > 0 ? Math.max(1, lane.tall * scale.at(value)) : 0;
    context.fillStyle = colours[colour];
    context.fillRect(left, lane.top + lane.tall - high, thick, high);
  }

  // A bar that is cut off at the top has a break through it, and its value beside it.
  function paintCut(context, colours, lane, scale, value, text, left, thick) {
    if (!scale.cut(value)) return;
    context.strokeStyle = colours.surface;
    context.lineWidth = 3;
    context.beginPath();
    context.moveTo(left - 2, lane.top + 14);
    context.lineTo(left + thick + 2, lane.top + 8);
    context.stroke();
    context.fillStyle = colours.text;
    context.textAlign = left > LEFT + 60 ? "right" : "left";
    context.fillText(text(value), left > LEFT + 60 ? left - 4 : left + thick + 4, lane.top + 8);
  }

  function paintSigns(context, colours, row, middle, each) {
    context.textAlign = "center";
    const kind = KINDS[row.kind];
    const signs = [row.gaps ? ["▲", "gap"] : null, kind.sign ? [kind.sign, kind.colour] : null].filter(Boolean);
    context.font = BOLD;
    signs.forEach(([sign, colour], at) => {
      context.fillStyle = colours[colour];
      context.fillText(sign, middle, SIGNS_AT - (signs.length > 1 ? 6 - at * 12 : 0));
    });
    context.font = FONT;
    if (row.attempts > 1 && each >= 9) {
      context.fillStyle = colours.text;
      context.fillText(String(row.attempts), middle, ATTEMPTS_AT);
    } else if (row.attempts > 1) {
      context.fillStyle = colours.text;
      context.fillRect(middle - 1, ATTEMPTS_AT - 4, 2, 8);
    }
  }

  function paintChosen(context, colours, left, each, bold) {
    context.fillStyle = colours.raised;
    context.fillRect(left, LANES.steps.top - 6, each, ATTEMPTS_AT + 8 - LANES.steps.top + 6);
    if (!bold) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(left + 1, LANES.steps.top - 6, Math.max(3, each - 2), ATTEMPTS_AT + 8 - LANES.steps.top + 6);
  }

  function paintPauses(context, colours, x, first, last) {
    context.strokeStyle = colours.muted;
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    context.textAlign = "left";
    for (const { index, ms } of breaks) {
      if (index < first || index >= last) continue;
      context.beginPath();
      context.moveTo(x(index), LANES.steps.top - 12);
      context.lineTo(x(index), LANES.bytes.top + LANES.bytes.tall);
      context.stroke();
      const text = `${duration(ms)} without a batch`;
      context.fillStyle = colours.muted;
      const room = x(index) + 5 + context.measureText(text).width < LEFT + plot();
      context.textAlign = room ? "left" : "right";
      context.fillText(text, x(index) + (room ? 5 : -5), LANES.steps.top - 9);
    }
    context.setLineDash([]);
  }

  function paintTimes(context, colours, width, x, each, first, last) {
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    const every = Math.max(1, Math.ceil(48 / each));
    let day = null;
    for (let index = Math.ceil(first / every) * every; index < last; index += every) {
      const at = rows[index].created;
      const middle = x(index) + each / 2;
      if (at === null || middle < LEFT + 14 || middle > width - RIGHT - 14) continue;
      const today = new Date(at).toISOString().slice(5, 10);
      context.fillText(clock(at + 1, 60000), middle, TIMES_AT);
      if (day !== today) context.fillText(today, middle, TIMES_AT + 14);
      day = today;
    }
  }

  function entries() {
    const list = STEPS.map((step) => ({ text: step, colour: `step-${step}`, shape: SHAPES[step] }));
    const kinds = new Set(rows.map((row) => row.kind));
    for (const [kind, { text, sign, colour }] of Object.entries(KINDS)) {
      if (sign && kinds.has(kind)) list.push({ text, mark: sign, colour });
    }
    if (rows.some((row) => row.gaps)) list.push({ text: "gap", mark: "▲", colour: "gap" });
    return list;
  }

  function show(wanted) {
    window = within(wanted, rows.length, plot());
    drawn.later();
  }

  function walk(index) {
    current = Math.min(rows.length - 1, Math.max(0, index));
    show(holding(window, current, rows.length, plot()));
    told.textContent = `${linesOf(rows[current]).join(", ")}. Press Enter to open it.`;
  }

  function batchAt({ x, y }) {
    const index = Math.floor(columns().at(x));
    const inside = y > BRUSH.top + BRUSH.tall + 4 && x >= LEFT && x <= LEFT + plot();
    return inside && index >= 0 && index < rows.length ? index : null;
  }

  function hover(event) {
    const at = pointOf(event, canvas);
    const index = batchAt(at);
    if (index !== hovered) {
      hovered = index;
      drawn.later();
    }
    if (index === null) tip.hide();
    else tip.show(linesOf(rows[index]), at.x, at.y);
    const inBrush = at.y <= BRUSH.top + BRUSH.tall + 4;
    canvas.style.cursor = inBrush ? "ew-resize" : index === null ? "default" : "pointer";
  }

  // In the strip, an edge of the window follows the pointer, or the window does; a click elsewhere brings it there.
  function startBrush({ x }) {
    const each = plot() / Math.max(1, rows.length);
    const index = (x - LEFT) / each;
    const near = 8 / each;
    if (Math.abs(index - window.from) < near) return { part: "from" };
    if (Math.abs(index - window.to) < near) return { part: "to" };
    const half = (window.to - window.from) / 2;
    if (index < window.from || index > window.to) show({ from: index - half, to: index + half });
    return { part: "window", index, window: { ...window } };
  }

  function moveBrush({ x }) {
    const index = ((x - LEFT) / plot()) * rows.length;
    if (drag.part === "from") show({ from: Math.min(index, window.to - 3), to: window.to });
    else if (drag.part === "to") show({ from: window.from, to: Math.max(index, window.from + 3) });
    else show({ from: drag.window.from + index - drag.index, to: drag.window.to + index - drag.index });
  }

  canvas.addEventListener("pointerdown", (event) => {
    const at = pointOf(event, canvas);
    if (event.button || at.y > BRUSH.top + BRUSH.tall + 4 || !rows.length) return;
    canvas.setPointerCapture(event.pointerId);
    drag = startBrush(at);
  });
  canvas.addEventListener("pointermove", (event) => (drag ? moveBrush(pointOf(event, canvas)) : hover(event)));
  canvas.addEventListener("pointerup", () => {
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => {
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    tip.hide();
    drawn.later();
  });
  canvas.addEventListener("click", (event) => {
    const index = batchAt(pointOf(event, canvas));
    if (index === null) return;
    current = index;
    drawn.later();
    onBatch(rows[index].id);
  });
  canvas.addEventListener("wheel", (event) => {
    const size = window.to - window.from;
    if (size >= rows.length && event.deltaY > 0 && !event.deltaX) return;
    event.preventDefault();
    tip.hide();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = ((event.deltaX || event.deltaY) / 400) * size;
      show({ from: window.from + moved, to: window.to + moved });
    } else {
      const factor = 1.0015 ** Math.max(-400, Math.min(400, event.deltaY));
      window = zoomed(window, factor, columns().at(pointOf(event, canvas).x), rows.length, plot());
      drawn.later();
    }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    const from = current ?? rows.length;
    const page = Math.max(1, Math.floor(window.to - window.from) - 1);
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -page, PageDown: page };
    if (event.key in steps) walk(from + steps[event.key]);
    else if (event.key === "Home") walk(0);
    else if (event.key === "End") walk(rows.length - 1);
    else if (event.key === "Enter" && current !== null) onBatch(rows[current].id);
    else if ("+=-−".includes(event.key)) {
      const centre = current ?? (window.from + window.to) / 2;
      window = zoomed(window, "+=".includes(event.key) ? 0.6 : 1.6, centre, rows.length, plot());
      drawn.later();
    } else return;
    event.preventDefault();
  });

  take(batches);
  drawn.now();
  return handle(element, drawn, take);
}

const WIDE = 24;
function plotOf(width) {
  return width - LEFT - RIGHT;
}

function paintLane(context, colours, width, lane, name, scale, text) {
  context.strokeStyle = colours.line;
  context.fillStyle = colours.muted;
  context.lineWidth = 1;
  context.textAlign = "right";
  context.beginPath();
  for (const tick of scale.ticks) {
    const y = Math.round(lane.top + lane.tall * (1 - scale.at(tick))) + 0.5;
    context.moveTo(LEFT, y);
    context.lineTo(width - RIGHT, y);
    context.fillText(tick ? text(tick) : "0", LEFT - 8, y);
  }
  context.stroke();
  context.textAlign = "left";
  context.fillStyle = colours.text;
  context.fillText(name, 0, lane.top - 13);
}
