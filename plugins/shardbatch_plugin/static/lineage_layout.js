// SPDX-License-Identifier: Apache-2.0
// Where the bars of a lineage stand, in the units of its axes. Pure: no document, no canvas.
import { descent, generationsOf } from "./lineage_descent.js";
import { isInstant, isNumber } from "./drawing_text.js";

const DAY = 24 * 3600 * 1000;
/** From the back to the front: what needs a person lies over what does not. */
const LAYERS = { completed: 0, free: 1, landed: 2, frozen: 3, held: 4 };
const LEVELS = ["ok", "warn", "bad", "lost"];

/**
 * Bars for shards. `start` and `end` are instants on a `time` axis, else generations; `from` and `to` are fractions of
 * the hash range, or of a tree's height. `guessed` says that a time or the range of a bar is not known.
 */
export function lineageLayout(shards, now, retention) {
  const family = descent(shards);
  const generation = generationsOf(family);
  const bars = shards.map((shard, index) => ({
    index,
    shard,
    id: String(shard.shard_id ?? `shard ${index}`),
    parents: family.parents[index],
    children: family.children[index],
    generation: generation[index],
    level: levelOf(shard, now, retention),
    guessed: false,
  }));
  const deepest = bars.reduce((most, bar) => Math.max(most, bar.generation), 0);
  const ranged = bars.some((bar) => known(bar.shard.from_key) || known(bar.shard.to_key));
  if (ranged) placeRanges(bars, family.order);
  else placeTree(bars, family.order);
  const timed = ranged && placeTimes(bars, family.order, now);
  if (!timed) placeGenerations(bars, deepest, ranged);
  for (const bar of bars) {
    bar.layer = (LAYERS[bar.shard.state] ?? 1) + (bar.shard.gap ? 6 : 0) + 12 * LEVELS.indexOf(bar.level);
  }
  const painted = [...bars].sort((a, b) => a.layer - b.layer || a.start - b.start || a.from - b.from);
  const ends = extremes(bars, timed ? now : deepest + 1);
  return {
    bars,
    order: family.order,
    axis: timed ? "time" : "generation",
    ranged,
    deepest,
    ...ends,
    painted: painted.map((bar) => bar.index),
    furthest: furthestOf(bars),
    rows: rowsOf(bars, deepest),
  };
}

/** How near a shard is to losing records: by what is left of the retention, a day where it is not known. */
export function levelOf(shard, now, retention) {
  if (!isInstant(shard.expires_ms)) return "ok";
  const left = (shard.expires_ms - now) / (isNumber(retention) && retention > 0 ? retention : DAY);
  if (left <= 0) return "lost";
  return left < 0.15 ? "bad" : left < 0.5 ? "warn" : "ok";
}

/** The bar at a place, or null; `nearX` and `nearY` widen each bar. Each generation is searched in half each step. */
export function barAt(layout, x, y, nearX, nearY) {
  let best = null;
  let nearest = Infinity;
  for (const { bars, reach } of layout.rows) {
    let low = 0;
    let high = bars.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bars[middle].from <= y + nearY) low = middle + 1;
      else high = middle;
    }
    for (let at = low - 1; at >= 0 && reach[at] >= y - nearY; at -= 1) {
      const bar = bars[at];
      const away = outside(x, bar.start, bar.end) / nearX + outside(y, bar.from, bar.to) / nearY;
      if (outside(x, bar.start, bar.end) > nearX || outside(y, bar.from, bar.to) > nearY) continue;
      if (away < nearest || (away === nearest && bar.layer > best.layer)) [best, nearest] = [bar, away];
    }
  }
  return best;
}

/** The bar that an arrow key leads to: a parent, a child, or the next one above or below at about the same time. */
export function neighbour(layout, bar, direction) {
  if (direction === "left") return middleOf(layout, bar.parents, bar);
  if (direction === "right") return middleOf(layout, bar.children, bar);
  const [from, to] = [bar.start, bar.end];
  const middle = (each) => (each.from + each.to) / 2;
  const place = (each) => middle(each) + each.index * 1e-12;
  let best = null;
  for (const other of layout.bars) {
    if (other === bar || !(other.start < to && from < other.end)) continue;
    const ahead = direction === "down" ? place(other) - place(bar) : place(bar) - place(other);
    if (ahead > 0 && (!best || ahead < best.ahead)) best = { other, ahead };
  }
  return best?.other ?? null;
}

