// SPDX-License-Identifier: Apache-2.0
// What all drawings share: the colours of the page, a canvas that follows its place, patterns, and small elements.
import { addStyle } from "./drawing_style.js";

// The page's variables (`--sb-held`) come first; these serve where the page defines none.
const LIGHT = {
  text: "#1b2230", muted: "#566175", line: "#d5dbe5", surface: "#ffffff", raised: "#f4f6fa", accent: "#1f5fd0",
  free: "#7c879a", held: "#2b6fd6", landed: "#0c8f83", frozen: "#7b57c8", completed: "#c3cad6", gap: "#c2410c",
  parked: "#b7791f", error: "#c62828", ok: "#2e7d4f", warn: "#a86a00", bad: "#d1480a", lost: "#a3123f",
  "step-claim": "#8a94a6", "step-read": "#2b6fd6", "step-freeze": "#0c8f83", "step-work": "#7b57c8",
  "step-commit": "#c9860a",
};
const DARK = {
  text: "#e8ecf3", muted: "#a5afc0", line: "#3a4252", surface: "#14181f", raised: "#1e242e", accent: "#7fb0ff",
  free: "#939eb2", held: "#5b9bff", landed: "#2fc0b0", frozen: "#ab8cf2", completed: "#485265", gap: "#ff8a4c",
  parked: "#e3ab45", error: "#ff6b6b", ok: "#5fc08a", warn: "#e6b04a", bad: "#ff8a4c", lost: "#ff6f9f",
  "step-claim": "#939eb2", "step-read": "#5b9bff", "step-freeze": "#2fc0b0", "step-work": "#ab8cf2",
  "step-commit": "#e6b04a",
};
export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
export const BOLD = `600 ${FONT}`;

/** The objects of an answer in columns and rows; a list of objects is taken as it is. */
export function records(answer) {
  if (!answer) return [];
  if (Array.isArray(answer)) return answer;
  const { columns = [], rows = [] } = answer;
  return rows.map((row) => {
    const made = {};
    for (let at = 0; at < columns.length; at += 1) made[columns[at]] = row[at];
    return made;
  });
}

