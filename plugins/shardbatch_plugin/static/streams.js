// SPDX-License-Identifier: Apache-2.0
// The Streams page as a component of Airflow's UI, which loads this module and takes it by the plugin's name.
import { Page } from "./page.js";
import { given } from "./router.js";

// Airflow exchanges the element around this component when it draws it for the second time. The page moves over then,
// with what it shows; it ends if no element takes it.
let waiting = null;
const WAITS_MS = 1000;

function Streams({ dagId, runId, taskId, mapIndex }) {
  const { createElement, useEffect, useRef } = globalThis.React;
  const place = useRef(null);
  const of = [dagId, runId, taskId, mapIndex].map(given);
  const name = JSON.stringify(of);
  useEffect(() => {
    let page;
    if (waiting?.name === name) {
      clearTimeout(waiting.timer);
      page = waiting.page;
      waiting = null;
    } else {
      const [dag_id, run_id, task_id, map_index] = of;
      page = new Page({ dag_id, run_id, task_id, map_index });
    }
    page.enter(place.current);
    return () => {
      page.leave();
      if (waiting) {
        clearTimeout(waiting.timer);
        waiting.page.end();
      }
      waiting = {
        name,
        page,
        timer: setTimeout(() => {
          page.end();
          waiting = null;
        }, WAITS_MS),
      };
    };
  }, [name]);
  return createElement("div", { ref: place, className: "shardbatch" });
}

globalThis.Streams = Streams;
globalThis.AirflowPlugin = Streams;
