// SPDX-License-Identifier: Apache-2.0
// The page as a whole. It stands in a shadow root, so that neither Airflow's styles nor ours reach the other's
// elements.
import { openDialog } from "./act.js";
import { Api, ApiError } from "./api.js";
import * as application from "./application.js";
import * as applications from "./applications.js";
import * as batch from "./batch.js";
import { rowsOf } from "./choose.js";
import { clear, draw, h } from "./dom.js";
import { clock } from "./format.js";
import { Live } from "./live.js";
import { airflowLink, banner } from "./parts.js";
import * as place from "./place.js";
import { address, format, ofPlace, parse } from "./router.js";
import * as shard from "./shard.js";

const STYLE = fetch(new URL("streams.css", import.meta.url)).then(async (answer) => {
  const sheet = new CSSStyleSheet();
  return sheet.replace(answer.ok ? await answer.text() : "");
});
const VIEWS = { application, batch, shard };
const HOME = new URL("../", import.meta.url);
const MOST_ANSWERS = 30;
const BROKEN = {
  level: "error",
  text: "The page failed to draw this:",
  remedy: "Reload it. If this stays, the browser's console has the place in the code.",
};
const TYPED = "input, select, textarea, dialog";

export class Page {
  constructor(of) {
    this.of = Object.values(of).some((value) => value !== null) ? of : null;
    this.airflow = new URL("../", HOME);
    this.everywhere = new URL("plugin/streams", this.airflow).href;
    this.api = new Api(new URL("api/", HOME));
    this.answers = new Map();
    this.kept = new Map();
    this.remembered = new Map();
    this.live = new Live((signal) => this.ask(signal));
    this.asked = { at: null, failed: false };
    this.route = { view: "home" };
    this.build();
  }

  build() {
    this.host = document.createElement("div");
    this.root = this.host.attachShadow({ mode: "open" });
    this.body = document.createElement("main");
    this.body.className = "page";
    this.body.hidden = true; // shown without its style it would jump
    this.root.append(this.body);
    // A link element would be loaded anew, and all scroll positions lost, whenever the page moves over.
    const adopt = (sheet) => (this.root.adoptedStyleSheets = [sheet, ...this.root.adoptedStyleSheets]);
    STYLE.then(adopt).finally(() => {
      this.body.hidden = false; // without its style it is still of use
      this.drawNow();
    });
    // Airflow's keys must not act on what a person types here: it sees all events of the shadow root as the host's.
    for (const name of ["keydown", "keyup", "keypress"]) {
      this.root.addEventListener(name, (event) => {
        if (event.target.closest?.(TYPED)) event.stopPropagation();
      });
    }
    this.themes = new MutationObserver(() => this.dress());
    this.onMove = () => this.moved();
  }

  enter(element) {
    element.append(this.host);
    this.dress();
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    addEventListener("popstate", this.onMove);
    addEventListener("hashchange", this.onMove);
    for (const [node, top, left] of this.scrolled || []) node.scrollTo(left, top);
    for (const dialog of this.root.querySelectorAll("dialog")) {
      dialog.removeAttribute("open"); // leaving the document took it from the top layer
      dialog.showModal();
    }
    this.route = this.routeNow();
    this.draw();
    this.live.start();
  }

  leave() {
    this.live.stop();
    removeEventListener("popstate", this.onMove);
    removeEventListener("hashchange", this.onMove);
    this.themes.disconnect();
    const seen = [...this.root.querySelectorAll(".scroll")].filter((node) => node.scrollTop || node.scrollLeft);
    this.scrolled = seen.map((node) => [node, node.scrollTop, node.scrollLeft]);
    this.host.remove();
  }

  end() {
    this.ended = true;
    clear(this.body);
  }

