// SPDX-License-Identifier: Apache-2.0
// Which batches a timeline shows: a window of columns. Pure: no document, no canvas.
export const WIDEST = 46;
const USUAL = 16;
const FEWEST = 3;

/** The window with the newest batches, as many as have a readable column. */
export function newest(total, width) {
  return within({ from: total - width / USUAL, to: total }, total, width);
}

/** A window moved and cut so that it stands within the batches; it never shows fewer than three columns. */
export function within({ from, to }, total, width) {
  const size = Math.min(Math.max(total, 1), Math.max(FEWEST, Math.min(to - from, width)));
  const start = Math.min(Math.max(0, total - size), Math.max(0, from));
  return { from: start, to: start + size };
}

export function zoomed({ from, to }, factor, at, total, width) {
  const size = Math.max(FEWEST, (to - from) * factor);
  const share = (at - from) / (to - from);
  return within({ from: at - share * size, to: at + (1 - share) * size }, total, width);
}

/** The window that holds a batch, moved no further than needed. */
export function holding({ from, to }, index, total, width) {
  if (index < from) return within({ from: index, to: index + to - from }, total, width);
  if (index + 1 > to) return within({ from: index + 1 - (to - from), to: index + 1 }, total, width);
  return { from, to };
}

/** Pixels of a window of columns that begins at `left`; few batches keep narrow columns. */
export function columnsOf(window, left, width) {
  const each = Math.min(WIDEST, width / (window.to - window.from));
  return { each, x: (index) => left + (index - window.from) * each, at: (x) => window.from + (x - left) / each };
}
