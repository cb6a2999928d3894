// SPDX-License-Identifier: Apache-2.0
// The Streams page as a component of Airflow's UI, which loads this module and takes it by the plugin's name.
const home = new URL("..", import.meta.url);

function Streams(props) {
  const place = globalThis.React.useRef(null);
  globalThis.React.useEffect(() => {
    fetch(new URL("api/applications", home)).then((answer) => answer.text()).then((text) => {
      place.current.textContent = JSON.stringify(props) + text;
    });
  }, []);
  return globalThis.React.createElement("div", { ref: place, className: "shardbatch" });
}

globalThis.Streams = Streams;
globalThis.AirflowPlugin = Streams;
