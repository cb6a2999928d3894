// SPDX-License-Identifier: Apache-2.0
// Run by test_drawing_layouts.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { batchRows, linesOf, pauses, summaryOf } from "../../../plugins/shardbatch_plugin/static/batch_rows.js";
import { completenessText, daysOf } from "../../../plugins/shardbatch_plugin/static/completeness.js";
import { records } from "../../../plugins/shardbatch_plugin/static/drawing.js";
import {
  about, barScale, bytes, duration, instant, timeTicks, valueScale,
} from "../../../plugins/shardbatch_plugin/static/drawing_text.js";
import {
  barAt, levelOf, lineageLayout, neighbour, search,
} from "../../../plugins/shardbatch_plugin/static/lineage_layout.js";
import { columnsOf, holding, newest, within, zoomed } from "../../../plugins/shardbatch_plugin/static/timeline_view.js";
import { batches, hours, NOW, oddShards, RETENTION, shardId, shards } from "../../support/drawings/generated.js";

const HOUR = 3600 * 1000;
const laidOut = (answer) => lineageLayout(records(answer), answer.now_ms, answer.retention_ms);
const large = laidOut(shards());
const byId = (layout, id) => layout.bars.find((bar) => bar.id === id);
const shard = (shard_id, parents, from_key, to_key, opened_ms, closed_ms, more) => ({
  shard_id, parents, from_key, to_key, opened_ms, closed_ms, state: "held", ...more,
});

function assertSound(layout) {
  for (const bar of layout.bars) {
    assert.ok([bar.start, bar.end, bar.from, bar.to].every(Number.isFinite), `${bar.id} has a place`);
    assert.ok(bar.end > bar.start && bar.to > bar.from, `${bar.id} has a size`);
    assert.ok(bar.start >= layout.x0 && bar.end <= layout.x1, `${bar.id} is in view`);
    assert.ok(bar.from >= layout.y0 && bar.to <= layout.y1, `${bar.id} is in view`);
    for (const parent of bar.parents) {
      assert.ok(layout.bars[parent].start < bar.start, `${bar.id} begins right of its parent`);
      assert.ok(layout.bars[parent].end <= bar.start + 1e-6, `${bar.id} begins where its parent ends`);
    }
  }
}

for (const [name, options, axis, ranged] of [
  ["5,000 shards", {}, "time", true],
  ["without times", { times: false, total: 1000, open: 250 }, "generation", true],
  ["without ranges", { ranges: false, total: 1000, open: 250 }, "generation", false],
  ["one shard", { total: 1 }, "time", true],
]) {
  test(`a lineage stands right of its parents: ${name}`, () => {
    const layout = name === "5,000 shards" ? large : laidOut(shards(options));
    assert.equal(layout.bars.length, options.total ?? 5000);
    assert.deepEqual([layout.axis, layout.ranged], [axis, ranged]);
    assertSound(layout);
  });
}

test("a stream without shards has an empty view", () => {
  const layout = lineageLayout([], NOW);
  assert.deepEqual([layout.bars, layout.furthest], [[], null]);
  assert.ok(layout.x1 > layout.x0 && layout.y1 > layout.y0);
  assert.equal(barAt(layout, 0.5, 0.5, 0.1, 0.1), null);
});

test("odd rows are drawn: circles, missing parents, turned ranges and times", () => {
  const layout = laidOut(oddShards());
  assertSound(layout);
  assert.deepEqual(byId(layout, "circle-a").parents, []);
  assert.deepEqual(byId(layout, "circle-b").parents, [0]);
  assert.deepEqual(byId(layout, "orphan").parents, []);
  assert.deepEqual(byId(layout, "own-parent").parents, [4]);
  assert.deepEqual([byId(layout, "turned").from, byId(layout, "turned").to], [0.25, 0.5]);
  assert.ok(byId(layout, "no-range").from > 1);
});

test("equal times fall back to generations", () => {
  const children = [shard("b", ["a"], 0, 0.5, NOW, null), shard("c", ["a"], 0.5, 1, NOW, null)];
  const rows = [shard("a", [], 0, 1, NOW, NOW), ...children];
  const layout = lineageLayout(rows, NOW);
  assert.equal(layout.axis, "generation");
  assertSound(layout);
});

test("the halves of a split whose ranges are unknown share what is left of the parent", () => {
  const rows = [
    shard("p", [], 0, 0.6, NOW - HOUR, NOW), shard("a", ["p"], 0, 0.2, NOW, null),
    shard("b", ["p"], null, null, NOW, null), shard("c", ["p"], null, null, NOW, null),
    shard("q", [], null, null, NOW - HOUR, NOW),
    shard("d", ["q"], 0.6, 0.8, NOW, null), shard("e", ["q"], 0.8, 1, NOW, null),
  ];
  const layout = lineageLayout(rows, NOW + HOUR);
  const ranges = layout.bars.map(({ id, from, to, guessed }) => [id, from.toFixed(3), to.toFixed(3), guessed]);
  assert.deepEqual(ranges, [
    ["p", "0.000", "0.600", false], ["a", "0.000", "0.200", false], ["b", "0.200", "0.400", true],
    ["c", "0.400", "0.600", true], ["q", "0.600", "1.000", true], ["d", "0.600", "0.800", false],
    ["e", "0.800", "1.000", false],
  ]);
});

