// Pictures: depth over turns, a row of the prefix map, the tiles of a window. They draw numbers that are given to them.

const LETTERS = { read: "R", lost: "L", written: "W", fresh: "N", unknown: "?" };
const STATE_WORDS = {
  read: "read from the cache", lost: "lost: billed again", written: "written to the cache", fresh: "new, not cached", unknown: "cache not told",
};
const POINTS = 600; // turns that a curve is drawn from

/** Patterns, so that no state is told by its colour alone. */
function patterns() {
  const box = (name, ...children) => svg("pattern", { id: `p-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    svg("rect", { width: 6, height: 6, class: `ground-${name}` }), children);
  return svg("svg", { width: 0, height: 0, "aria-hidden": "true", class: "defs" }, svg("defs", {},
    box("lost", svg("path", { d: "M-1,7 L7,-1 M-1,1 L1,-1 M5,7 L7,5", class: "ink-lost" })),
    box("written", svg("circle", { cx: 3, cy: 3, r: 1.1, class: "ink-written" })),
    box("unknown", svg("path", { d: "M0,3 H6", class: "ink-unknown" }))));
}

const swatch = (name, letter, words) => el("span", { class: "key" },
  svg("svg", { width: 14, height: 12, "aria-hidden": "true" }, svg("rect", { width: 14, height: 12, class: name })), ` ${letter ? `${letter} ` : ""}${words}`);
const stateLegend = () => el("p", { class: "legend" }, index.states.map((s) => swatch(`state ${s}`, LETTERS[s], STATE_WORDS[s])), swatch("break-key", "", "first change"));
const kindLegend = (kinds) => el("p", { class: "legend" }, kinds.map((k) => swatch(`kind ${index.kinds[k]}`, "", words(index.kinds[k]))));

/** node, and draw(turn): the curve is stacked by kind, the projected part is dashed, below it each turn's change. */
function depthChart(block, pick) {
  const { calls, depth } = block;
  const usages = calls.map((c) => c.context.usage);
  const last = calls.length, peak = depth.peak ?? 0;
  const kinds = [...new Set(calls.flatMap((c) => Object.keys(c.kinds ?? {}).map(Number)))].sort((a, b) => a - b);
  const near = depth.limit && peak > depth.limit / 4;
  let toLimit = Boolean(near), turn = last;
  const box = el("div", { class: "chart" });
  const readout = el("p", { class: "readout" });
  const toggle = el("button", { type: "button", "aria-pressed": String(toLimit), onclick: () => { toLimit = !toLimit; toggle.setAttribute("aria-pressed", String(toLimit)); draw(); } }, "scale to the limit");

  function tell(at) {
    const c = calls[at - 1];
    if (!c) return;
    const parts = [`turn ${c.turn}`, `${count(c.context.usage)} tokens`];
    if (c.context.limit) parts.push(`${percent(c.context.usage, c.context.limit)} of ${count(c.context.limit)}`);
    if (known(c.change)) parts.push(`${signed(c.change)} since the turn before`);
    readout.textContent = parts.join(" · ");
  }

  let drawn = "", mark = () => {};
  function draw(now = turn) {
    turn = now;
    const looks = `${box.clientWidth} ${toLimit}`;
    if (looks === drawn) return mark();
    drawn = looks;
    const width = Math.max(280, box.clientWidth || 640), height = 200, left = 52, bars = 44, bottom = 18;
    const end = Math.max(2, last + Math.max(1, Math.round(last * 0.2)));
    const top = Math.max(1, toLimit && depth.limit ? depth.limit * 1.04 : Math.min(peak * 1.25, depth.limit ? depth.limit * 1.04 : Infinity));
    const x = (t) => left + ((t - 1) / (end - 1)) * (width - left - 8);
    const y = (n) => 8 + (1 - n / top) * (height - 8);
    const step = Math.max(1, Math.ceil(last / POINTS));
    const at = calls.map((_, i) => i).filter((i) => i % step === 0 || i === last - 1);
    const layers = [];
    const base = new Map(at.map((i) => [i, 0]));
    for (const kind of kinds) {
      const upper = [], lower = [];
      for (const i of at) {
        const from = base.get(i), to = from + (calls[i].kinds?.[kind] ?? 0);
        lower.push(`${x(i + 1).toFixed(1)},${y(from).toFixed(1)}`);
        upper.push(`${x(i + 1).toFixed(1)},${y(to).toFixed(1)}`);
        base.set(i, to);
      }
      const alone = at.length === 1; // one turn has no width: it is a bar
      const points = alone ? [[x(1) - 4, upper[0]], [x(1) + 4, upper[0]], [x(1) + 4, lower[0]], [x(1) - 4, lower[0]]].map(([px, p]) => `${px},${p.split(",")[1]}`) : [...upper, ...lower.reverse()];
      layers.push(svg("polygon", { points: points.join(" "), class: `kind ${index.kinds[kind]}` }));
    }
    const line = at.filter((i) => known(usages[i])).map((i, n) => `${n ? "L" : "M"}${x(i + 1).toFixed(1)},${y(usages[i]).toFixed(1)}`).join("");
    const marks = [];
    for (const n of [0, top / 2, top].map(Math.round)) {
      marks.push(svg("text", { x: left - 6, y: y(n) + 4, class: "axis end" }, short(n)));
    }
    for (const t of new Set([1, Math.ceil(last / 2), last])) {
      marks.push(svg("text", { x: x(t), y: height + bars + bottom - 4, class: "axis middle" }, String(calls[t - 1].turn)));
    }
    if (depth.limit && depth.limit <= top) {
      marks.push(svg("path", { d: `M${left},${y(depth.limit)}H${width - 8}`, class: "limit" }), svg("text", { x: left + 6, y: y(depth.limit) + 13, class: "axis strong" }, `limit ${count(depth.limit)}`));
    } else if (depth.limit) {
      marks.push(svg("text", { x: left + 6, y: 20, class: "axis" }, `limit ${count(depth.limit)}, far above`));
    }
    const final = usages[last - 1];
    if (known(final) && depth.growth > 0) {
      const stop = Math.min(end, known(depth.full_at) ? depth.full_at - calls[last - 1].turn + last : end);
      marks.push(svg("path", { d: `M${x(last)},${y(final)}L${x(stop)},${y(Math.min(top, final + depth.growth * (stop - last)))}`, class: "projected" }));
    }
    const most = Math.max(1, ...calls.map((c) => Math.abs(c.change ?? 0)));
    const zero = height + 6 + bars / 2, wide = Math.max(1, Math.min(10, (width - left) / end - 1));
    const changes = at.filter((i) => calls[i].change).map((i) => {
      const size = Math.max(1, (Math.abs(calls[i].change) / most) * (bars / 2 - 3));
      return svg("rect", { x: x(i + 1) - wide / 2, y: calls[i].change > 0 ? zero - size : zero, width: wide, height: size, class: calls[i].change > 0 ? "grew" : "shrank" });
    });
    const here = svg("path", { class: "now" });
    mark = () => { here.setAttribute("d", `M${x(turn)},4V${height + bars + 4}`); tell(turn); };
    const picture = svg("svg", {
      width, height: height + bars + bottom, role: "img", "aria-label": summary(),
      onclick: (e) => pick(turnAt(e)), onmousemove: (e) => tell(turnAt(e)), onmouseleave: () => tell(turn),
    }, layers, svg("path", { d: line, class: "curve" }), marks,
    svg("path", { d: `M${left},${zero}H${width - 8}`, class: "zero" }), changes, svg("text", { x: left - 6, y: zero + 4, class: "axis end" }, "change"),
    here);
    const turnAt = (e) => {
      const rect = picture.getBoundingClientRect();
      return Math.max(1, Math.min(last, Math.round(1 + ((e.clientX - rect.left - left) / (width - left - 8)) * (end - 1))));
    };
    box.replaceChildren(picture);
    mark();
  }

  function summary() {
    const parts = [`Depth over ${many(last, "turn")}, peak ${count(depth.peak)} tokens`];
    if (depth.limit) parts.push(`limit ${count(depth.limit)}`);
    if (depth.full_at) parts.push(`full at about turn ${wholeTurns(depth.full_at)}`);
    return parts.join(", ");
  }
  new ResizeObserver(() => { if (Math.abs((box.firstChild?.clientWidth ?? 0) - box.clientWidth) > 2) draw(); }).observe(box);
  return { node: el("div", {}, box, readout, kindLegend(kinds), depth.limit && !near ? toggle : null), draw };
}

const NARROW = 3; // pixels

/** One row of the prefix map: what the cache did on top, the kinds of the segments below; a mark at the first change. */
function mapRow(block, at, most, width) {
  const call = block.calls[at], { parts = [], break: broken } = call.row;
  const x = (n) => (n / Math.max(1, most)) * width;
  const shapes = [];
  let start = 0;
  for (const [state, tokens] of parts) {
    const name = index.states[state], w = x(tokens);
    shapes.push(svg("rect", { x: x(start), y: 1, width: Math.max(w, 0.5), height: 13, class: `state ${name}` }));
    if (w > 34) shapes.push(svg("g", { class: "letter" }, svg("rect", { x: x(start) + 9, y: 2, width: 12, height: 11 }), svg("text", { x: x(start) + 15, y: 11 }, LETTERS[name])));
    start += tokens;
  }
  const scale = (call.context.usage ?? 0) / Math.max(1, wholeOf(call)); // counts above the usage are shares of it
  let from = 0, bucket = new Map(); // segments too narrow to be seen are drawn together, as the kind that most of them are
  const flush = (to) => {
    if (to - from <= 0) return;
    const kind = [...bucket].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    shapes.push(svg("rect", { x: from, y: 15, width: Math.max(to - from - (to - from > NARROW ? 1 : 0), 0.4), height: 4, class: `kind ${index.kinds[kind]}` }));
    from = to;
    bucket = new Map();
  };
  let to = 0;
  for (const segment of segmentsOf(block, at)) {
    const w = x((tokensOf(segment, call) ?? 0) * scale), kind = segment[SEGMENT.kind];
    if (w > NARROW) {
      flush(to);
      shapes.push(svg("path", { d: `M${to},1V14`, class: "edge" }));
    }
    bucket.set(kind, (bucket.get(kind) ?? 0) + w);
    to += w;
    if (to - from >= NARROW) flush(to);
  }
  flush(to);
  const edge = Math.min(Math.max(x(broken ?? 0), 4), width - 4);
  if (known(broken)) shapes.push(svg("path", { d: `M${edge - 4},0h8l-4,6zM${edge},0V20`, class: "break" }));
  const told = parts.map(([s, n]) => `${STATE_WORDS[index.states[s]]} ${count(n)}`).join(", ");
  const said = `${told || "not told"}${known(broken) ? `; first change after ${count(broken)} tokens` : ""}`;
  return svg("svg", { width, height: 20, role: "img", "aria-label": said, class: "map" }, svg("title", {}, said), shapes);
}

const TARGET = 24; // pixels that a finger can hit: what is smaller is only in the list of segments

/** The tiles of a window: an area for each kind, and one for each large segment in it. */
function treemap(block, at, pick, width) {
  const call = block.calls[at], segments = segmentsOf(block, at);
  const [w, h] = index.treemap;
  const sized = (call.tiles ?? []).map(([kind, segment, x, y, tw, th, tokens]) => [kind, segment, x, y, tw, th, tokens ?? tokensOf(segments[segment], call)]);
  const whole = wholeOf(call);
  const tiles = sized.map(([kind, segment, x, y, tw, th, tokens]) => {
    const name = words(index.kinds[kind]);
    const one = segment >= 0 ? segments[segment] : null;
    const label = one ? one[SEGMENT.name] || one[SEGMENT.path] : segment < -1 ? `${count(-1 - segment)} more` : name;
    const large = segment >= 0 && Math.min(tw, th) * (width || w) >= TARGET * w;
    const tile = el(large ? "button" : "div", {
      type: large ? "button" : null, class: `tile kind-${index.kinds[kind]}`,
      title: `${name} · ${visible(label)} · ${count(tokens)} tokens (${percent(tokens, whole)})`,
      onclick: large ? () => pick(segment) : null,
    }, el("span", {}, el("b", {}, name), label === name ? null : ` ${visible(label)}`), el("span", {}, `${short(tokens)} · ${percent(tokens, whole)}`));
    Object.assign(tile.style, { left: `${(100 * x) / w}%`, top: `${(100 * y) / h}%`, width: `${(100 * tw) / w}%`, height: `${(100 * th) / h}%` });
    if (tw < w / 14 || th < h / 12) tile.classList.add("small");
    else if (th < h / 6) tile.classList.add("flat");
    return tile;
  });
  return tiles.length ? el("div", { class: "treemap" }, tiles) : el("p", { class: "empty" }, "Of this call no content and no usage was seen.");
}
