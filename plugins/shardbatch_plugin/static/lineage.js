// SPDX-License-Identifier: Apache-2.0
// The lineage of a stream's shards: their hash range over time, or a tree where the source has no ranges.
import { handle, legend, make, pointOf, records, surface, tooltip, unique } from "./drawing.js";
import { count, duration, instant, isNumber } from "./drawing_text.js";
import { barAt, lineageLayout, neighbour, search } from "./lineage_layout.js";
import { MARGIN, paintLineage, scalesOf, SIGNS, STATES } from "./lineage_paint.js";

const HEIGHT = 520;
const DIRECTIONS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const NOTHING = { left: "No parent is listed.", right: "No child is listed." };
const HELP = "Drag to move, turn the wheel or press + and − to zoom, 0 shows all. Arrow keys walk from shard to shard"
  + " (left: parent, right: child), Shift and an arrow key moves the view, Enter opens the shard.";

/**
 * Draws the answer of `shards`; calls `onShard(id)` for the shard that is chosen. `retention_ms` is the stream's, which
 * says how near a shard is to losing records; without it, a day.
 */
export function lineage(element, data, { onShard = () => {}, selected = null, retention_ms = null } = {}) {
  const summary = make("p", { className: "sb-unseen", id: unique("summary") });
  const told = make("p", { className: "sb-unseen", "aria-live": "polite" });
  const found = make("span", { className: "sb-found", role: "status" });
  const field = make("input", { type: "search", placeholder: "shard id, then Enter", "aria-label": "Find a shard" });
  const stage = make("div", { className: "sb-stage" });
  const keys = make("div");
  const button = (text, label, act) => {
    const made = make("button", { type: "button", text, "aria-label": label, title: label });
    made.addEventListener("click", act);
    return made;
  };
  const bar = make("div", { className: "sb-bar" }, field, found,
    button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
    button("All", "Show all shards", () => whole()),
    button("Furthest behind", "Show the shard furthest behind", () => layout.furthest !== null && go(layout.furthest)));
  element.classList.add("sb-drawing");
  element.replaceChildren(bar, stage, keys, make("p", { className: "sb-note", text: HELP }), summary, told);

  let layout = null;
  let view = null;
  let current = null;
  let hovered = null;
  let matches = [];
  let match = -1;
  let drag = null;
  let legendOf = "";

  let tip = null;

  const drawn = surface(stage, {
    height: HEIGHT, label: "Lineage of the shards", role: "application", "aria-describedby": summary.id,
    paint(context, width, height, colours) {
      const marks = { layout, view, current, hovered, found: matches.slice(0, 500).map((each) => each.index) };
      const counts = paintLineage(context, width, height, colours, marks);
      const seen = [view.x0, view.x1, view.y0, view.y1].join(" ");
      const chosen = current === null ? "" : layout.bars[current].id;
      const { axis } = layout;
      Object.assign(canvas.dataset, counts, { axis, zoom: zoomed().toFixed(2), view: seen, current: chosen });
      showLegend(colours);
    },
  });
  const { canvas } = drawn;
  canvas.classList.add("sb-moves");
  tip = tooltip(stage);
  const scale = () => scalesOf(view, drawn.width, HEIGHT);
  const zoomed = () => (layout.y1 - layout.y0) / (view.y1 - view.y0);

  function take(answer) {
    const shown = current === null ? selected : layout.bars[current].id;
    const under = hovered === null ? null : layout.bars[hovered].id;
    const kept = layout && view && { ...view };
    const before = layout;
    layout = lineageLayout(records(answer), answer?.now_ms ?? Date.now(), answer?.retention_ms ?? retention_ms);
    const placeOf = (id) => (id === null ? -1 : layout.bars.findIndex((each) => each.id === id));
    current = placeOf(shown) < 0 ? null : placeOf(shown);
    hovered = placeOf(under) < 0 ? null : placeOf(under);
    if (hovered === null) tip?.hide();
    const same = before && before.axis === layout.axis && before.bars.length;
    if (same && zoomedIn(before, kept)) view = limited(kept);
    else view = bounds();
    find(false);
    summary.textContent = summaryOf(layout);
  }

  function zoomedIn(of, seen) {
    return seen.x1 - seen.x0 < (of.x1 - of.x0) * 0.98 || seen.y1 - seen.y0 < (of.y1 - of.y0) * 0.98;
  }

  function bounds() {
    return { x0: layout.x0, x1: layout.x1, y0: layout.y0, y1: layout.y1 };
  }

  function limited({ x0, x1, y0, y1 }) {
    const side = (low, high, least, most, smallest) => {
      const size = Math.min(most - least, Math.max(smallest, high - low));
      const start = Math.min(most - size, Math.max(least, (low + high) / 2 - size / 2));
      return [start, start + size];
    };
    const [left, right] = side(x0, x1, layout.x0, layout.x1, (layout.x1 - layout.x0) / 5000);
    const [top, bottom] = side(y0, y1, layout.y0, layout.y1, (layout.y1 - layout.y0) * 1e-6);
    return { x0: left, x1: right, y0: top, y1: bottom };
  }

  function look(wanted) {
    view = limited(wanted);
    drawn.later();
  }

  // `factor` below 1 zooms in; the given place stays where it is.
  function zoom(factor, at = null, axes = "xy") {
    const { x0, x1, y0, y1 } = view;
    const centre = current === null ? { x: (x0 + x1) / 2, y: (y0 + y1) / 2 } : middle(layout.bars[current]);
    const { x, y } = at ?? { x: clampTo(x0, x1, centre.x), y: centre.y };
    const [fx, fy] = [axes.includes("x") ? factor ** 0.6 : 1, axes.includes("y") ? factor : 1];
    look({ x0: x - (x - x0) * fx, x1: x + (x1 - x) * fx, y0: y - (y - y0) * fy, y1: y + (y1 - y) * fy });
  }

  function whole() {
    look(bounds());
  }

  function move(across, down) {
    const [x, y] = [(view.x1 - view.x0) * across, (view.y1 - view.y0) * down];
    look({ x0: view.x0 + x, x1: view.x1 + x, y0: view.y0 + y, y1: view.y1 + y });
  }

  /** Makes a shard the current one and brings it into the middle, tall enough to be read. */
  function go(index) {
    current = index;
    const each = layout.bars[index];
    const tall = Math.min(view.y1 - view.y0, Math.max((each.to - each.from) * 12, 1e-6));
    const wide = Math.min(view.x1 - view.x0, (each.end - each.start) * 20);
    const { x, y } = middle(each);
    const seen = wide === view.x1 - view.x0 && x >= view.x0 && x <= view.x1;
    look({ x0: seen ? view.x0 : x - wide / 2, x1: seen ? view.x1 : x + wide / 2, y0: y - tall / 2, y1: y + tall / 2 });
    told.textContent = `${linesOf(layout, index).join(", ")}. Press Enter to open it.`;
  }

  // Walking keeps the zoom, and moves the view only where the shard would be out of it.
  function walk(index) {
    current = index;
    const each = layout.bars[index];
    const { x, y } = middle(each);
    const shift = (low, high, value) => (value < low || value > high ? value - (low + high) / 2 : 0);
    const dx = each.end < view.x0 || each.start > view.x1 ? shift(view.x0, view.x1, x) : 0;
    const dy = shift(view.y0, view.y1, y);
    look({ x0: view.x0 + dx, x1: view.x1 + dx, y0: view.y0 + dy, y1: view.y1 + dy });
    told.textContent = `${linesOf(layout, index).join(", ")}. Press Enter to open it.`;
  }

  function find(follow = true) {
    matches = search(layout, field.value);
    match = matches.length ? 0 : -1;
    found.textContent = field.value.trim() ? (matches.length ? `1 of ${count(matches.length)}` : "no such shard") : "";
    if (match === 0 && follow) go(matches[0].index);
    drawn?.later();
  }

  function hover(event) {
    const { x, y } = pointOf(event, canvas);
    const s = scale();
    const inside = x >= MARGIN.left && x <= MARGIN.left + s.w && y >= MARGIN.top - 3 && y <= MARGIN.top + s.h + 3;
    const bar = inside ? barAt(layout, s.atX(x), s.atY(y), 2 / s.px, 2 / s.py) : null;
    if ((bar?.index ?? null) !== hovered) {
      hovered = bar?.index ?? null;
      drawn.later();
    }
    if (bar) tip.show(linesOf(layout, bar.index), x, y);
    else tip.hide();
    return bar;
  }

  function leave() {
    hovered = null;
    tip.hide();
    drawn.later();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      hover(event);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.hypot(dx, dy) > 4;
    if (!drag.moved) return;
    tip.hide();
    const s = scale();
    const from = drag.view;
    look({ x0: from.x0 - dx / s.px, x1: from.x1 - dx / s.px, y0: from.y0 - dy / s.py, y1: from.y1 - dy / s.py });
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = drag && !drag.moved;
    drag = null;
    const bar = hover(event);
    if (!clicked || !bar) return;
    current = bar.index;
    drawn.later();
    onShard(bar.id);
  });
  canvas.addEventListener("pointercancel", () => {
    drag = null;
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("wheel", (event) => {
    const { x, y } = pointOf(event, canvas);
    const factor = 1.0015 ** Math.max(-400, Math.min(400, event.deltaY * (event.deltaMode ? 30 : 1)));
    // With nothing left to zoom out of, the page scrolls.
    if (factor > 1 && !zoomedIn(layout, view)) return;
    event.preventDefault();
    tip.hide();
    zoom(factor, { x: scale().atX(x), y: scale().atY(y) }, event.shiftKey ? "x" : event.altKey ? "y" : "xy");
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !layout.bars.length) return;
    const direction = DIRECTIONS[event.key];
    if (direction && event.shiftKey) {
      move({ left: -0.2, right: 0.2 }[direction] ?? 0, { up: -0.2, down: 0.2 }[direction] ?? 0);
    } else if (direction) {
      const first = layout.furthest ?? layout.bars.length - 1;
      const next = current === null ? layout.bars[first] : neighbour(layout, layout.bars[current], direction);
      if (next) walk(next.index);
      else told.textContent = NOTHING[direction] ?? "There is no other shard in this direction.";
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-" || event.key === "−") zoom(2);
    else if (event.key === "0" || event.key === "Home") whole();
    else if (event.key === "Enter" && current !== null) onShard(layout.bars[current].id);
    else if (event.key === "Escape" && current !== null) {
      current = null;
      drawn.later();
    } else return;
    event.preventDefault();
  });
  field.addEventListener("input", () => find());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length > 1) {
      match = (match + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
      found.textContent = `${count(match + 1)} of ${count(matches.length)}`;
      go(matches[match].index);
    } else if (event.key === "Enter" && matches.length) canvas.focus();
  });

  function showLegend(colours) {
    const states = new Set(layout.bars.map(({ shard }) => shard.state));
    const levels = new Set(layout.bars.map(({ level }) => level));
    const entries = STATES.filter(({ state }) => states.has(state));
    if (layout.bars.some(({ shard }) => shard.gap)) entries.push({ text: "gap", colour: "gap", shape: "cross" });
    for (const [level, { sign, text }] of Object.entries(SIGNS)) {
      if (levels.has(level)) entries.push({ text, mark: sign, colour: level });
    }
    if (layout.furthest !== null) entries.push({ text: "furthest behind", mark: "◀", colour: "text" });
    const key = JSON.stringify([entries, colours]);
    if (key === legendOf) return;
    legendOf = key;
    keys.replaceChildren(legend(colours, entries));
  }

  take(data);
  if (current !== null) go(current);
  drawn.now();
  return handle(element, drawn, take);
}

