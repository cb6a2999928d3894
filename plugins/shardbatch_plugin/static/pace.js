// SPDX-License-Identifier: Apache-2.0
// How long the page waits until it asks again. Pure functions.
export const WORKING_MS = 2000;
export const QUIET_MS = 5000;
export const SLOWEST_MS = 30000;

/** The next pause: short while a run works, longer each time that nothing changed or that the server failed.
 * An answer that took long is never asked for so often that it takes more than a quarter of the time. */
export function pause({ working, changed, failed, tookMs, before }) {
  const least = Math.max(WORKING_MS, tookMs * 3);
  if (failed) return Math.min(SLOWEST_MS, Math.max(least, before * 2));
  if (working) return Math.min(SLOWEST_MS, least);
  if (changed) return Math.min(SLOWEST_MS, Math.max(least, QUIET_MS));
  return Math.min(SLOWEST_MS, Math.max(least, QUIET_MS, before * 1.5));
}

/** An answer without what time alone changes in it. */
export function lasting(text) {
  return text.replace(/"(now_ms|expires_in_ms|behind_ms)": ?-?\d+/g, "");
}

/** An answer without the instant at which it was given. */
export function timeless(text) {
  return text.replace(/"now_ms": ?\d+/, "");
}
