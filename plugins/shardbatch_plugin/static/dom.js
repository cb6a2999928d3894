// SPDX-License-Identifier: Apache-2.0
// Draws a description of elements into the page and, when drawn again, changes only what differs: so selected text,
// focus, scroll positions and open details survive a refresh.

/** A description of an element. Attributes that begin with `on` are listeners; `key` tells it from its siblings. */
export function h(tag, attributes, ...children) {
  return { tag, attributes: attributes || {}, children: children.flat(Infinity).filter(shown) };
}

/** A part that draws itself: `make(element, data)` returns `{update(data), destroy()}`. */
export function widget(key, make, data, attributes) {
  return { tag: "div", attributes: { ...attributes, key }, children: [], make, data };
}

const shown = (child) => child !== null && child !== undefined && child !== false && child !== "";
const STATE = Symbol("drawn");
const PROPERTIES = new Set(["value", "checked", "disabled", "selected"]);

const sameKind = (node, child) =>
  typeof child === "object"
    ? node[STATE]?.tag === child.tag && node[STATE].key === child.attributes.key && node[STATE].make === child.make
    : node.nodeType === Node.TEXT_NODE;

function listen(node, name, handler) {
  const { handlers } = node[STATE];
  if (!(name in handlers)) node.addEventListener(name, (event) => handlers[name]?.(event));
  handlers[name] = handler;
}

function dress(node, attributes) {
  const before = node[STATE].attributes;
  for (const name of Object.keys(before)) {
    if (name in attributes && attributes[name] !== undefined) continue;
    if (name.startsWith("on")) node[STATE].handlers[name.slice(2)] = null;
    else if (PROPERTIES.has(name)) node[name] = name === "value" ? "" : false;
    else node.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "key" || value === undefined) continue;
    if (name.startsWith("on")) listen(node, name.slice(2), value);
    else if (PROPERTIES.has(name)) {
      if (node[name] !== value) node[name] = value;
    } else if (value === false || value === null) node.removeAttribute(name);
    else if (before[name] !== value) node.setAttribute(name, value === true ? "" : value);
  }
  node[STATE].attributes = attributes;
}

function made(child) {
  if (typeof child !== "object") return document.createTextNode(String(child));
  const node = document.createElement(child.tag);
  node[STATE] = { tag: child.tag, key: child.attributes.key, make: child.make, attributes: {}, handlers: {} };
  return node;
}

function refresh(node, child) {
  if (typeof child !== "object") {
    if (node.data !== String(child)) node.data = String(child);
    return;
  }
  if (!child.make) draw(node, child.children);
  dress(node, child.attributes);
  if (!child.make) return;
  if (node[STATE].part) node[STATE].part.update(child.data);
  else node[STATE].part = child.make(node, child.data);
}

function end(node) {
  node[STATE]?.part?.destroy();
  [...node.childNodes].forEach(end);
  node.remove();
}

/** Draws descriptions as the children of an element. */
export function draw(parent, children) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node[STATE]?.key !== undefined) keyed.set(node[STATE].key, node);
  let at = parent.firstChild;
  for (const child of children.flat(Infinity).filter(shown)) {
    const key = typeof child === "object" ? child.attributes.key : undefined;
    let node = key === undefined ? at : keyed.get(key);
    if (key === undefined) while (node && node[STATE]?.key !== undefined) node = node.nextSibling;
    if (!node || !sameKind(node, child)) {
      node = made(child);
      parent.insertBefore(node, at);
    } else if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    keyed.delete(key);
    refresh(node, child);
  }
  while (at) {
    const next = at.nextSibling;
    end(at);
    at = next;
  }
}

/** Ends everything that draws itself below an element, and empties it. */
export function clear(parent) {
  draw(parent, []);
}
