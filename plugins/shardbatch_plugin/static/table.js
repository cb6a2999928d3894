// SPDX-License-Identifier: Apache-2.0
// A table of which only the rows in sight are drawn, so that 5,000 shards scroll as fast as fifty.
import { windowOf } from "./choose.js";
import { clear, draw, h, widget } from "./dom.js";

const ROW_HEIGHT = 34;

const ariaSort = (sort, column) => {
  if (!column.sort || sort?.by !== column.sort) return undefined;
  return sort.down ? "descending" : "ascending";
};

function heading(column, { sort, onSort }) {
  const state = ariaSort(sort, column);
  const mark = state ? (sort.down ? " ↓" : " ↑") : "";
  const label = [column.title, h("span", { class: "mark", "aria-hidden": "true" }, mark || " ")];
  const press = () => onSort(column.sort, state === "ascending");
  return h(
    "th",
    { scope: "col", class: column.kind, "aria-sort": state, title: column.help },
    column.sort ? h("button", { type: "button", class: "sort", onclick: press }, label) : column.title,
  );
}

function make(element, first) {
  let data = first;
  const space = (height) =>
    h("tr", { "aria-hidden": "true" }, h("td", { class: "space", style: `height:${height}px` }));
  function show() {
    const { columns, rows, label, empty } = data;
    const seen = { top: element.scrollTop, height: element.clientHeight || 600 };
    const { first: from, last } = windowOf({ ...seen, rowHeight: ROW_HEIGHT, length: rows.length });
    const line = (row, at) =>
      h(
        "tr",
        { key: data.rowKey(row), "aria-rowindex": String(from + at + 2), class: data.rowClass?.(row) },
        columns.map((column) => h("td", { class: column.kind }, column.cell(row))),
      );
    const width = columns.reduce((sum, column) => sum + column.width, 0);
    draw(element, [
      h(
        "table",
        { "aria-label": label, "aria-rowcount": String(rows.length + 1), style: `min-width:${width}px` },
        h(
          "colgroup",
          null,
          columns.map((column) => h("col", { style: `width:${column.width}px` })),
        ),
        h(
          "thead",
          null,
          h(
            "tr",
            { "aria-rowindex": "1" },
            columns.map((column) => heading(column, data)),
          ),
        ),
        h(
          "tbody",
          null,
          from > 0 && space(from * ROW_HEIGHT),
          rows.slice(from, last).map(line),
          last < rows.length && space((rows.length - last) * ROW_HEIGHT),
          !rows.length && h("tr", null, h("td", { class: "none", colspan: String(columns.length) }, empty)),
        ),
      ),
    ]);
  }
  let frame = 0;
  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(show);
  };
  element.addEventListener("scroll", soon, { passive: true });
  const sized = new ResizeObserver(soon);
  sized.observe(element);
  show();
  return {
    update(next) {
      const moved = next.rows !== data.rows && next.from !== data.from;
      data = next;
      if (moved) element.scrollTop = 0;
      show();
    },
    destroy() {
      cancelAnimationFrame(frame);
      sized.disconnect();
      clear(element);
    },
  };
}

/** A table of long lists. `from` tells what the rows were chosen by: if that changes, it begins at the top again. */
export function table(key, data) {
  return widget(key, make, data, { class: "scroll", tabindex: "0", role: "group", "aria-label": data.label });
}
