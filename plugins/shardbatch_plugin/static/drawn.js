// SPDX-License-Identifier: Apache-2.0
// A drawing as a part of a view. Its module is loaded when it is needed first.
import { widget } from "./dom.js";

const MODULES = {
  lineage: () => import("./lineage.js"),
  plots: () => import("./plots.js"),
  timeline: () => import("./timeline.js"),
  completeness: () => import("./completeness.js"),
};

const makers = Object.fromEntries(
  Object.keys(MODULES).map((name) => [name, (element, data) => make(name, element, data)]),
);

function make(name, element, first) {
  let latest = first;
  let part = null;
  let ended = false;
  MODULES[name]().then(
    (module) => {
      if (!ended) part = module[name](element, latest.data, latest.options);
    },
    (error) => {
      element.textContent = `The drawing could not be loaded: ${error.message}. Reload the page.`;
    },
  );
  return {
    update(next) {
      if (next.data !== latest.data) part?.update(next.data);
      latest = next;
    },
    destroy() {
      ended = true;
      part?.destroy();
    },
  };
}

/** One of the drawings: lineage, plots, timeline or completeness. */
export function drawing(name, data, options = {}) {
  return widget(`drawing-${name}`, makers[name], { data, options }, { class: `drawing ${name}` });
}