function middle(bar) {
  return { x: (bar.start + bar.end) / 2, y: (bar.from + bar.to) / 2 };
}

function clampTo(low, high, value) {
  return Math.min(high, Math.max(low, value));
}

/** What a shard's note says, line by line. */
function linesOf(layout, index) {
  const { shard, id, parents, children, guessed, from, to, level } = layout.bars[index];
  const lines = [id, `state: ${shard.state ?? "unknown"}`];
  if (shard.owner) lines.push(`owner: ${shard.owner}`);
  if (shard.waits_for) lines.push(`waits for: ${shard.waits_for}`);
  if (isNumber(shard.behind_ms) && shard.behind_ms > 0) {
    lines.push(`${duration(shard.behind_ms)} behind${index === layout.furthest ? ", the furthest of all" : ""}`);
  }
  if (level !== "ok") lines.push(SIGNS[level].text);
  if (shard.gap) lines.push("has a gap: records were lost or passed over");
  if (shard.pending_records) lines.push(`${count(shard.pending_records)} records read and not frozen`);
  const doubt = guessed ? " (not all is known)" : "";
  if (layout.ranged && to <= 1) lines.push(`hash range: ${percent(from)} to ${percent(to)}${doubt}`);
  if (shard.opened_ms) lines.push(`opened: ${instant(shard.opened_ms)}`);
  if (shard.closed_ms) lines.push(`closed: ${instant(shard.closed_ms)}`);
  lines.push(`parents: ${namesOf(layout, parents)}`, `children: ${namesOf(layout, children)}`);
  return lines;
}