/** An element with attributes, a class and text, set as text only. */
export function make(tag, { className, text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function isDark() {
  const root = document.documentElement;
  if (root.classList.contains("dark")) return true;
  if (root.classList.contains("light")) return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

let named = 0;

/** An id that no other element of the page has. */
export function unique(name) {
  named += 1;
  return `sb-${name}-${named}`;
}

/** What the page does with a drawing: `take` takes the data that `drawn` draws in `element`. */
export function handle(element, drawn, take) {
  return {
    update(data) {
      take(data);
      drawn.later();
    },
    destroy() {
      drawn.destroy();
      element.replaceChildren();
      element.classList.remove("sb-drawing");
    },
  };
}

/** The colours as they are now; they are also set on the element, for the parts of a drawing that are no canvas. */
export function palette(element) {
  const style = getComputedStyle(element);
  const colours = { ...(isDark() ? DARK : LIGHT) };
  for (const name of Object.keys(colours)) {
    colours[name] = style.getPropertyValue(`--sb-${name}`).trim() || colours[name];
    element.style.setProperty(`--sbd-${name}`, colours[name]);
  }
  return colours;
}

/** Calls back when the page around an element turns light or dark; returns how to stop. */
export function watchTheme(element, changed) {
  const observer = new MutationObserver(changed);
  const around = [document.documentElement, document.body, element.getRootNode().host];
  for (const each of around.filter(Boolean)) {
    observer.observe(each, { attributes: true, attributeFilter: ["class", "style", "data-theme"] });
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}

/**
 * A canvas that fills the width of its place, sharp on every screen. `paint(context, width, height, colours)` draws it
 * whole: at once on `now()`, and once a frame however often `later()` is called.
 */
export function surface(place, { height, label, paint, ...attributes }) {
  const canvas = make("canvas", { className: "sb-canvas", tabindex: "0", "aria-label": label, ...attributes });
  const context = canvas.getContext("2d");
  place.append(canvas);
  canvas.style.height = `${height}px`;
  const drawing = place.closest(".sb-drawing") ?? place;
  let colours = palette(drawing);
  let width = 0;
  let waiting = 0;

  function now() {
    cancelAnimationFrame(waiting);
    waiting = 0;
    addStyle(place);
    width = Math.max(240, Math.floor(place.clientWidth));
    const ratio = globalThis.devicePixelRatio || 1;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) {
      canvas.width = across;
      canvas.height = down;
      canvas.style.width = `${width}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    paint(context, width, height, colours);
  }

  function later() {
    if (!waiting) waiting = requestAnimationFrame(now);
  }

  const sizes = new ResizeObserver(() => {
    if (Math.max(240, Math.floor(place.clientWidth)) !== width) later();
  });
  sizes.observe(place);
  const unwatch = watchTheme(place, () => {
    colours = palette(drawing);
    later();
  });
  // A window that moves to another screen keeps its size and gets another pixel ratio.
  let ratioQuery = null;
  function watchRatio() {
    ratioQuery?.removeEventListener("change", watchRatio);
    if (ratioQuery) later();
    ratioQuery = matchMedia(`(resolution: ${globalThis.devicePixelRatio}dppx)`);
    ratioQuery.addEventListener("change", watchRatio);
  }
  watchRatio();

  return {
    canvas,
    now,
    later,
    get width() {
      return width;
    },
    get colours() {
      return colours;
    },
    destroy() {
      cancelAnimationFrame(waiting);
      sizes.disconnect();
      unwatch();
      ratioQuery.removeEventListener("change", watchRatio);
      canvas.remove();
    },
  };
}

/** Where a pointer is on a canvas, in CSS pixels. */
export function pointOf(event, canvas) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/** A note beside the pointer: lines of text, the first one bold. It stays inside its place. */
export function tooltip(place) {
  const box = make("div", { className: "sb-tip", "aria-hidden": "true", hidden: "" });
  place.append(box);
  return {
    show(lines, x, y) {
      box.replaceChildren(...lines.map((text, at) => make(at ? "div" : "strong", { text })));
      box.hidden = false;
      const right = x + 16 + box.offsetWidth > place.clientWidth;
      box.style.left = `${Math.max(0, right ? x - 16 - box.offsetWidth : x + 16)}px`;
      box.style.top = `${Math.max(0, Math.min(y + 12, place.clientHeight - box.offsetHeight))}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
}

const PATTERNS = new Map();

/** A fill that differs by its shape as well: `solid`, `rows`, `slashes`, `backslashes`, `cross` or `dots`. */
export function fill(context, colours, colour, shape = "solid") {
  if (shape === "solid") return colours[colour];
  const key = [colours[colour], colours.surface, shape].join();
  if (!PATTERNS.has(key)) {
    if (PATTERNS.size > 200) PATTERNS.clear();
    PATTERNS.set(key, context.createPattern(tile(colours[colour], colours.surface, shape), "repeat"));
  }
  return PATTERNS.get(key);
}

function tile(colour, ground, shape) {
  const side = 8;
  const canvas = document.createElement("canvas");
  canvas.width = side;
  canvas.height = side;
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, side, side);
  context.strokeStyle = ground;
  context.fillStyle = ground;
  context.globalAlpha = 0.62;
  context.lineWidth = 1.6;
  const strokes = {
    rows: [[0, 2, side, 2], [0, 6, side, 6]],
    slashes: [[-2, 2, 2, -2], [-2, side + 2, side + 2, -2], [side - 2, side + 2, side + 2, side - 2]],
    backslashes: [[-2, side - 2, 2, side + 2], [-2, -2, side + 2, side + 2], [side - 2, -2, side + 2, 2]],
    cross: [[0, 0, side, side], [side, 0, 0, side]],
    dots: [],
  }[shape];
  context.beginPath();
  for (const [x0, y0, x1, y1] of strokes) {
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
  }
  context.stroke();
  if (shape === "dots") {
    context.fillRect(1, 1, 2, 2);
    context.fillRect(5, 5, 2, 2);
  }
  return canvas;
}

/** What the fills mean: `entries` are `{text, colour, shape, hollow}` or `{text, mark}`, a mark being one letter. */
export function legend(colours, entries) {
  const list = make("ul", { className: "sb-legend" });
  for (const { text, colour, shape, mark, hollow } of entries) {
    const item = make("li");
    if (mark) {
      const sign = make("span", { className: "sb-mark", text: mark, "aria-hidden": "true" });
      sign.style.color = colours[colour];
      item.append(sign);
    } else {
      item.append(swatch(colours, colour, shape, hollow));
    }
    item.append(make("span", { text }));
    list.append(item);
  }
  return list;
}

function swatch(colours, colour, shape, hollow) {
  const canvas = make("canvas", { className: "sb-swatch", width: "18", height: "12", "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = hollow ? colours.surface : fill(context, colours, colour, shape);
  context.fillRect(0, 0, 18, 12);
  context.lineWidth = hollow ? 3 : 1;
  context.strokeStyle = colours[colour];
  context.strokeRect(0.5, 0.5, 17, 11);
  return canvas;
}

/** Text shortened in its middle until it fits. */
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  for (let keep = text.length - 1; keep > 3; keep -= 1) {
    const half = Math.floor(keep / 2);
    const short = `${text.slice(0, half)}…${text.slice(text.length - (keep - half))}`;
    if (context.measureText(short).width <= width) return short;
  }
  return "";
}
