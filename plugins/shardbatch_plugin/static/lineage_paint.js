// SPDX-License-Identifier: Apache-2.0
// Paints a lineage. Bars thinner than a pixel are joined to one rectangle where they look the same; joins, labels and
// outlines appear once there is room for them.
import { BOLD, FONT, fill, fitted } from "./drawing.js";
import { clock, duration, isNumber, timeTicks } from "./drawing_text.js";

export const MARGIN = { left: 58, right: 30, top: 10, bottom: 30 };
export const STATES = [
  { state: "free", text: "free", colour: "free", shape: "solid", hollow: true },
  { state: "held", text: "held", colour: "held", shape: "solid" },
  { state: "landed", text: "landed", colour: "landed", shape: "rows" },
  { state: "frozen", text: "frozen", colour: "frozen", shape: "slashes" },
  { state: "completed", text: "completed", colour: "completed", shape: "solid" },
];
export const SIGNS = {
  warn: { sign: "○", text: "less than half of the retention is left" },
  bad: { sign: "▲", text: "less than 15 % of the retention is left" },
  lost: { sign: "✕", text: "records may be lost" },
};
const LOOKS = Object.fromEntries(STATES.map((each) => [each.state, each]));

/** Pixels of a view: `x` and `y` of a place in the layout, and back. */
export function scalesOf(view, width, height) {
  const [w, h] = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
  const [px, py] = [w / (view.x1 - view.x0), h / (view.y1 - view.y0)];
  return {
    w, h, px, py,
    x: (value) => MARGIN.left + (value - view.x0) * px,
    y: (value) => MARGIN.top + (value - view.y0) * py,
    atX: (x) => view.x0 + (x - MARGIN.left) / px,
    atY: (y) => view.y0 + (y - MARGIN.top) / py,
  };
}

/** Paints all of it and returns how many bars and joins were in view, and how many rectangles it took. */
export function paintLineage(context, width, height, colours, { layout, view, current, hovered, found }) {
  const scale = scalesOf(view, width, height);
  const boxes = boxesOf(layout, scale, width, height);
  paintAxes(context, scale, width, height, colours, layout, view);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left - 1, MARGIN.top - 4, scale.w + 2, scale.h + 8);
  context.clip();
  const joins = paintJoins(context, colours, layout, boxes);
  const rectangles = paintBars(context, colours, layout, boxes, MARGIN.top + scale.h);
  paintOutlines(context, colours, layout, boxes, { current, hovered, found });
  context.restore();
  paintSigns(context, colours, layout, boxes, scale);
  return { bars: boxes.filter(Boolean).length, joins, rectangles };
}

// The rectangle of each bar in pixels, or null if it is out of view.
function boxesOf(layout, scale, width, height) {
  const tree = !layout.ranged;
  return layout.bars.map((bar) => {
    let top = scale.y(bar.from);
    let tall = scale.y(bar.to) - top;
    let left = scale.x(bar.start);
    let right = scale.x(bar.end);
    if (right < MARGIN.left || left > width - MARGIN.right) return null;
    if (top + tall < MARGIN.top || top > height - MARGIN.bottom) return null;
    if (tree && tall > 26) [top, tall] = [top + tall / 2 - 13, 26];
    if (tree) right -= (right - left) * 0.3;
    else if (bar.parents.length) left += Math.min(tall < 3 ? 3 : 18, (right - left) * 0.25);
    return { left, right: Math.max(right, left + 1.5), top, tall };
  });
}

function paintBars(context, colours, layout, boxes, foot) {
  let rectangles = 0;
  let run = null;
  const flush = () => {
    if (!run) return;
    context.fillStyle = run.style;
    context.fillRect(run.left, run.top, run.right - run.left, Math.max(1, run.end - run.top));
    rectangles += 1;
    run = null;
  };
  for (const index of layout.painted) {
    const box = boxes[index];
    if (!box) continue;
    const { shard, guessed, level } = layout.bars[index];
    const look = LOOKS[shard.state] ?? LOOKS.free;
    const urgent = level !== "ok";
    if (box.tall < 3) {
      const style = shard.gap ? colours.gap : urgent ? colours[level] : colours[look.colour];
      const tall = urgent || shard.gap ? Math.max(2, box.tall) : box.tall;
      const [left, right] = [Math.round(box.left), Math.round(box.right)];
      const fits = run && run.style === style && run.left === left && run.right === right;
      if (fits && box.top - run.end < 0.5 && box.top >= run.top) {
        run.end = Math.max(run.end, box.top + tall);
      } else {
        flush();
        run = { style, left, right, top: Math.floor(box.top * 2) / 2, end: box.top + tall };
      }
      continue;
    }
    flush();
    rectangles += 1;
    paintBar(context, colours, box, look, { shard, guessed, level: urgent ? level : null });
    if (box.tall >= 16) paintLabel(context, colours, box, layout.bars[index], foot);
  }
  flush();
  return rectangles;
}