/** The shards whose ids hold a text, in the order of the stream's own list; upper and lower case are the same. */
export function search(layout, text) {
  const wanted = text.trim().toLowerCase();
  return wanted ? layout.bars.filter((bar) => bar.id.toLowerCase().includes(wanted)) : [];
}

function known(value) {
  return isNumber(value) && value >= -1e-9 && value <= 1 + 1e-9;
}

function outside(value, from, to) {
  return value < from ? from - value : value > to ? value - to : 0;
}

function middleOf(layout, indexes, bar) {
  const wanted = (bar.from + bar.to) / 2;
  const away = (index) => Math.abs((layout.bars[index].from + layout.bars[index].to) / 2 - wanted);
  return indexes.length ? layout.bars[indexes.reduce((a, b) => (away(b) < away(a) ? b : a))] : null;
}

function furthestOf(bars) {
  const behind = bars.filter((bar) => isNumber(bar.shard.behind_ms) && bar.shard.behind_ms > 0);
  return behind.length ? behind.reduce((a, b) => (b.shard.behind_ms > a.shard.behind_ms ? b : a)).index : null;
}

function rowsOf(bars, deepest) {
  const rows = Array.from({ length: deepest + 1 }, () => []);
  for (const bar of bars) rows[bar.generation].push(bar);
  return rows.filter((row) => row.length).map((row) => {
    row.sort((a, b) => a.from - b.from);
    const reach = [];
    for (const bar of row) reach.push(Math.max(bar.to, reach.at(-1) ?? bar.to));
    return { bars: row, reach };
  });
}

function extremes(bars, fallback) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, 0, 1];
  for (const bar of bars) {
    [x0, x1] = [Math.min(x0, bar.start), Math.max(x1, bar.end)];
    [y0, y1] = [Math.min(y0, bar.from), Math.max(y1, bar.to)];
  }
  return x1 > x0 ? { x0, x1, y0, y1 } : { x0: fallback - 1, x1: fallback, y0, y1 };
}

// A range that is not known follows from the family: what the children cover, or what siblings leave of the parents.
function placeRanges(bars, order) {
  for (const bar of bars) {
    const { from_key: from, to_key: to } = bar.shard;
    bar.from = known(from) ? Math.min(1, Math.max(0, from)) : null;
    bar.to = known(to) ? Math.min(1, Math.max(0, to)) : null;
    if (bar.from !== null && bar.to !== null && bar.from > bar.to) [bar.from, bar.to] = [bar.to, bar.from];
    bar.guessed = bar.from === null || bar.to === null;
  }
  const whole = (bar) => bar.from !== null && bar.to !== null;
  for (const index of [...order].reverse()) {
    const bar = bars[index];
    const children = bar.children.map((child) => bars[child]).filter(whole);
    if (whole(bar) || !children.length) continue;
    take(bar, Math.min(...children.map((child) => child.from)), Math.max(...children.map((child) => child.to)));
  }
  for (const index of order) {
    const bar = bars[index];
    const parents = bar.parents.map((parent) => bars[parent]).filter(whole);
    if (whole(bar) || !parents.length) continue;
    const [from, to] = [Math.min(...parents.map((each) => each.from)), Math.max(...parents.map((each) => each.to))];
    const siblings = [...new Set(parents.flatMap((parent) => parent.children))].map((child) => bars[child]);
    const unknown = siblings.filter((sibling) => !whole(sibling));
    const taken = siblings.filter(whole).sort((a, b) => a.from - b.from);
    const [start, end] = largestHole(from, to, taken);
    const share = (end - start) / unknown.length;
    unknown.forEach((sibling, at) => take(sibling, start + at * share, start + (at + 1) * share));
  }
  const lost = bars.filter((bar) => !whole(bar));
  const height = Math.min(0.04, 0.3 / lost.length);
  lost.forEach((bar, at) => {
    if (bar.from !== null || bar.to !== null) take(bar, 0, 1);
    else take(bar, 1.02 + at * height, 1.02 + (at + 1) * height);
  });
  for (const bar of bars) if (bar.to <= bar.from) bar.to = bar.from + 1e-6;
}

