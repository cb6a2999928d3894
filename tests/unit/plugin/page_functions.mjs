// SPDX-License-Identifier: Apache-2.0
// Run by test_page_functions.py: the page's pure functions, in Node.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

const at = (name) => import(new URL(`../../../plugins/shardbatch_plugin/static/${name}.js`, import.meta.url));
const { Api, ApiError } = await at("api");
const applications = await at("applications");
const { NO_FILTER, chosen, counts, rowsOf, windowOf } = await at("choose");
const { decoded } = await at("decode");
const format = await at("format");
const { Live } = await at("live");
const { SLOWEST_MS, lasting, pause, timeless } = await at("pace");
const router = await at("router");
const suited = await at("suited");
const { troubles } = await at("troubles");

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test("lengths of time have two units at most", () => {
  const told = [null, 0, 12, 59_999, 125_000, 12 * MINUTE + 5_000, 3 * HOUR + 10 * MINUTE, 2 * DAY + 4 * HOUR, DAY];
  assert.deepEqual(told.map(format.duration), [
    "unknown",
    "0 s",
    "under 1 s",
    "59 s",
    "2 min 5 s",
    "12 min",
    "3 h 10 min",
    "2 d 4 h",
    "1 d",
  ]);
  assert.equal(format.ago(0, 125_000), "2 min ago");
  assert.equal(format.ago(HOUR + 5_000, 0), "in 1 h");
  assert.equal(format.behind(130_000), "2 min 10 s behind");
  assert.equal(format.untilLoss(3 * HOUR), "3 h until data loss");
  assert.equal(format.untilLoss(0), "records may be lost");
});

test("what is left of the retention makes the level", () => {
  const level = (left) => format.lossLevel(left, DAY);
  assert.deepEqual([null, 0, -1, 0.1 * DAY, 0.15 * DAY, 0.49 * DAY, 0.5 * DAY].map(level), [
    "none",
    "lost",
    "lost",
    "bad",
    "warn",
    "warn",
    "ok",
  ]);
});

test("numbers and instants are read by people", () => {
  assert.equal(format.count(1234567), "1,234,567");
  assert.equal(format.counted(1, "batch", "batches"), "1 batch");
  assert.equal(format.bytes(1023), "1023 B");
  assert.equal(format.bytes(1536 * 1024), "1.5 MiB");
  assert.equal(format.utc(1764374400123), "2025-11-29 00:00:00.123 UTC");
  assert.equal(format.keyRange(0.25, 0.5), "25–50 %");
  assert.equal(format.keyRange(0.0002, 0.0004), "0.020–0.040 %");
  assert.equal(format.position("49590338271490256608559692538361571095921575989136588898"), "4959…9136588898");
  assert.equal(format.position("TRIM_HORIZON"), "TRIM_HORIZON");
});

test("an owner is told by its DAG and its run", () => {
  const text = "prod-eu/orders%2Fetl/manual__2026-11-29T00:00:00+00:00/batch/incremental";
  assert.equal(format.ownerShort(text), "orders/etl · manual__2026-11-29T00:00:00+00:00");
  assert.equal(format.ownerShort("reset:ab12:taken"), "a reset");
  assert.equal(format.ownerParts("ana"), null);
  assert.equal(format.ownerParts("a/%zz/c/d/e"), null);
});

test("every view has an address that leads back to it", () => {
  const of = { store: "a1", app_name: "orders/etl", stream_name: "ords %ä" };
  const views = [
    { view: "home" },
    ...router.TABS.map((tab) => ({ view: "application", ...of, tab })),
    { view: "batch", ...of, batch_id: "20261128t1-8d" },
    { view: "shard", ...of, shard_id: "shardId-0/1" },
  ];
  for (const view of views) assert.deepEqual(router.parse(router.format(view)), view);
  for (const hash of ["", "#", "#/other", "#/app/a/b", "#/app/%zz/b/c"]) assert.equal(router.parse(hash).view, "home");
});

