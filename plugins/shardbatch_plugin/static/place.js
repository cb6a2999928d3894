// SPDX-License-Identifier: Apache-2.0
// What a tab on a DAG, a run or a task opens: the place where it belongs.
import { h } from "./dom.js";
import { failed, pill, waiting } from "./parts.js";
import { format, ofPlace } from "./router.js";

/** Nothing beside the place itself, which the page asks for on every view of a tab. */
export const needs = () => [];

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
          h("a", { href: context.link(ofPlace(place)) }, `${place.app_name} / ${place.stream_name}`),
          place.group_id && h("span", { class: "quiet" }, `group ${place.group_id}`),
          place.batch_id && [pill("batch"), h("code", null, place.batch_id)],
          place.shard_id && [pill("shard"), h("code", null, place.shard_id)],
        ),
      ),
    ),
  ];
}