function namesOf(layout, indexes) {
  const more = indexes.length > 3 ? ` and ${indexes.length - 3} more` : "";
  return indexes.slice(0, 3).map((index) => layout.bars[index].id).join(", ") + more || "none";
}

function percent(fraction) {
  return `${Number((fraction * 100).toPrecision(4))} %`;
}

function summaryOf(layout) {
  const { bars, furthest, ranged, deepest } = layout;
  if (!bars.length) return "The stream has no shards.";
  const states = STATES.map(({ state }) => [state, bars.filter(({ shard }) => shard.state === state).length]);
  const parts = states.filter(([, each]) => each).map(([state, each]) => `${count(each)} ${state}`);
  const many = `${count(bars.length)} ${bars.length === 1 ? "shard" : "shards"}`;
  const ages = deepest ? "generations" : "generation";
  const text = [`${many} in ${deepest + 1} ${ages}`
    + `${ranged ? "" : ", without hash ranges"}${parts.length ? `: ${parts.join(", ")}` : ""}.`];
  if (furthest !== null) {
    text.push(`${bars[furthest].id} is furthest behind, by ${duration(bars[furthest].shard.behind_ms)}.`);
  }
  for (const level of ["lost", "bad"]) {
    const near = bars.filter((bar) => bar.level === level).length;
    if (near) text.push(`Of ${count(near)} of them, ${SIGNS[level].text}.`);
  }
  const gaps = bars.filter(({ shard }) => shard.gap).length;
  if (gaps) text.push(`${count(gaps)} with a gap.`);
  return text.join(" ");
}