test("times that are unknown lie between those of the family", () => {
  const rows = [
    shard("old", [], 0, 1, null, NOW - 8 * HOUR), shard("next", ["old"], 0, 1, null, null),
    shard("late", ["next"], 0, 1, NOW - 2 * HOUR, null),
  ];
  const [old, next, late] = lineageLayout(rows, NOW).bars;
  assert.ok(old.start < NOW - 8 * HOUR && !old.guessed);
  const hours = [old.end, next.start, next.end, late.start, late.end].map((at) => (at - NOW) / HOUR);
  assert.deepEqual(hours, [-8, -8, -2, -2, 0]);
});

test("the bar at a place is found, thin ones with their surroundings", () => {
  const layout = large;
  for (const bar of layout.bars.filter((_, index) => index % 37 === 0)) {
    const found = barAt(layout, (bar.start + bar.end) / 2, (bar.from + bar.to) / 2, 1, 1e-9);
    assert.ok(found.start <= (bar.start + bar.end) / 2 && found.end >= (bar.start + bar.end) / 2);
    assert.ok(found.from <= (bar.from + bar.to) / 2 && found.to >= (bar.from + bar.to) / 2);
  }
  const last = layout.bars.at(-1);
  assert.equal(barAt(layout, (last.start + last.end) / 2, last.from + (last.to - last.from) * 0.3, 1, 1e-12), last);
  assert.equal(barAt(layout, layout.x1 + HOUR, 0.5, 1, 0.001), null);
  const spans = [[0, 0.7], [0.1, 0.2], [0.3, 0.4], [0.8, 0.9]];
  const beside = lineageLayout(spans.map(([from, to], at) => shard(`s${at}`, [], from, to, NOW - HOUR, null)), NOW);
  const found = [0.5, 0.798, 0.902, 0.75].map((y) => barAt(beside, NOW - HOUR / 2, y, 1, 0.005)?.id ?? null);
  assert.deepEqual(found, ["s0", "s3", "s3", null]);
});

test("arrow keys lead to parents, children and the shards beside", () => {
  const rows = [
    shard("top", [], 0, 0.5, NOW - 4 * HOUR, NOW - 2 * HOUR), shard("foot", [], 0.5, 1, NOW - 4 * HOUR, null),
    shard("left", ["top"], 0, 0.25, NOW - 2 * HOUR, null), shard("right", ["top"], 0.25, 0.5, NOW - 2 * HOUR, null),
  ];
  const layout = lineageLayout(rows, NOW);
  const [top, foot, left, right] = layout.bars;
  assert.equal(neighbour(layout, left, "left"), top);
  assert.ok([left, right].includes(neighbour(layout, top, "right")));
  assert.equal(neighbour(layout, left, "down"), right);
  assert.equal(neighbour(layout, right, "down"), foot);
  assert.equal(neighbour(layout, right, "up"), left);
  assert.equal(neighbour(layout, left, "up"), null);
  assert.equal(neighbour(layout, foot, "left"), null);
});

test("what needs a person is painted last, and the shard furthest behind is known", () => {
  const layout = large;
  assert.equal(layout.bars[layout.painted.at(-1)].level, "lost");
  assert.equal(layout.bars[layout.painted[0]].shard.state, "completed");
  const most = Math.max(...layout.bars.map((bar) => bar.shard.behind_ms));
  assert.equal(layout.bars[layout.furthest].shard.behind_ms, most);
  const levels = [0.9, 0.49, 0.14, 0].map((part) => levelOf({ expires_ms: NOW + part * RETENTION }, NOW, RETENTION));
  assert.deepEqual(levels, ["ok", "warn", "bad", "lost"]);
  assert.equal(levelOf({ expires_ms: null }, NOW, RETENTION), "ok");
});

test("a search finds parts of ids in either case", () => {
  const layout = laidOut(shards({ total: 40, open: 12, levels: 4 }));
  assert.deepEqual(search(layout, " SHARDID-000000000007 ").map((bar) => bar.id), [shardId(7)]);
  assert.equal(search(layout, "0001").length, 11);
  assert.deepEqual([search(layout, ""), search(layout, "x")], [[], []]);
});