// One bound that is known stays, if the other one still fits to it.
function take(bar, from, to) {
  if (bar.from !== null && bar.from < to) bar.to = to;
  else if (bar.to !== null && bar.to > from) bar.from = from;
  else [bar.from, bar.to] = [from, to];
}

function largestHole(from, to, taken) {
  let [best, at] = [[from, from], from];
  for (const each of [...taken, { from: to, to }]) {
    if (each.from - at > best[1] - best[0]) best = [at, each.from];
    at = Math.max(at, each.to);
  }
  return best[1] > best[0] ? best : [from, to];
}

// Every leaf has a line of its own, a shard with children covers theirs; the first parent counts.
function placeTree(bars, order) {
  const own = bars.map((bar) => bar.children.filter((child) => bars[child].parents[0] === bar.index));
  const begun = order.filter((index) => !bars[index].parents.length).reverse();
  let line = 0;
  while (begun.length) {
    const bar = bars[begun.pop()];
    bar.from = line;
    if (own[bar.index].length) begun.push(...[...own[bar.index]].reverse());
    else bar.to = line += 1;
  }
  for (const index of [...order].reverse()) {
    const bar = bars[index];
    bar.to ??= Math.max(...own[index].map((child) => bars[child].to));
  }
  for (const bar of bars) [bar.from, bar.to] = [bar.from / line, bar.to / line];
}

function placeGenerations(bars, deepest, ranged) {
  for (const bar of bars) {
    const ended = bar.children.length || !ranged || bar.shard.state === "completed";
    [bar.start, bar.end] = [bar.generation, ended ? bar.generation + 1 : deepest + 1];
  }
}

// A shard closes when its children open. Times that are still open are spread over what the known ones leave.
function placeTimes(bars, order, now) {
  for (const bar of bars) {
    bar.opened = isInstant(bar.shard.opened_ms) ? bar.shard.opened_ms : null;
    bar.closed = isInstant(bar.shard.closed_ms) ? bar.shard.closed_ms : null;
  }
  for (const index of order) {
    const bar = bars[index];
    const closings = bar.parents.map((parent) => bars[parent].closed).filter((at) => at !== null);
    if (bar.opened === null && closings.length) bar.opened = Math.max(...closings);
  }
  const later = bars.filter((bar) => bar.parents.length);
  const times = bars.flatMap((bar) => [bar.opened, bar.closed]).filter((at) => at !== null);
  if (!times.length || later.filter((bar) => bar.opened !== null).length * 2 < later.length) return false;
  const last = times.reduce((most, at) => Math.max(most, at), now);
  const least = times.reduce((a, b) => Math.min(a, b));
  if (last <= least) return false;
  // The oldest shards were there before anything is known of them.
  const first = bars.some((bar) => bar.opened === null && !bar.parents.length) ? least - (last - least) * 0.12 : least;
  const step = (last - first) / 250;
  const bound = bars.map(() => ({ at: last, steps: 1 }));
  for (const index of [...order].reverse()) {
    for (const child of bars[index].children) {
      const { opened } = bars[child];
      const at = opened ?? bound[child].at;
      const steps = opened === null ? bound[child].steps + 1 : 1;
      const held = bound[index];
      if (at < held.at || (at === held.at && steps > held.steps)) bound[index] = { at, steps };
    }
  }
  for (const index of order) {
    const bar = bars[index];
    const after = bar.parents.reduce((most, parent) => Math.max(most, bars[parent].opened + step), first);
    if (bar.opened === null) {
      bar.guessed ||= bar.parents.length > 0;
      const spare = Math.max(0, bound[index].at - after);
      bar.opened = bar.parents.length ? after + (spare * 0.9) / (bound[index].steps + 1) : first;
    }
    if (bar.parents.length) bar.opened = Math.max(bar.opened, after);
  }
  for (const bar of bars) {
    const next = bar.children.reduce((least, child) => Math.min(least, bars[child].opened), Infinity);
    const read = bar.shard.state === "completed" && isInstant(bar.shard.updated_at_ms) ? bar.shard.updated_at_ms : last;
    bar.start = bar.opened;
    bar.end = Math.max(bar.start + step / 4, Math.min(bar.closed ?? (next < Infinity ? next : read), next));
  }
  return true;
}
