// SPDX-License-Identifier: Apache-2.0
// The dialog of a verb: what it needs, its preview, the reason, and then the deed. Its state is its own, so that no
// refresh of the page behind it changes it.
import { draw, h } from "./dom.js";
import { ownerShort } from "./format.js";
import { failed, waiting } from "./parts.js";
import { filled, missing, nameOf, onPage } from "./suited.js";

const COLUMNS = ["name", "owner", "result", "why", "effect"];
const NAMES = { name: "What", owner: "Owner", result: "Result", why: "Why", effect: "What follows" };

function answerTable(rows, label) {
  if (!rows.length) return h("p", { class: "quiet" }, "Nothing of this application matches.");
  const seen = COLUMNS.filter((name) => rows.some((row) => row[name]));
  const cell = (row, name) => {
    if (name === "name") return `${row.kind} ${row.name}`;
    return name === "owner" ? h("span", { title: row.owner }, ownerShort(row.owner)) : row[name];
  };
  return h(
    "div",
    { class: "scroll short", tabindex: "0", role: "group", "aria-label": label },
    h(
      "table",
      { class: "answer", "aria-label": label },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          seen.map((name) => h("th", { scope: "col" }, NAMES[name])),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { class: row.result === "left" ? "left" : undefined },
            seen.map((name) => h("td", null, cell(row, name))),
          ),
        ),
      ),
    ),
  );
}

/** Opens the dialog of a verb. `done` is called after something was done. */
export function openDialog(root, { verb, values, address, api, airflow, done }) {
  const dialog = document.createElement("dialog");
  const state = { values: { ...values }, reason: "", preview: null, result: null, error: null, busy: false, again: false };
  const given = verb.arguments.filter((one) => one.required || state.values[one.name]);
  const known = given.some((one) => state.values[one.name]);
  const first = known ? given : verb.arguments; // whoever pressed a button beside a batch sees that batch first
  const further = verb.arguments.filter((one) => !first.includes(one));
  let asked = 0;

  function change(name, value) {
    state.values[name] = value;
    state.preview = null;
    state.error = null;
    asked += 1; // the answer of a preview that is under way belongs to other words
    state.busy = false;
    show();
  }

  async function send(preview) {
    const chosen = filled(verb, state.values);
    const question = (asked += 1);
    state.busy = true;
    state.error = null;
    show();
    try {
      const seen = preview ? {} : { token: state.preview.token };
      const answer = await api.act({
        ...address,
        verb: verb.name,
        chosen,
        reason: state.reason.trim(),
        preview,
        ...seen,
      });
      if (!preview) {
        state.result = answer;
        done();
      } else if (question === asked) state.preview = answer;
    } catch (error) {
      if (question !== asked) return;
      state.error = error;
      if (error.status === 409 || error.error === "NotKnown") {
        state.preview = null;
        state.again = true;
        done(); // what stands behind the dialog may have changed
      }
    } finally {
      if (question === asked) state.busy = false;
      show();
      if (preview && question === asked) dialog.querySelector("#reason")?.focus();
    }
  }

  function field(argument) {
    const { name } = argument;
    const id = `argument-${name}`;
    const value = state.values[name];
    const common = { id, "aria-describedby": `${id}-help`, disabled: state.busy && Boolean(state.preview) };
    const input = argument.switch
      ? h("input", {
          ...common,
          type: "checkbox",
          checked: Boolean(value),
          onchange: (event) => change(name, event.target.checked),
        })
      : h(argument.many ? "textarea" : "input", {
          ...common,
          ...(argument.many
            ? { rows: "2" }
            : { type: "text", list: argument.words?.length ? `${id}-words` : undefined }),
          value: Array.isArray(value) ? value.join(", ") : value || "",
          autocomplete: "off",
          spellcheck: "false",
          oninput: (event) => change(name, event.target.value),
        });
    const words = argument.words?.length
      ? h(
          "datalist",
          { id: `${id}-words` },
          argument.words.map((word) => h("option", { value: word })),
        )
      : null;
    return h(
      "div",
      { class: argument.switch ? "field switch" : "field", key: name },
      h("label", { for: id }, nameOf(argument), argument.required && h("span", { class: "quiet" }, " (needed)")),
      input,
      words,
      h("small", { id: `${id}-help` }, onPage(argument.help), argument.many && ". Several are separated by commas or lines."),
    );
  }

  function steps() {
    const lacking = missing(verb, filled(verb, state.values));
    const ready = state.preview && state.reason.trim() && !state.busy;
    return [
      h("div", { class: "fields", key: "fields" }, first.map(field)),
      further.length > 0 &&
        h(
          "details",
          { key: "further" },
          h("summary", null, "More choices"),
          h("div", { class: "fields" }, further.map(field)),
        ),
      h(
        "div",
        { class: "row", key: "look" },
        h(
          "button",
          {
            type: "button",
            class: state.preview ? "" : "main",
            disabled: state.busy || lacking.length > 0,
            onclick: () => send(true),
          },
          state.again || state.preview ? "Look again" : "Preview",
        ),
        lacking.length > 0 && h("span", { class: "quiet" }, `Fill in ${lacking.map(nameOf).join(", ")}.`),
        !state.preview && !lacking.length && h("span", { class: "quiet" }, "Nothing changes yet."),
      ),
      h("div", { key: "error", "aria-live": "assertive" }, state.error && failed(state.error, airflow)),
      state.busy && !state.preview && waiting(),
      state.preview &&
        h("div", { key: "preview" }, h("h3", null, "Preview"), answerTable(state.preview.rows, "Preview")),
      state.preview &&
        h(
          "form",
          {
            key: "reason",
            class: "fields",
            onsubmit: (event) => {
              event.preventDefault();
              if (ready) send(false);
            },
          },
          h(
            "div",
            { class: "field" },
            h(
              "label",
              { for: "reason" },
              "Reason",
              h("span", { class: "quiet" }, " (needed; it is kept with your name)"),
            ),
            h("input", {
              id: "reason",
              type: "text",
              value: state.reason,
              autocomplete: "off",
              oninput: (event) => {
                state.reason = event.target.value;
                show();
              },
            }),
          ),
          h(
            "div",
            { class: "row" },
            h(
              "button",
              { type: "submit", class: "deed", disabled: !ready },
              state.busy ? "At work…" : `Do it: ${verb.name}`,
            ),
          ),
        ),
    ];
  }

  function show() {
    if (!dialog.isConnected) return;
    draw(dialog, [
      h(
        "header",
        { key: "head" },
        h(
          "h2",
          { id: "act-title" },
          verb.name,
          h("span", { class: "quiet" }, ` ${address.app_name} / ${address.stream_name}`),
        ),
        h("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => dialog.close() }, "✕"),
      ),
      h("p", { key: "help" }, verb.help, ". ", h("span", { class: "quiet" }, onPage(verb.more))),
      ...(state.result
        ? [
            h(
              "div",
              { key: "result", role: "status" },
              h("h3", null, state.result.done ? "Done" : "Not all was done: what was left says why"),
              answerTable(state.result.rows, "Result"),
            ),
            h(
              "div",
              { class: "row", key: "close" },
              h("button", { type: "button", class: "main", onclick: () => dialog.close() }, "Close"),
            ),
          ]
        : steps()),
    ]);
  }

  dialog.setAttribute("aria-labelledby", "act-title");
  dialog.addEventListener("close", () => dialog.remove());
  root.append(dialog);
  show();
  dialog.showModal();
  dialog.querySelector("input, textarea")?.focus();
  if (known && !missing(verb, filled(verb, state.values)).length) send(true);
  return dialog;
}
