// SPDX-License-Identifier: Apache-2.0
// The first records of a slice, as text, JSON or hex.
import { decoded } from "./decode.js";
import { draw, h, widget } from "./dom.js";
import { bytes, counted, utc } from "./format.js";
import { failed, waiting } from "./parts.js";
import { address } from "./router.js";

const FORMS = ["json", "text", "hex"];
const NAMES = { json: "JSON", text: "text", hex: "hex" };
const FIRST = 20;

function make(element, { context, slice }) {
  let form = "json";
  let answer = null;
  let error = null;
  let aborter = new AbortController();

  async function load(next) {
    aborter.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    slice = next;
    answer = null;
    error = null;
    show();
    try {
      answer = (await context.api.get("records", { ...address(context.route), ...slice, count: FIRST }, signal)).data;
    } catch (failure) {
      if (signal.aborted) return;
      error = failure;
    }
    show();
  }

  function record(one) {
    const { text, note } = decoded(one.data_base64, form);
    return h(
      "li",
      { key: `${one.sequence_number}/${one.sub_sequence_number ?? ""}` },
      h(
        "div",
        { class: "quiet" },
        h("code", null, one.sequence_number),
        ` key ${one.partition_key} · arrived ${utc(one.arrived_ms)} · ${bytes(one.size)}`,
      ),
      note && h("div", { class: "said" }, note),
      h("pre", { tabindex: "0" }, text),
    );
  }

  function show() {
    const choice = (name) =>
      h(
        "label",
        { class: "toggle" },
        h("input", {
          type: "radio",
          name: "form",
          value: name,
          checked: form === name,
          onchange: () => {
            form = name;
            show();
          },
        }),
        NAMES[name],
      );
    draw(element, [
      h(
        "header",
        { key: "head" },
        h("h2", { tabindex: "-1" }, "First records of ", h("code", null, slice.shard_id)),
        h("span", { role: "radiogroup", "aria-label": "Shown as", class: "row" }, FORMS.map(choice)),
        h("button", { type: "button", onclick: () => context.set("records", null) }, "Close"),
      ),
      error && failed(error, context.airflow),
      !answer && !error && waiting(),
      answer && h("p", { class: "quiet" }, `${counted(answer.records.length, "record")}, the first of the slice.`),
      answer && h("ol", { class: "records" }, answer.records.map(record)),
    ]);
  }

  load(slice).then(() => element.querySelector("h2")?.focus());
  return {
    update(next) {
      if (next.slice.shard_id !== slice.shard_id || next.slice.batch_id !== slice.batch_id) load(next.slice);
    },
    destroy() {
      aborter.abort();
    },
  };
}

/** The viewer of a slice's first records. They are asked for once: a slice does not change. */
export const viewer = (context, slice) => widget("records", make, { context, slice }, { class: "viewer" });