function paintBar(context, colours, box, look, { shard, guessed, level }) {
  const inset = box.tall > 8 ? 1 : 0.5;
  const [x, y, w, h] = [box.left, box.top + inset, box.right - box.left - 1, Math.max(1.5, box.tall - 2 * inset)];
  context.fillStyle = look.hollow && box.tall >= 6 ? colours.surface : fill(context, colours, look.colour, look.shape);
  context.fillRect(x, y, w, h);
  if (look.hollow && box.tall >= 6) {
    context.strokeStyle = colours[look.colour];
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
  }
  if (guessed && box.tall >= 5) {
    context.setLineDash([3, 3]);
    context.strokeStyle = colours.text;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    context.setLineDash([]);
  }
  if (shard.gap) {
    const wide = Math.min(w, 26);
    context.fillStyle = fill(context, colours, "gap", "cross");
    context.fillRect(x + w - wide, y, wide, h);
    context.fillStyle = colours.gap;
    context.fillRect(x + w - wide, y, 2, h);
  }
  if (level) {
    context.strokeStyle = colours[level];
    context.lineWidth = 2.5;
    context.strokeRect(x + 1.25, y + 1.25, Math.max(1, w - 2.5), Math.max(1, h - 2.5));
  }
}

function paintLabel(context, colours, box, bar, foot) {
  const left = Math.max(box.left, MARGIN.left) + 5;
  const wide = box.right - left - (bar.shard.gap ? 34 : 8);
  if (wide < 34) return;
  const name = bar.id.replace(/^shardId-0*(?=\d)/, "");
  context.font = FONT;
  const stated = bar.shard.state === "completed" ? name : `${name} · ${bar.shard.state ?? "unknown"}`;
  const late = bar.shard.behind_ms > 0 && isNumber(bar.shard.behind_ms);
  const wanted = late ? [`${stated} · ${duration(bar.shard.behind_ms)} behind`, stated] : [stated];
  const text = wanted.find((each) => context.measureText(each).width <= wide - 6) ?? fitted(context, name, wide - 6);
  if (!text) return;
  const [top, bottom] = [Math.max(box.top, MARGIN.top), Math.min(box.top + box.tall, foot)];
  if (bottom - top < 14) return;
  const middle = (top + bottom) / 2;
  // A plate below the text keeps it readable on every pattern.
  context.fillStyle = colours.surface;
  context.globalAlpha = 0.88;
  context.fillRect(left - 2, middle - 7, context.measureText(text).width + 6, 14);
  context.globalAlpha = 1;
  context.fillStyle = colours.text;
  context.fillText(text, left + 1, middle + 0.5);
}

// From each parent's end to its child's begin; thinner than three pixels, they would only be grey.
function paintJoins(context, colours, layout, boxes) {
  let joins = 0;
  context.beginPath();
  for (const bar of layout.bars) {
    const box = boxes[bar.index];
    for (const parent of bar.parents) {
      const from = boxes[parent];
      if (!from || !box || Math.max(box.tall, from.tall) < 3) continue;
      const [x0, y0] = [Math.min(from.right, box.left), from.top + from.tall / 2];
      const [x1, y1] = [box.left, box.top + box.tall / 2];
      const middle = (x0 + x1) / 2;
      context.moveTo(x0 - 1, y0);
      context.bezierCurveTo(middle, y0, middle, y1, x1, y1);
      joins += 1;
    }
  }
  context.strokeStyle = colours.muted;
  context.lineWidth = 1.25;
  context.stroke();
  return joins;
}

