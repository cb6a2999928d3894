// SPDX-License-Identifier: Apache-2.0
// What a tab on a DAG, a run or a task opens: the place where it belongs.
import { h } from "./dom.js";
import { failed, waiting } from "./parts.js";
import { format, ofPlace } from "./router.js";

/** Nothing beside the place itself, which the page asks for on every view of a tab. */
export const needs = () => [];

function nameOf({ app_name: name, batch_id: batchId, shard_id: shardId }) {
  if (shardId) return `shard ${shardId}`;
  return batchId ? `batch ${batchId}` : name;
}

/** The list of places, where there is more than one. */
export function view(context) {
  const { data, error } = context.answer("place");
  if (!data) return [error ? failed(error, context.airflow) : waiting()];
  if (!data.places.length) {
    return [
      h("h1", { tabindex: "-1" }, "Streams"),
      h(
        "p",
        { class: "none" },
        "This DAG has no StreamBatch group. If one was added just now, it appears here once Airflow has parsed the DAG.",
      ),
      h("p", null, h("a", { href: context.everywhere }, "All applications")),
    ];
  }
  return [
    h("h1", { tabindex: "-1" }, "Streams"),
    h(
      "ul",
      { class: "lines" },
      data.places.map((place) =>
        h(
          "li",
          { key: format(ofPlace(place)) },
          h("a", { href: context.link(ofPlace(place)) }, nameOf(place)),
          h("span", { class: "quiet" }, `${place.app_name} / ${place.stream_name}, group ${place.group_id || "none"}`),
          place.shard_id &&
            place.batch_id &&
            h("a", { href: context.link(ofPlace({ ...place, shard_id: null })) }, `batch ${place.batch_id}`),
        ),
      ),
    ),
  ];
}