  dress() {
    const { classList } = document.documentElement;
    const dark =
      classList.contains("dark") ||
      (!classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    this.host.dataset.theme = dark ? "dark" : "light";
  }

  // ------------------------------------------------------------------ where

  get view() {
    if (this.route.view !== "home") return VIEWS[this.route.view];
    return this.of ? place : applications;
  }

  routeNow() {
    const route = parse(location.hash);
    if (route.view !== "home" || !this.of) return route;
    const found = this.answer("place").data?.places;
    return found?.length === 1 ? ofPlace(found[0]) : { view: "home" };
  }

  moved() {
    const route = this.routeNow();
    if (format(route) === format(this.route)) return;
    const other = route.view !== this.route.view || route.view !== "application";
    this.route = route;
    this.draw();
    if (other) queueMicrotask(() => this.body.querySelector("h1")?.focus({ preventScroll: true }));
    this.live.now();
  }

  link(route) {
    return location.href.split("#")[0] + format(route);
  }

  go(route) {
    location.hash = format(route);
  }

  // ------------------------------------------------------------------ what is known

  needs() {
    const needed = this.view.needs(this.route);
    return this.of ? [["place", "place", this.of], ...needed] : needed;
  }

  known(name) {
    const needed = this.needs().find(([one]) => one === name);
    return (needed && this.answers.get(JSON.stringify(needed.slice(1)))) || {};
  }

  /** What the server answered last, and the error since, unless the view tells the same one on top already. */
  answer(name) {
    const found = this.known(name);
    const told = name !== "application" && this.known("application").error;
    return told && told.message === found.error?.message ? { ...found, error: undefined } : found;
  }

  async ask(signal) {
    let changed = false;
    let failed = false;
    const one = async ([, path, query]) => {
      const key = JSON.stringify([path, query]);
      const before = this.answers.get(key);
      let after;
      try {
        after = await this.api.get(path, query, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        failed = true;
        after = { ...before, error };
      }
      if (signal.aborted) return;
      if (before?.data && after.timeless === before.timeless && after.data !== before.data) {
        before.data.now_ms = after.data.now_ms;
        after.data = before.data; // what was drawn of it is not drawn again
      }
      changed ||= after.lasting !== before?.lasting;
      this.answers.delete(key);
      this.answers.set(key, after);
      if (path === "place") this.moved();
      this.draw();
    };
    await Promise.all(this.needs().map(one));
    if (signal.aborted) return {};
    for (const key of [...this.answers.keys()].slice(0, -MOST_ANSWERS)) this.answers.delete(key);
    this.asked = { at: Date.now(), failed };
    this.draw();
    return { working: this.working(), changed, failed };
  }

  working() {
    const listed = this.answer("applications").data?.applications || [];
    const shown = this.answer("application").data?.application;
    return [...listed, ...(shown ? [shown] : [])].some((one) => one.running.length > 0);
  }

  /** The server's clock, as far as an answer told it. */
  now() {
    return this.answer("application").data?.now_ms ?? this.answer("applications").data?.now_ms ?? Date.now();
  }

  rows(name) {
    const { data } = this.answer(name);
    return this.remember(`rows-${name}`, [data], () => rowsOf(data));
  }

  /** What was made of the same things before, or what is made of them now. */
  remember(name, of, makeIt) {
    const before = this.remembered.get(name);
    if (before && before.of.every((one, at) => one === of[at])) return before.made;
    const made = makeIt();
    this.remembered.set(name, { of, made });
    return made;
  }

  get application() {
    return this.answer("application").data;
  }

  // ------------------------------------------------------------------ what a person chose

  slot(name) {
    const { view, tab, ...of } = this.route;
    return JSON.stringify([view, of, name]);
  }

  get(name) {
    return this.kept.get(this.slot(name));
  }

  set(name, value) {
    this.kept.set(this.slot(name), value);
    this.draw();
  }

  act(verb, values) {
    const { api, airflow, root } = this;
    const done = () => this.live.now();
    openDialog(root, { verb, values, address: address(this.route), api, airflow, done });
  }

  // ------------------------------------------------------------------ how it looks

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    queueMicrotask(() => this.drawNow());
  }

  drawNow() {
    this.drawing = false;
    if (this.ended || this.body.hidden) return;
    const key = format({ ...this.route, tab: "" });
    try {
      draw(this.body, [this.bar(), this.ofRun(), h("div", { key, class: "view" }, this.view.view(this))]);
    } catch (error) {
      draw(this.body, [h("div", { key: "broken" }, banner({ ...BROKEN, text: `${BROKEN.text} ${error.message}` }))]);
      throw error;
    }
  }

  bar() {
    const { at, failed } = this.asked;
    const working = this.working();
    const told = at === null ? "asking" : failed ? "not refreshed" : working ? "live" : "up to date";
    const crumbs = [h("a", { href: this.everywhere }, "All applications")];
    if (!this.of && this.route.view !== "home")
      crumbs[0] = h("a", { href: this.link({ view: "home" }) }, "All applications");
    if (!this.of && this.route.view === "home") crumbs.pop();
    if (this.of && this.route.view !== "home") crumbs.push(h("a", { href: this.wholePage() }, "Open as a page"));
    return h(
      "div",
      { class: "bar", key: "bar" },
      h("nav", { "aria-label": "Where you are" }, crumbs),
      h(
        "span",
        { class: "live", title: at === null ? "" : `Asked at ${clock(at, Date.now())} UTC` },
        h("span", { class: failed ? "dot bad" : working ? "dot on" : "dot", "aria-hidden": "true" }),
        told,
      ),
      h("button", { type: "button", class: "plain", onclick: () => this.live.now() }, "Refresh"),
    );
  }

  wholePage() {
    return this.everywhere + format(this.route);
  }

  /** What is wrong with the run or the task on whose page this stands. */
  ofRun() {
    const found = this.answer("place").data?.banner;
    if (!found) return null;
    const { dag_id, run_id, task_id, map_index } = this.of;
    const itself = found.task_id === task_id;
    const task = found.task_id && run_id && { dag_id, run_id, ...found, map_index: itself ? map_index : null };
    return h("div", { key: "of-run" }, banner(found, task && airflowLink(this.airflow, task, found.task_id)));
  }
}
