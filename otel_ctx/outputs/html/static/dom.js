// Elements, numbers and words. Text reaches the page as text nodes only: nothing out of a dump is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

const el = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);
const svg = (tag, props = {}, ...children) => fill(document.createElementNS(SVG, tag), props, children);

const NOTHING = "–";
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const known = (value) => value !== null && value !== undefined;
const count = (n) => (known(n) ? grouped.format(n) : NOTHING);
/** Turns that surely fit: rounded down, as in every other output. */
const wholeTurns = (n) => (known(n) ? count(Math.floor(n)) : NOTHING);
const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const signed = (n) => (known(n) ? (n > 0 ? "+" : "") + grouped.format(n) : NOTHING);

function short(n) {
  if (!known(n)) return NOTHING;
  for (const [unit, size] of [["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(n) >= size) return (n / size).toFixed(Math.abs(n) < 10 * size && n % size ? 1 : 0) + unit;
  }
  return String(Math.round(n));
}

function percent(part, whole) {
  if (!known(part) || !whole) return NOTHING;
  const share = (100 * part) / whole;
  return share > 0 && share < 1 ? "<1 %" : `${Math.round(share)} %`;
}

function usd(value) {
  if (!known(value)) return NOTHING;
  if (value === 0) return "$0";
  return `$${value.toFixed(value < 0.01 ? 4 : value < 1 ? 3 : 2)}`;
}

/** One number where both read the same. */
function usdRange(low, high) {
  return usd(low) === usd(high) ? usd(high) : `${usd(low)} to ${usd(high)}`;
}

const two = (n) => String(n).padStart(2, "0");

/** The viewer's own time. */
function time(ms) {
  if (!ms) return NOTHING;
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

const words = (name) => String(name).replaceAll("_", " ");

/** What cannot be seen is made visible: controls, marks that turn the direction of text, lone surrogates. */
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu;
const visible = (text) => String(text).replace(hidden, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);

const say = (text) => { document.getElementById("said").textContent = text; };

/** A panel of the page. */
function panel(title, note, ...children) {
  const head = el("h2", { tabindex: -1 }, title);
  const noted = el("span", { class: "note" }, note ?? "");
  return { node: el("section", { "aria-label": title }, el("div", { class: "title" }, head, noted), children), head, noted };
}

function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, v]) => known(v) && v !== NOTHING).map(([k, v, style]) =>
    el("div", { class: style }, el("dt", {}, k), el("dd", {}, v))));
}
