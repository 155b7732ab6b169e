// A table of any length: only the rows in sight are elements. Up, down, page, home, end and Enter work on it.

const ROW = 26;
const PRINTED = 1000;
let grids = 0;

/** columns: {name, width, cell(row) -> string or node, value(row) for sorting, num, wide (left out where it is narrow)}. */
function grid({ label, columns, open, key = (row) => row, height = 400, rowHeight = ROW, nothing = "Nothing here.", sort = null }) {
  const id = `grid${grids++}`;
  let all = [], rows = [], active = -1, order = sort, printing = false;
  const template = columns.map((c) => c.width ?? "minmax(0, 1fr)").join(" ");
  const narrow = columns.filter((c) => !c.wide).map((c) => c.narrow ?? c.width ?? "minmax(0, 1fr)").join(" ");
  const classes = (c) => [c.num && "num", c.wide && "wide"].filter(Boolean).join(" ") || null;

  const headers = columns.map((c) => el("div", { role: "columnheader", class: classes(c) },
    c.value ? el("button", { type: "button", onclick: () => sortBy(c) }, c.name, el("span", { class: "arrow", "aria-hidden": "true" })) : c.name));
  const head = el("div", { role: "rowgroup", class: "head" }, el("div", { role: "row", class: "row" }, headers));
  const body = el("div", { role: "rowgroup", class: "body" });
  const node = el("div", { role: "grid", class: "grid", tabindex: 0, "aria-label": label, id, onscroll: draw, onkeydown: onKey }, head, body);
  const empty = el("p", { class: "empty hidden" }, nothing);
  node.style.setProperty("--columns", template);
  node.style.setProperty("--narrow", narrow);
  node.style.setProperty("--row", `${rowHeight}px`);
  node.style.maxHeight = `${height}px`;

  function sortBy(column) {
    order = order && order.name === column.name ? (order.down ? { name: column.name } : null) : { name: column.name, down: true };
    set(all);
  }

  function sorted() {
    const column = order && columns.find((c) => c.name === order.name);
    headers.forEach((h, i) => {
      const on = column && columns[i] === column;
      if (on) h.setAttribute("aria-sort", order.down ? "descending" : "ascending"); else h.removeAttribute("aria-sort");
      const arrow = h.querySelector(".arrow");
      if (arrow) arrow.textContent = on ? (order.down ? " ▾" : " ▴") : "";
    });
    if (!column) return all;
    const side = order.down ? -1 : 1;
    return [...all].sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
      return (x < y ? -1 : x > y ? 1 : 0) * side;
    });
  }

  function set(next) {
    const kept = rows[active] && key(rows[active]);
    all = next;
    rows = sorted();
    active = rows.findIndex((row) => key(row) === kept);
    node.setAttribute("aria-rowcount", rows.length + 1);
    body.style.height = `${rows.length * rowHeight}px`;
    empty.classList.toggle("hidden", rows.length > 0);
    node.classList.toggle("hidden", rows.length === 0);
    draw();
  }

  function draw() {
    const seen = printing ? PRINTED : Math.ceil((node.clientHeight || height) / rowHeight) + 4;
    const start = printing ? 0 : Math.max(0, Math.floor(node.scrollTop / rowHeight) - 2);
    const shown = [];
    for (let i = start; i < Math.min(rows.length, start + seen); i++) {
      const line = el("div", {
        role: "row", class: "row", id: `${id}r${i}`, "aria-rowindex": i + 2, "aria-selected": i === active ? "true" : null,
        onclick: () => { select(i); if (open) open(rows[i]); },
      }, columns.map((c) => el("div", { role: "gridcell", class: classes(c) }, c.cell(rows[i]))));
      line.style.transform = `translateY(${i * rowHeight}px)`;
      shown.push(line);
    }
    body.replaceChildren(...shown);
    if (active >= start && active < start + seen) node.setAttribute("aria-activedescendant", `${id}r${active}`);
    else node.removeAttribute("aria-activedescendant");
  }

  function select(i) {
    active = Math.max(0, Math.min(rows.length - 1, i));
    const top = active * rowHeight, room = node.clientHeight - head.offsetHeight - rowHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (room > 0 && top > node.scrollTop + room) node.scrollTop = top - room;
    draw();
  }

  function onKey(event) {
    if (event.target !== node || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(node.clientHeight / rowHeight) - 2);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) select(to);
    else if ((event.key === "Enter" || event.key === " ") && open && rows[active]) open(rows[active]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const print = (on) => { printing = on; draw(); };
  return {
    node: el("div", { class: "list" }, node, empty), set, draw, print,
    /** Marks a row without opening it. */
    mark(wanted) { const i = rows.findIndex((row) => key(row) === wanted); if (i >= 0 && i !== active) select(i); },
    get size() { return rows.length; },
  };
}
