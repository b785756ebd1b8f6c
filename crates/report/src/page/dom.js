// What the other files make elements with. Text from the report becomes text nodes, never markup.

/** An element with attributes, listeners (`on…`) and children; strings become text. */
function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same in SVG. */
function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const INTEGERS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number with four digits, or all of them where it is a count. */
function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (!Number.isFinite(value)) return "∞";
  if (Number.isInteger(value)) return INTEGERS.format(value);
  const size = Math.abs(value);
  if (size >= 1000) return INTEGERS.format(value);
  return String(Number(value.toPrecision(4)));
}

/** How a number came to be from another, in words that need no colour. */
function change(before, after) {
  if (before === null || after === null || before === undefined || after === undefined) return "";
  if (before === after) return "as before";
  if (before === 0) return "from 0";
  if (after === 0) return "to 0";
  const times = (ratio) => `${ratio < 10 ? ratio.toPrecision(3) : number(Math.round(ratio))}x`;
  return after > before ? `▲ ${times(after / before)}` : `▼ ${times(before / after)} less`;
}

/** How far two numbers are apart, whichever is larger; something and nothing are far apart. */
function distance(before, after) {
  if (before === undefined || after === undefined || before === null || after === null || before === after) return 0;
  if (before === 0 || after === 0) return 20 + Math.log2(Math.max(before, after) + 1);
  return Math.abs(Math.log2(after / before));
}

/** A labelled list to choose from: pairs of value and text. */
function choice(label, id, options, value, listener) {
  const list = options.map(([key, text]) => el("option", { value: key, selected: key === value }, text));
  return el("label", {}, label, el("select", { id, onchange: (event) => listener(event.target.value) }, list));
}

function checkbox(label, id, checked, listener) {
  return el("label", {}, el("input", { type: "checkbox", id, checked, onchange: (e) => listener(e.target.checked) }), label);
}

/** Puts children in the place of those that an element has. */
function put(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return element;
}

function table(heading, rows, caption) {
  const cells = (row, name) => row.map((cell, i) => el(i === 0 ? "th" : name, i === 0 ? { scope: "row" } : {}, cell));
  return el("table", {},
    caption ? el("caption", { class: "quiet" }, caption) : null,
    el("thead", {}, el("tr", {}, heading.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, cells(row, "td")))));
}

/** A lightness of one hue for a share from 0 to 1. */
function heat(share) {
  const amount = share > 0 ? 0.12 + 0.88 * share : 0;
  return { class: amount > 0.8 ? "heat deep" : "heat", style: `--amount:${amount.toFixed(3)}` };
}