test("what Airflow has no value for counts as not given", () => {
  assert.deepEqual([undefined, null, "", "{MAP_INDEX}", 0, "a"].map(router.given), [null, null, null, null, "0", "a"]);
});

const shard = (shard_id, more) => ({
  shard_id,
  state: "held",
  owner: "",
  behind_ms: 0,
  expires_ms: null,
  gap: false,
  waits_for: null,
  batch_id: null,
  updated_at_ms: 0,
  ...more,
});
const SHARDS = [
  shard("s-1", { behind_ms: 5 * MINUTE, expires_ms: 300, owner: "d/orders/run1/g/incremental" }),
  shard("s-2", { state: "completed", behind_ms: HOUR }),
  shard("s-3", { behind_ms: null, expires_ms: 100, gap: true, waits_for: "a person" }),
  shard("s-4", { state: "frozen", expires_ms: 200, behind_ms: HOUR, batch_id: "b-9" }),
];
const ids = (filter) =>
  chosen(SHARDS, { ...NO_FILTER, ...filter })
    .map((one) => one.shard_id)
    .join(" ");

test("shards are filtered and sorted, and what is not known is last both ways", () => {
  assert.equal(ids({}), "s-3 s-4 s-1 s-2");
  assert.equal(ids({ down: true }), "s-1 s-4 s-3 s-2");
  assert.equal(ids({ sort: "behind" }), "s-2 s-4 s-1 s-3");
  assert.equal(ids({ state: "open", sort: "shard" }), "s-1 s-3 s-4");
  assert.equal(ids({ lag: 10 * MINUTE }), "s-4");
  assert.equal(ids({ gap: true }), "s-3");
  assert.equal(ids({ waits: true }), "s-3");
  assert.equal(ids({ owner: SHARDS[0].owner }), "s-1");
  assert.equal(ids({ text: " ORDERS" }), "s-1");
  assert.equal(ids({ text: "b-9" }), "s-4");
  assert.deepEqual(counts(SHARDS).states, { held: 2, completed: 1, frozen: 1 });
  assert.deepEqual(
    counts(SHARDS).owners.map((one) => [one.name, one.shards]),
    [["orders · run1", 1]],
  );
});

test("columns become rows, and only those in sight are drawn", () => {
  assert.deepEqual(rowsOf({ columns: ["a", "b"], rows: [[1, 2]] }), [{ a: 1, b: 2 }]);
  assert.deepEqual(windowOf({ top: 3400, height: 340, rowHeight: 34, length: 5000, beside: 2 }), {
    first: 98,
    last: 112,
  });
  assert.deepEqual(windowOf({ top: 9999, height: 340, rowHeight: 34, length: 3, beside: 2 }), { first: 3, last: 3 });
});

test("records are decoded, and it is told where they cannot be", () => {
  const base64 = (data) => Buffer.from(data).toString("base64");
  assert.deepEqual(decoded(base64('{"a":"ä"}'), "json"), { text: '{\n  "a": "ä"\n}', note: "" });
  assert.equal(decoded(base64("plain"), "json").text, "plain");
  assert.match(decoded(base64("plain"), "json").note, /not JSON/);
  assert.match(decoded(base64([0xff, 0x41]), "text").note, /not UTF-8/);
  assert.equal(decoded(base64([0xff, 0x41]), "hex").text, `000000  ${"ff 41".padEnd(47)}  .A`);
});

