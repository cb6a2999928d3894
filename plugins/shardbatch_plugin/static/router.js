// SPDX-License-Identifier: Apache-2.0
// The view's address stands in the hash, so that Airflow's own router never leaves its page. Pure functions.
export const TABS = ["overview", "lineage", "shards", "batches", "plots"];

/** What names an application, of anything that belongs to it. */
export const address = ({ store, app_name, stream_name }) => ({ store, app_name, stream_name });

/** The view that a hash names. What it does not name leads to the first view. */
export function parse(hash) {
  const text = hash.replace(/^#?\/?/, "");
  let parts;
  try {
    parts = text.split("/").map(decodeURIComponent);
  } catch (error) {
    if (error instanceof URIError) return { view: "home" };
    throw error;
  }
  if (parts[0] !== "app" || parts.length < 4) return { view: "home" };
  const [, store, appName, streamName, kind, id] = parts;
  const application = { store, app_name: appName, stream_name: streamName };
  if (kind === "batch" && id) return { view: "batch", ...application, batch_id: id };
  if (kind === "shard" && id) return { view: "shard", ...application, shard_id: id };
  return { view: "application", ...application, tab: TABS.includes(kind) ? kind : "overview" };
}

/** The hash of a view. */
export function format(route) {
  if (route.view === "home") return "#/";
  const parts = ["app", route.store, route.app_name, route.stream_name];
  if (route.view === "batch") parts.push("batch", route.batch_id);
  if (route.view === "shard") parts.push("shard", route.shard_id);
  if (route.view === "application" && route.tab && route.tab !== "overview") parts.push(route.tab);
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** The view of a place that the server found for a DAG, a run or a task. */
export function ofPlace(place) {
  const { batch_id, shard_id } = place;
  const application = address(place);
  if (shard_id) return { view: "shard", ...application, shard_id };
  if (batch_id) return { view: "batch", ...application, batch_id };
  return { view: "application", ...application, tab: "overview" };
}

/** A value of Airflow's, or null: what is out of scope comes as its placeholder, such as `{MAP_INDEX}`. */
export function given(value) {
  if (value === undefined || value === null) return null;
  const text = String(value);
  return text === "" || /^\{.*\}$/.test(text) ? null : text;
}
