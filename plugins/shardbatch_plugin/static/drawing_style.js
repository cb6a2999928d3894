// SPDX-License-Identifier: Apache-2.0
// The style of the drawings' own parts. It is here and not in a file to load, so that a first draw knows all sizes.
const STYLE = `
.sb-drawing { position: relative; color: var(--sbd-text); font-size: 13px; line-height: 1.4; }
.sb-drawing .sb-stage { position: relative; min-width: 0; }
.sb-drawing .sb-canvas { display: block; max-width: none; border-radius: 6px; touch-action: pan-y; }
.sb-drawing .sb-canvas.sb-moves { cursor: grab; touch-action: none; }
.sb-drawing .sb-canvas.sb-moves:active { cursor: grabbing; }
.sb-drawing .sb-canvas:focus-visible { outline: 3px solid var(--sbd-accent); outline-offset: 2px; }
.sb-drawing .sb-bar { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 0 0 8px; }
.sb-drawing .sb-bar label { display: flex; gap: 6px; align-items: center; }
.sb-drawing .sb-bar input, .sb-drawing .sb-bar button {
  font: inherit; color: inherit; background: var(--sbd-raised); border: 1px solid var(--sbd-line); border-radius: 6px;
  padding: 3px 9px; min-height: 30px; }
.sb-drawing .sb-bar button { cursor: pointer; }
.sb-drawing .sb-bar button:hover { border-color: var(--sbd-accent); }
.sb-drawing .sb-bar input { width: 17em; max-width: 60vw; }
.sb-drawing .sb-bar :focus-visible { outline: 3px solid var(--sbd-accent); outline-offset: 1px; }
.sb-drawing .sb-found { color: var(--sbd-muted); min-width: 7em; }
.sb-drawing .sb-legend {
  display: flex; flex-wrap: wrap; gap: 4px 16px; list-style: none; margin: 8px 0 0; padding: 0; font-size: 12px; }
.sb-drawing .sb-legend li { display: flex; gap: 6px; align-items: center; }
.sb-drawing .sb-mark { font-weight: 700; min-width: 12px; text-align: center; }
.sb-drawing .sb-note { color: var(--sbd-muted); font-size: 12px; margin: 6px 0 0; }
.sb-drawing .sb-tip {
  position: absolute; z-index: 5; pointer-events: none; max-width: 340px; padding: 7px 10px; border-radius: 6px;
  background: var(--sbd-surface); color: var(--sbd-text); border: 1px solid var(--sbd-line); font-size: 12px;
  box-shadow: 0 4px 14px rgb(0 0 0 / 25%); overflow-wrap: anywhere; }
.sb-drawing .sb-tip[hidden] { display: none; }
.sb-drawing .sb-unseen {
  position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
.sb-drawing .sb-days { display: grid; grid-template-columns: max-content 1fr; gap: 3px 10px; align-items: center; }
.sb-drawing .sb-hours { display: grid; grid-template-columns: repeat(24, minmax(0, 1fr)); gap: 2px; }
.sb-drawing .sb-hours span { font-size: 11px; color: var(--sbd-muted); white-space: nowrap; }
.sb-drawing .sb-day { font-size: 12px; color: var(--sbd-muted); white-space: nowrap; }
.sb-drawing .sb-hour {
  position: relative; height: 24px; border-radius: 3px; border: 1px solid transparent; display: flex;
  align-items: center; justify-content: center; font-size: 12px; line-height: 1; color: var(--sbd-text); }
.sb-drawing .sb-hour:focus-visible { outline: 3px solid var(--sbd-accent); outline-offset: 1px; }
.sb-drawing .sb-hour.sb-complete { background: var(--sbd-ok); color: var(--sbd-surface); }
.sb-drawing .sb-hour.sb-open { background: transparent; border-color: var(--sbd-muted); border-style: dashed; }
.sb-drawing .sb-hour.sb-gap { color: var(--sbd-surface); font-weight: 700;
  background: var(--sbd-gap); box-shadow: inset 0 0 0 2px var(--sbd-surface), 0 0 0 1px var(--sbd-gap); }
.sb-drawing .sb-hour.sb-before { background: var(--sbd-raised); }
.sb-drawing .sb-hour.sb-unknown { border-color: var(--sbd-line); }
.sb-drawing .sb-key { width: 22px; height: 18px; }
.sb-drawing .sb-watermark {
  position: absolute; top: -4px; bottom: -4px; width: 3px; margin-left: -1.5px; background: var(--sbd-text);
  box-shadow: 0 0 0 1.5px var(--sbd-surface); border-radius: 2px; }
`;
let sheet = null;

/** Gives the style to the document, or to the shadow root, that an element stands in. */
export function addStyle(element) {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
  }
  const root = element.getRootNode();
  if (root.adoptedStyleSheets && !root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
}