test("verbs suit what is looked at", () => {
  assert.deepEqual(suited.ofBatch({ state: "PARKED" }), ["unpark", "set-aside", "drop"]);
  assert.deepEqual(suited.ofBatch({ state: "COMMITTED", set_aside: "kept" }), ["replay", "drop"]);
  assert.deepEqual(suited.ofBatch({ state: "COMMITTED", retired_ms: 1 }), []);
  assert.deepEqual(suited.ofShard({ state: "held", owner: "a", pending_gap: true }), [
    "accept-gap",
    "release",
    "reset",
  ]);
  const verb = {
    arguments: [
      { name: "batch_id", required: true },
      { name: "shards", many: true },
      { name: "force", switch: true },
    ],
  };
  assert.deepEqual(suited.filled(verb, { batch_id: " b ", shards: "s1, s2\ns3", force: false }), {
    batch_id: "b",
    shards: ["s1", "s2", "s3"],
  });
  assert.deepEqual(
    suited.missing(verb, {}).map((one) => one.name),
    ["batch_id"],
  );
});

test("the page asks often while a run works, and ever less while nothing changes", () => {
  const quiet = { working: false, changed: false, failed: false, tookMs: 50 };
  let before = 5000;
  for (let turn = 0; turn < 10; turn += 1) before = pause({ ...quiet, before });
  assert.equal(before, 30_000);
  assert.equal(pause({ ...quiet, working: true, before }), 2000);
  assert.equal(pause({ ...quiet, working: true, tookMs: 4000, before }), 12_000);
  assert.equal(pause({ ...quiet, changed: true, before }), 5000);
  assert.equal(pause({ ...quiet, working: true, failed: true, before: 2000 }), 4000);
  assert.equal(lasting('{"now_ms": 12, "a": 1}'), lasting('{"now_ms": 99, "a": 1}'));
  assert.equal(timeless('{"now_ms":12,"behind_ms":1}'), timeless('{"now_ms":13,"behind_ms":1}'));
  assert.notEqual(timeless('{"now_ms":12,"behind_ms":1}'), timeless('{"now_ms":12,"behind_ms":2}'));
  assert.notEqual(lasting('{"a": 1}'), lasting('{"a": 2}'));
});

test("what needs a person comes by its urgency, and work under way does not", () => {
  const application = { retention_ms: DAY, running: [{ run_id: "r" }] };
  const none = { unfinished: [], set_aside: [], possible_orphans: [] };
  const batch = { batch_id: "b", state: "FROZEN", records: 2, attempt: 1, created_at_ms: 0 };
  const of = (unfinished, shards, of = application) =>
    troubles({ application: of, status: { ...none, unfinished, intervals: none }, shards, nowMs: HOUR }).map(
      (one) => one.level,
    );
  assert.deepEqual(of([batch], []), []);
  assert.deepEqual(of([batch], [], { ...application, running: [] }), ["warn"]);
  assert.deepEqual(
    of(
      [
        { ...batch, attempt: 2 },
        { ...batch, state: "PARKED" },
      ],
      [],
    ),
    ["error", "warn"],
  );
  const expires = (expires_ms) => shard("s", { expires_ms });
  assert.deepEqual(of([], [expires(HOUR + 0.4 * DAY), expires(HOUR), expires(HOUR + 0.1 * DAY), expires(2 * DAY)]), [
    "lost",
    "bad",
    "warn",
  ]);
  assert.deepEqual(of([], [shard("s", { gap: true, waits_for: "a person" })]), ["error"]);
});

const LATE_MS = 10_000;

/** A server that answers each path as it is told, and the client of the page in front of it. */
async function asked(answers, act) {
  const server = createServer((request, answer) => answers[new URL(request.url, "http://x").pathname](answer));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const late = setTimeout(() => server.closeAllConnections(), LATE_MS);
  try {
    return await act(new Api(`http://127.0.0.1:${server.address().port}/`, 300));
  } finally {
    clearTimeout(late);
    server.closeAllConnections();
    server.close();
  }
}