function paintOutlines(context, colours, layout, boxes, { current, hovered, found }) {
  const outline = (index, colour, thick) => {
    const box = boxes[index];
    if (!box) return;
    const tall = Math.max(4, box.tall);
    const top = box.top - (tall - box.tall) / 2;
    context.lineWidth = thick + 2;
    context.strokeStyle = colours.surface;
    context.strokeRect(box.left - 1, top - 1, box.right - box.left + 1, tall + 2);
    context.lineWidth = thick;
    context.strokeStyle = colour;
    context.strokeRect(box.left - 1, top - 1, box.right - box.left + 1, tall + 2);
  };
  if (layout.furthest !== null) outline(layout.furthest, colours.text, 1.5);
  for (const index of found) outline(index, colours.accent, 1.5);
  if (hovered !== null) outline(hovered, colours.muted, 2);
  if (current !== null) outline(current, colours.accent, 3);
}

// Beside the bars, so that they are seen however thin a bar is: which shards may lose data, and which is furthest.
function paintSigns(context, colours, layout, boxes, scale) {
  const taken = new Set();
  const right = MARGIN.left + scale.w;
  const clamp = (box) => Math.min(MARGIN.top + scale.h, Math.max(MARGIN.top, box.top + box.tall / 2));
  for (const index of [...layout.painted].reverse()) {
    const { level } = layout.bars[index];
    const box = boxes[index];
    if (level === "ok" || !box) continue;
    const at = Math.round(clamp(box) / 10);
    if (taken.has(at)) continue;
    taken.add(at);
    context.font = BOLD;
    context.textAlign = "center";
    context.fillStyle = colours[level];
    context.fillText(SIGNS[level].sign, layout.ranged ? right + 9 : Math.min(right, box.right) + 10, clamp(box));
  }
  context.textAlign = "left";
  if (layout.furthest === null || !boxes[layout.furthest]) return;
  const y = clamp(boxes[layout.furthest]);
  context.fillStyle = colours.text;
  context.beginPath();
  context.moveTo(right + 18, y);
  context.lineTo(right + 28, y - 6);
  context.lineTo(right + 28, y + 6);
  context.fill();
}

function paintAxes(context, scale, width, height, colours, layout, view) {
  const bottom = MARGIN.top + scale.h;
  context.strokeStyle = colours.line;
  context.fillStyle = colours.muted;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.beginPath();
  if (layout.axis === "time") {
    const { step, values } = timeTicks(view.x0, view.x1, Math.max(2, Math.floor(scale.w / 90)));
    for (const at of values) {
      context.moveTo(Math.round(scale.x(at)) + 0.5, MARGIN.top);
      context.lineTo(Math.round(scale.x(at)) + 0.5, bottom);
      context.fillText(clock(at, step), scale.x(at), bottom + 11);
    }
  } else {
    const every = Math.max(1, Math.ceil(70 / scale.px));
    for (let at = Math.max(0, Math.floor(view.x0)); at <= layout.deepest; at += 1) {
      const left = scale.x(at);
      if (left > width - MARGIN.right) break;
      if (left >= MARGIN.left) {
        context.moveTo(Math.round(left) + 0.5, MARGIN.top);
        context.lineTo(Math.round(left) + 0.5, bottom);
      }
      const middle = left + scale.px / 2;
      if (at % every === 0 && middle > MARGIN.left && middle < width - MARGIN.right) {
        context.fillText(every > 1 || scale.px < 100 ? String(at) : `generation ${at}`, middle, bottom + 11);
      }
    }
  }
  context.textAlign = "right";
  if (layout.ranged) {
    const step = [0.25, 0.125, 0.0625, 0.025, 0.01].find((each) => each * scale.py >= 34 && each * scale.py < 90)
      ?? (0.25 * scale.py < 34 ? 0.5 : 10 ** Math.ceil(Math.log10(45 / scale.py)));
    for (let at = Math.ceil(Math.max(0, view.y0) / step - 1e-9) * step; at <= Math.min(1, view.y1) + 1e-9; at += step) {
      const y = Math.round(scale.y(at)) + 0.5;
      context.moveTo(MARGIN.left, y);
      context.lineTo(width - MARGIN.right, y);
      context.fillText(`${Number((at * 100).toFixed(6))} %`, MARGIN.left - 7, y);
    }
  }
  context.stroke();
  context.textAlign = "left";
}
