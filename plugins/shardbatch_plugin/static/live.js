// SPDX-License-Identifier: Apache-2.0
// Asks again and again while the page is in sight, never twice at once.
import { QUIET_MS, pause } from "./pace.js";

/** A loop around `ask(signal)`, which returns `{working, changed, failed}`. */
export class Live {
  constructor(ask) {
    this.ask = ask;
    this.before = QUIET_MS;
    this.running = false;
    this.onSight = () => this.seen();
  }

  start() {
    if (this.running) return;
    this.running = true;
    document.addEventListener("visibilitychange", this.onSight);
    this.now();
  }

  stop() {
    this.running = false;
    document.removeEventListener("visibilitychange", this.onSight);
    this.cancel();
  }

  /** Asks at once, and drops a question that is under way: it may have begun before what has happened since. */
  now() {
    this.cancel();
    this.before = QUIET_MS;
    if (this.running && !document.hidden) this.turn();
  }

  cancel() {
    clearTimeout(this.timer);
    this.aborter?.abort();
    this.aborter = null;
  }

  seen() {
    if (document.hidden) this.cancel();
    else this.now();
  }

  async turn() {
    const aborter = new AbortController();
    this.aborter = aborter;
    const began = performance.now();
    let found = { failed: true };
    try {
      found = await this.ask(aborter.signal);
    } finally {
      // An error of the page's own goes to the browser's console; it must not end the refreshing unseen.
      if (!aborter.signal.aborted) {
        this.aborter = null;
        this.before = pause({ ...found, tookMs: performance.now() - began, before: this.before });
        this.timer = setTimeout(() => this.turn(), this.before);
      }
    }
  }
}