test("a server that does not answer is told as such, and a deed without an answer is not said to be tried again", async () => {
  const told = (status, text) => (answer) => answer.writeHead(status).end(text);
  const own = JSON.stringify({ error: "NoAnswer", message: "The store is slow.", remedy: "The page asks again." });
  const answers = {
    "/silent": () => {},
    "/gone": (answer) => answer.destroy(),
    "/proxy": told(502, "<html>Bad Gateway</html>"),
    "/late": told(504, own),
    "/page": told(200, "<html>Log in</html>"),
    "/out": told(401, '{"detail": "Not authenticated"}'),
  };
  const errors = {};
  const began = performance.now();
  await asked(answers, async (api) => {
    for (const name of Object.keys(answers)) {
      await assert.rejects(api.get(name.slice(1), {}), (error) => (errors[name] = error) instanceof ApiError);
    }
    await assert.rejects(api.get("silent", {}, AbortSignal.abort()), { name: "AbortError" });
  });
  assert.ok(performance.now() - began < LATE_MS, "the page itself ends a question that has no answer");
  const found = Object.values(errors).map(({ error }) => error);
  assert.deepEqual(found, ["Unreachable", "Unreachable", "Unreachable", "NoAnswer", "NotJson", "NotLoggedIn"]);
  assert.doesNotMatch(errors["/proxy"].message, /html/);
  for (const act of [answers["/silent"], answers["/gone"], answers["/proxy"], answers["/late"]]) {
    await asked({ "/act": act }, async (api) => {
      await assert.rejects(api.act({ preview: false }), { error: "NotKnown" });
      await assert.rejects(api.act({ preview: true }), (error) => error.error !== "NotKnown");
    });
  }
});

test("an error of the page itself does not end its refreshing", async (context) => {
  globalThis.document = Object.assign(new EventTarget(), { hidden: false });
  context.after(() => delete globalThis.document);
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let questions = 0;
  const live = new Live(async () => {
    questions += 1;
    return {};
  });
  live.running = true;
  const { ask } = live;
  live.ask = () => Promise.reject(new TypeError("of the page"));
  await assert.rejects(live.turn(), /of the page/);
  live.ask = ask;
  context.mock.timers.tick(SLOWEST_MS);
  assert.equal(questions, 1);
  live.stop();
  document.hidden = true;
  live.start();
  context.mock.timers.tick(10 * SLOWEST_MS);
  assert.equal(questions, 1, "a page that nobody sees asks nothing");
  live.stop();
});

test("of an application whose store does not answer nothing is known, and its error is told once", () => {
  const error = { message: "The lease store sql://leases has not answered.", remedy: "Look." };
  const application = {
    store: "s", app_name: "a", stream_name: "b", dags: [], running: [], error, problem: null, urgency: 0,
    unfinished: null, parked: null, set_aside: null, gaps: null, open_shards: null, last_commit_ms: null,
  };
  const data = {
    now_ms: 0, stores: [{ store: "s", label: "sql://leases", error }], applications: [application], not_known: [],
  };
  const context = {
    airflow: "http://x/", answer: () => ({ data }), get: () => undefined, link: router.format, set: () => {},
  };
  const words = (node) => (typeof node === "object" ? [node.children ?? []].flat(9).map(words).join("|") : String(node));
  const text = words({ children: applications.view(context) });
  assert.equal(text.split("sql://leases has not answered").length, 2, text);
  assert.doesNotMatch(text, /never|sql:\/\/leases: The/);
  assert.doesNotMatch(text, /\|none\|/);
});

test("help on the page does not speak of the command line", () => {
  const help = "Left unless --force is given. A preview unless --yes is given. Exit code 3: left.";
  assert.equal(suited.onPage(help), "Left unless force is given.");
  assert.equal(suited.onPage("This shard (may be repeated)"), "This shard");
  assert.equal(suited.onPage(undefined), "");
});

test("an address keeps whatever stands in its names", () => {
  for (const name of ["a/b", "50%", "ünïcode", "", "..", "#", "a b", "%2F"]) {
    const route = { view: "shard", store: "s", app_name: name, stream_name: name, shard_id: `x${name}` };
    assert.deepEqual(router.parse(router.format(route)), route);
  }
});