test("batches have an order, a kind, durations and a lag", () => {
  const rows = batchRows(batches());
  assert.equal(rows.length, 500);
  assert.ok(rows.every((row, at) => !at || rows[at - 1].created <= row.created));
  const kinds = [1, 2, 9, 17, 3].map((back) => rows.at(-back).kind);
  assert.deepEqual(kinds, ["undecided", "parked", "set_aside", "void", "committed"]);
  const plain = { batch_id: "b", state: "COMMITTED", created_at_ms: NOW, committed_at_ms: NOW + 9000 };
  const [row] = batchRows([{ ...plain, max_arrival_ms: NOW - 1000, claim_s: 1, work_s: 2.5 }]);
  assert.deepEqual([row.steps, row.whole, row.lag], [[1000, null, null, 2500, null], 3500, 10000]);
  const [unknown] = batchRows([plain]);
  assert.deepEqual([unknown.whole, unknown.lag], [9000, null]);
  assert.deepEqual(pauses(rows), [{ index: 300, ms: 7 * HOUR + 300000 }]);
  assert.match(summaryOf(rows), /^500 batches from .* 1 parked, 1 set aside, 1 void, 1 undecided, 496 committed\./);
  assert.equal(summaryOf([]), "There are no batches yet.");
  assert.ok(linesOf(batchRows([{}])[0]).includes("duration: unknown"));
});

test("a window of the timeline stays within the batches", () => {
  assert.deepEqual(newest(500, 1600), { from: 400, to: 500 });
  assert.deepEqual(newest(5, 1600), { from: 0, to: 5 });
  assert.deepEqual(within({ from: -20, to: 20 }, 500, 1600), { from: 0, to: 40 });
  assert.deepEqual(within({ from: 490, to: 530 }, 500, 1600), { from: 460, to: 500 });
  const near = zoomed({ from: 400, to: 500 }, 0.5, 450, 500, 1600);
  assert.deepEqual(near, { from: 425, to: 475 });
  assert.deepEqual(zoomed(near, 0.001, 450, 500, 1600), { from: 448.5, to: 451.5 });
  assert.deepEqual(holding({ from: 400, to: 500 }, 300, 500, 1600), { from: 300, to: 400 });
  assert.deepEqual(holding({ from: 100, to: 200 }, 300, 500, 1600), { from: 201, to: 301 });
  const columns = columnsOf({ from: 400, to: 500 }, 74, 1600);
  assert.deepEqual([columns.each, columns.x(410), columns.at(234)], [16, 234, 410]);
});

test("axes are logarithmic where the range demands it, and bars are cut off where a few are far longer", () => {
  const even = valueScale([10, 20, 30]);
  assert.deepEqual([even.log, even.at(0), even.at(30) > 0.9, even.ticks], [false, 0, true, [0, 10, 20, 30]]);
  const wide = valueScale([10, 1000, 1e6]);
  assert.ok(wide.log && wide.at(10) < wide.at(1000) && wide.at(1000) < wide.at(1e6) && wide.at(0) === 0);
  assert.ok(wide.ticks.length <= 6 && wide.ticks.every((tick) => Number.isInteger(Math.log10(tick))));
  assert.ok(valueScale([1, 200, 201]).log && valueScale([10, 10, 151]).log && !valueScale([1, 140, 150]).log);
  const cut = barScale([...Array.from({ length: 20 }, () => 10), 1000]);
  assert.deepEqual([cut.cut(1000), cut.cut(10), cut.at(1000), cut.at(10) > 0.4], [true, false, 1, true]);
  for (const none of [valueScale([]), valueScale([null, NaN, 0]), barScale([])]) {
    assert.ok(none.ticks.length && Number.isFinite(none.at(0)));
  }
  const values = [0, 1, 2, 3, 4, 5, 6].map((hour) => NOW + hour * HOUR);
  assert.deepEqual(timeTicks(NOW, NOW + 6 * HOUR, 6), { step: HOUR, values });
});

test("numbers and times are told as people read them", () => {
  const told = [0, 850, 1234, 59999, 61000, 3600000, 2 * 86400000 + 3 * HOUR, -5000, null].map(duration);
  assert.deepEqual(told, ["0 ms", "850 ms", "1.23 s", "1 min", "1 min 1 s", "1 h", "2 d 3 h", "−5 s", "unknown"]);
  assert.deepEqual([0, 999, 12345, 1e6].map(about), ["0", "999", "12.3 k", "1 M"]);
  assert.equal(bytes(1536), "1.54 kB");
  assert.deepEqual([instant(NOW), instant(null), instant(1e99)], ["2026-11-28 12:00:00 UTC", "unknown", "unknown"]);
});

test("hours stand in the rows of their days", () => {
  const answer = hours();
  const days = daysOf(answer.hours);
  assert.deepEqual(days.map(({ cells }) => cells.filter(Boolean).length), [11, 24, 24, 13]);
  assert.equal(days[2].cells[16].state, "gap");
  const told = "Of the last 72 hours: 63 complete, 3 open, 1 gap, 5 before. The watermark is 2026-11-28 09:36:00 UTC.";
  assert.equal(completenessText(answer), told);
  assert.equal(completenessText({}), "No hours are known yet.");
});
