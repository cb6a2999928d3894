// SPDX-License-Identifier: Apache-2.0
// A record's bytes as text, JSON or hex. Pure functions.

/** The bytes of a base64 text. */
export function bytesOf(base64) {
  const binary = atob(base64);
  const found = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) found[at] = binary.charCodeAt(at);
  return found;
}

const hexOf = (value, digits) => value.toString(16).padStart(digits, "0");
const A_LINE = 16;

/** Bytes in hexadecimal, sixteen a line, with what is printable beside. */
export function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += A_LINE) {
    const part = [...data.subarray(at, at + A_LINE)];
    const shown = part.map((value) => (value >= 32 && value < 127 ? String.fromCharCode(value) : "."));
    const digits = part
      .map((value) => hexOf(value, 2))
      .join(" ")
      .padEnd(A_LINE * 3 - 1);
    lines.push(`${hexOf(at, 6)}  ${digits}  ${shown.join("")}`);
  }
  return lines.join("\n");
}

/** Bytes as text, and whether all of them are UTF-8. */
export function text(data) {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(data), exact: true };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { text: new TextDecoder("utf-8").decode(data), exact: false };
  }
}

/** How a record is shown: its text, and a note if that is not all of what was asked for. */
export function decoded(base64, form) {
  const data = bytesOf(base64);
  if (form === "hex") return { text: hex(data), note: "" };
  const read = text(data);
  if (!read.exact) return { text: hex(data), note: "This is not UTF-8 text; it is shown as hex." };
  if (form === "text") return { text: read.text, note: "" };
  try {
    return { text: JSON.stringify(JSON.parse(read.text), null, 2), note: "" };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { text: read.text, note: "This is not JSON; it is shown as text." };
  }
}
