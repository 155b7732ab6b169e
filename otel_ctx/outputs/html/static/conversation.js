// A conversation: its turns, and the window, the cache and the prompt at the chosen one.

function conversation(number) {
  const c = numbered[number], block = conversationBlock(number);
  const heading = el("h1", { tabindex: -1 }, c.name, el("span", { class: "note" }, ` ${visible(markOf(c))}`));
  if (!block) {
    return { node: el("section", {}, heading, el("p", {}, "The details of this conversation were left out: the file is bounded. Make a report of fewer conversations to see them.")), heading, title: c.name, update() {}, print() {} };
  }
  const { calls } = block, last = calls.length;
  const ids = c.calls, mine = new Set(ids);
  const own = [...(found.conversations.get(number) ?? [])].sort((a, b) => a - b);
  const turnOf = (call) => index.calls[call][CALL.turn];
  const at = () => Math.max(0, ids.findIndex((id) => turnOf(id) === (place.number("t") ?? turnOf(ids[last - 1]))));
  const turns = ids.map(turnOf);
  const pick = (position) => place.go({ t: turns[Math.max(0, Math.min(last - 1, position - 1))], s: "" });
  const pickSegment = (i) => { place.go({ s: i }); inspector.node.scrollIntoView({ block: "nearest" }); };
  const against = () => {
    const asked = turns.indexOf(place.number("b"));
    if (asked >= 0) return asked;
    const before = ids.indexOf(calls[at()].previous);
    return before >= 0 ? before : Math.max(0, at() - 1);
  };

  // ---- the turn
  const slider = el("input", { type: "range", min: 1, max: last, id: "turn", "aria-label": "Turn", oninput: () => pick(Number(slider.value)) });
  const where = el("output", { for: "turn" });
  const step = (by, label, name) => el("button", { type: "button", "aria-label": name, title: name, onclick: () => pick(at() + 1 + by) }, label);
  const jump = (label, name, test) => el("button", { type: "button", title: name, onclick: () => next(test) }, label);
  const broke = (i) => known(calls[i].cache?.break) || known(calls[i].row.break);
  const hasFinding = (i) => found.calls.has(ids[i]);
  function next(test) {
    for (let n = 1; n <= last; n++) {
      const i = (at() + n) % last;
      if (test(i)) return pick(i + 1);
    }
    say("There is none in this conversation.");
  }
  const scrubber = el("div", { class: "scrubber", role: "group", "aria-label": "Choose a turn" },
    step(-1, "◀", "Turn before"), slider, step(1, "▶", "Next turn"), where,
    jump("next break", "Next turn whose prefix broke (b)", broke), jump("next finding", "Next turn with a finding (f)", hasFinding));

  // ---- panels
  const depth = depthChart(block, pick);
  const depthPanel = panel("Depth over turns", "", depth.node);
  const most = Math.max(1, ...calls.map((call) => call.context.usage ?? 0));
  const mapWidth = () => Math.max(120, (map.node.clientWidth || 600) - (innerWidth < 640 ? 44 : 122));
  const mapRows = new Map(); // they are the same at every turn
  const drawnRow = (i) => {
    if (!mapRows.has(i)) {
      if (mapRows.size > 300) mapRows.clear();
      mapRows.set(i, mapRow(block, i, most, mapWidth()));
    }
    return mapRows.get(i);
  };
  const map = grid({
    label: "Prefix map", key: (i) => i, open: (i) => pick(i + 1), height: 320, rowHeight: 22, rows: last,
    columns: [
      { name: "turn", num: true, width: "40px", narrow: "32px", cell: (i) => String(turns[i]) },
      { name: "from the first token to the last", cell: drawnRow },
      { name: "tokens", num: true, wide: true, width: "64px", cell: (i) => short(calls[i].context.usage) },
    ],
  });
  const sources = new Set(calls.map((call) => call.row.source));
  const mapPanel = panel("Prefix map", [...sources].map((s) => ({ reported: "as the provider reports", predicted: "predicted by the rules", unknown: "cache not told" })[s]).join(", "), map.node, stateLegend());
  const tiles = el("div");
  const windowPanel = panel("What fills the window", "", tiles);
  const turnFacts = el("div"), states = el("div"), turnFindings = el("div");
  const turnPanel = panel("This turn", "", turnFacts, states, turnFindings);
  const cache = grid({
    label: "Cache by turn", key: (i) => i, open: (i) => pick(i + 1), height: 300,
    columns: [
      { name: "turn", num: true, width: "36px", narrow: "34px", cell: (i) => String(turns[i]), value: (i) => turns[i] },
      { name: "outcome", width: "72px", narrow: "62px", cell: (i) => words(calls[i].cache.outcome ?? NOTHING), value: (i) => calls[i].cache.outcome },
      { name: "predicted", num: true, wide: true, width: "66px", cell: (i) => count(calls[i].cache.predicted?.read), value: (i) => calls[i].cache.predicted?.read },
      { name: "reported", num: true, width: "64px", narrow: "58px", cell: (i) => count(calls[i].cache.reported?.read), value: (i) => calls[i].cache.reported?.read },
      { name: "optimal", num: true, wide: true, width: "62px", cell: (i) => count(calls[i].cache.optimal?.read), value: (i) => calls[i].cache.optimal?.read },
      { name: "lost", num: true, width: "54px", narrow: "46px", cell: (i) => count(calls[i].waste?.tokens), value: (i) => calls[i].waste?.tokens },
      { name: "lost $", num: true, wide: true, width: "62px", cell: (i) => usd(calls[i].waste?.usd), value: (i) => calls[i].waste?.usd },
      { name: "cause", cell: (i) => words(calls[i].cache.cause ?? NOTHING), value: (i) => calls[i].cache.cause },
      { name: "evidence", wide: true, width: "70px", cell: (i) => calls[i].cache.evidence ?? NOTHING, value: (i) => calls[i].cache.evidence },
    ],
  });
  const cachePanel = panel("Cache", "tokens read, by turn", cache.node);
  const findingsPanel = panel("Findings", count(own.length), own.length
    ? el("ul", { class: "findings" }, own.map((i) => findingItem(i, (call) => mine.has(call))))
    : el("p", { class: "empty" }, "Nothing was found in what could be seen of this conversation."));
  const from = el("select", { id: "against", "aria-label": "Compare with turn", onchange: () => place.go({ b: from.value }) }, turns.map((t) => el("option", { value: t }, `turn ${t}`)));
  const changes = el("div");
  const comparePanel = panel("What changed", "", el("p", {}, el("label", {}, "from ", from), " to the chosen turn"), changes);

  let segments = [];
  const filter = el("input", { type: "search", id: "segments", placeholder: "search segments", "aria-label": "Search segments", oninput: () => listSegments() });
  const segmentList = grid({
    label: "Segments", key: (i) => i, open: pickSegment, height: 320, nothing: "No segment matches, or none was seen.",
    columns: [
      { name: "#", num: true, wide: true, width: "34px", cell: (i) => String(i + 1), value: (i) => i },
      { name: "kind", width: "90px", narrow: "76px", cell: (i) => [el("span", { class: `dot kind-${index.kinds[segments[i][SEGMENT.kind]]}`, "aria-hidden": "true" }), words(index.kinds[segments[i][SEGMENT.kind]])], value: (i) => segments[i][SEGMENT.kind] },
      { name: "path", width: "minmax(140px, 1.2fr)", narrow: "minmax(0, 1fr)", cell: (i) => visible(segments[i][SEGMENT.path]), value: (i) => segments[i][SEGMENT.path] },
      { name: "name", wide: true, cell: (i) => visible(segments[i][SEGMENT.name] ?? ""), value: (i) => segments[i][SEGMENT.name] },
      { name: "tokens", num: true, width: "60px", narrow: "56px", cell: (i) => count(tokensOf(segments[i], calls[at()])), value: (i) => segments[i][SEGMENT.tokens] },
      { name: "share", num: true, wide: true, width: "44px", cell: (i) => percent(tokensOf(segments[i], calls[at()]), wholeOf(calls[at()])), value: (i) => segments[i][SEGMENT.tokens] },
      { name: "mark", wide: true, width: "44px", cell: (i) => segments[i][SEGMENT.marker] ?? "" },
      { name: "hash", wide: true, width: "66px", cell: (i) => el("code", {}, segments[i][SEGMENT.digest].slice(0, 8)) },
    ],
  });
  const segmentsPanel = panel("Segments", "", el("p", {}, filter), segmentList.node);
  const inspected = el("div");
  const inspector = panel("Segment", "", inspected);
  const toolsPanel = panel("Tools and duplicates", "", toolTable(block, last), duplicates(own, mine));
  const unchecked = index.not_checked.filter((n) => (n.calls ?? []).some((call) => mine.has(call)));
  const uncheckedPanel = panel("Not checked", count(unchecked.length), uncheckedList(unchecked, (call) => mine.has(call)), seenWhole(calls));
  const panels = [depthPanel, mapPanel, windowPanel, turnPanel, findingsPanel, cachePanel, segmentsPanel, comparePanel, inspector, toolsPanel, uncheckedPanel];
  panels.forEach((p, i) => { p.node.style.order = i; }); // where the two columns are one
  const columns = [[depthPanel, windowPanel, segmentsPanel, inspector, toolsPanel], [mapPanel, turnPanel, findingsPanel, cachePanel, comparePanel, uncheckedPanel]];

  const siblings = (by) => openConversation((number + by + numbered.length) % numbered.length);
  const node = el("div", {},
    el("section", { "aria-label": "Conversation", class: "lead" }, el("div", { class: "title" }, heading,
      numbered.length > 1 ? el("span", { class: "near" }, el("button", { type: "button", title: "Conversation before ( [ )", onclick: () => siblings(-1) }, "before"), el("button", { type: "button", title: "Next conversation ( ] )", onclick: () => siblings(1) }, "next")) : null),
    facts([
      ["turns", count(last)], ["depth", `${count(c.usage_last)}${c.limit ? ` of ${count(c.limit)}` : ""}`], ["headroom", tag(c.band)],
      ["tokens left", count(c.headroom)], ["turns left", wholeTurns(c.headroom_turns)], ["growth", known(block.depth.growth) ? `${signed(block.depth.growth)} a turn` : null],
      ["full at", block.depth.full_at ? `turn ${wholeTurns(block.depth.full_at)}` : null],
      ["billed again", known(c.wasted) ? count(c.wasted) : "not checked", c.wasted ? "bad" : ""], ["list price", usdRange(c.usd_low, c.usd_high)],
      ["a restart would save", c.saved_by_restarting ? `${short(c.saved_by_restarting)} tokens over the turns left` : null], ["gaps", c.gaps ? count(c.gaps) : null],
      ["joined", c.joined ? "its beginning was not seen" : null], ["models", visible((c.models ?? []).join(", "))],
      ["continues", known(c.parent) ? el("button", { type: "button", class: "link", onclick: () => openCall(c.parent) }, "its parent") : null],
    ])),
    scrubber, el("div", { class: "panels" }, columns.map((column) => el("div", { class: "column" }, column.map((p) => p.node)))));

  function listSegments() {
    const q = filter.value.toLowerCase();
    const text = (s) => (q.length > 1 ? textOf(s)?.text : "") ?? "";
    segmentList.set(segments.map((_, i) => i).filter((i) => !q || `${index.kinds[segments[i][SEGMENT.kind]]} ${segments[i][SEGMENT.path]} ${segments[i][SEGMENT.name] ?? ""} ${text(segments[i])}`.toLowerCase().includes(q)));
    segmentsPanel.noted.textContent = `turn ${turns[at()]}: ${segmentList.size === segments.length ? count(segments.length) : `${count(segmentList.size)} of ${count(segments.length)}`}`;
  }

  function inspect() {
    const s = segments[place.number("s")], call = calls[at()];
    inspector.noted.textContent = s ? visible(s[SEGMENT.path]) : "";
    if (!s) return inspected.replaceChildren(el("p", { class: "empty" }, "Choose a segment: a tile of the window, or a row of the list."));
    const t = textOf(s), same = segments.filter((o) => o[SEGMENT.digest] === s[SEGMENT.digest]).length;
    inspected.replaceChildren(facts([
      ["kind", words(index.kinds[s[SEGMENT.kind]])], ["role", s[SEGMENT.role]], ["name", s[SEGMENT.name] && visible(s[SEGMENT.name])],
      ["tokens", `${count(tokensOf(s, call))} (${call.tokens.method})`], ["of the window", percent(tokensOf(s, call), wholeOf(call))], ["bytes", count(s[SEGMENT.bytes])],
      ["cache marker", s[SEGMENT.marker]], ["hash", el("code", {}, s[SEGMENT.digest])], ["in this prompt", same > 1 ? `${same} times` : null],
      ["origin", s[SEGMENT.inferred] ? "restored from an earlier answer" : null],
    ]), t ? el("pre", { class: "text tall", tabindex: 0, "aria-label": "Text of the segment" }, visible(t.text)) : el("p", { class: "note" }, index.redacted ? "Redacted: no prompt text is in this file." : "Its text is not in this file."),
    ...(t && t.whole > t.text.length ? [el("p", { class: "note" }, `Cut: the first ${count(t.text.length)} of ${count(t.whole)} characters.`)] : []));
  }

  let drawn = null;
  function update() {
    const i = at(), call = calls[i], b = against();
    slider.value = i + 1;
    slider.setAttribute("aria-valuetext", `turn ${turns[i]} of ${turns[last - 1]}`);
    where.textContent = `turn ${turns[i]} of ${count(turns[last - 1])}`;
    const state = `${i} ${b}`;
    if (drawn !== state) {
      segments = segmentsOf(block, i);
      depth.draw(i + 1);
      map.mark(i);
      cache.mark(i);
      const used = new Set((call.tiles ?? []).map((t) => t[0]));
      tiles.replaceChildren(treemap(block, i, pickSegment, tiles.clientWidth), kindLegend([...used].sort((x, y) => x - y)));
      windowPanel.noted.textContent = `turn ${turns[i]}: ${count(call.context.usage)} tokens, ${({ exact: "counted exactly", calibrated: `estimated, scaled ×${(call.tokens.factor ?? 1).toFixed(2)} to the usage`, estimated: "estimated", unmeasured: "not counted" })[call.tokens.method]}${over(call)}`;
      turnPanel.noted.textContent = `${turns[i]} · ${call.relation}`;
      turnFacts.replaceChildren(callFacts(call));
      states.replaceChildren(stateTable(call));
      const told = found.calls.get(ids[i]) ?? [];
      turnFindings.replaceChildren(...(told.length ? [el("p", {}, told.map((f) => [tag(index.findings[f].severity), ` ${visible(index.findings[f].title)} `, el("br")]))] : []));
      from.value = turns[b];
      comparePanel.noted.textContent = `turn ${turns[b]} → turn ${turns[i]}`;
      changes.replaceChildren(...(i === b ? [el("p", { class: "empty" }, "Choose another turn to compare with.")] : comparison(block, b, i, (s) => pickSegment(segments.indexOf(s)))).filter(Boolean));
      listSegments();
      drawn = state;
    }
    if (known(place.number("s"))) segmentList.mark(place.number("s"));
    inspect();
  }

  const keys = {
    ArrowLeft: () => pick(at()), ArrowRight: () => pick(at() + 2), Home: () => pick(1), End: () => pick(last),
    b: () => next(broke), f: () => next(hasFinding), c: () => { place.go({ b: turns[at()] }); say(`Compared with turn ${turns[at()]}.`); },
    "[": () => siblings(-1), "]": () => siblings(1),
  };
  const resized = () => { drawn = null; mapRows.clear(); map.draw(); update(); };
  addEventListener("resize", resized);
  return {
    node, heading, update, keys, title: c.name, panels,
    started() { map.set(calls.map((_, i) => i)); cache.set(calls.map((_, i) => i)); depth.draw(at() + 1); },
    print(on) { for (const list of [map, cache, segmentList]) list.print(on); },
    closed() { removeEventListener("resize", resized); },
  };
}

/** That more was counted than the provider reports, where it is more than rounding. */
function over(call) {
  const reported = call.usage?.input, counted = countedOf(call);
  return reported && counted > 1.01 * reported ? `; the count is ${percent(counted - reported, reported)} above the reported usage` : "";
}

function callFacts(call) {
  const u = call.usage ?? {}, done = call.completeness;
  return facts([
    ["model", visible(call.model ?? "")], ["at", time(call.start)], ["took", known(call.ms) ? `${count(call.ms)} ms` : null], ["first token", known(call.first_token_ms) ? `${count(call.first_token_ms)} ms` : null],
    ["tokens in", count(u.input)], ["tokens out", count(u.output)], ["reasoning", u.reasoning ? count(u.reasoning) : null], ["list price", usd(call.cost?.usd) + (call.cost && call.cost.usd_low !== call.cost.usd_high ? ` (${usd(call.cost.usd_low)} to ${usd(call.cost.usd_high)})` : "")],
    ["in the window", `${count(call.context.usage)}${call.context.limit ? ` (${percent(call.context.usage, call.context.limit)})` : ""}`], ["reserved", call.context.reserve ? count(call.context.reserve) : null],
    ["status", call.status === "ok" ? null : `${call.status}${call.error ? `: ${visible(call.error)}` : ""}`, "bad"],
    ["seen", done.status === "full" ? "in full" : `${words(done.status)}: ${(done.reasons ?? []).map(words).join(", ") || "no reason told"}`, done.status === "full" ? "" : "bad"],
    ["told by", `${visible(call.dialect)}${call.scope ? ` (${[call.scope, call.scope_version].filter(Boolean).map(visible).join(" ")})` : ""}`], ["spans", known(call.spans) ? count(call.spans) : null],
    ["id", el("code", {}, visible(call.id))],
  ]);
}

// As the terminal names them.
const BREAKS = { modified: "changed", added: "inserted", removed: "gone", reordered: "order changed" };

/** Predicted, reported and optimal side by side, with cause and evidence. */
function stateTable(call) {
  const cache = call.cache ?? {}, columns = ["predicted", "reported", "optimal"];
  const rows = [["read", "read"], ["written", "write"], ["not cached", "uncached"]];
  const b = cache.break;
  return el("div", {},
    el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "cache"), columns.map((c) => el("th", { scope: "col", class: "num" }, c)))),
      el("tbody", {}, rows.map(([name, key]) => el("tr", {}, el("th", { scope: "row" }, name), columns.map((c) => el("td", { class: "num" }, count(cache[c]?.[key]))))))),
    facts([
      ["outcome", words(cache.outcome ?? "not told")], ["cause", cache.cause && words(cache.cause)], ["evidence", cache.evidence],
      ["billed again", call.waste?.tokens ? `${count(call.waste.tokens)} tokens${known(call.waste.usd) ? `, ${usd(call.waste.usd)}` : ""}` : null, "bad"],
      ["first change", b ? `${visible(b.path)} (${words(b.kind)}) ${BREAKS[b.change]}${known(b.char_offset) ? ` at character ${count(b.char_offset)}` : ""}` : null],
    ]));
}

function toolTable(block, turns) {
  if (!block.tools.length) return el("p", { class: "empty" }, "No tool definitions were seen in this conversation.");
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table of tools" }, el("table", {},
    el("thead", {}, el("tr", {}, ["tool", "tokens", "in requests", "called"].map((h, i) => el("th", { scope: "col", class: i ? "num" : null }, h)))),
    el("tbody", {}, block.tools.map(([name, path, tokens, requests, called]) => el("tr", { class: called === 0 ? "dead" : null },
      el("th", { scope: "row" }, visible(name || path)), el("td", { class: "num" }, count(tokens)), el("td", { class: "num" }, `${count(requests)} of ${count(turns)}`),
      el("td", { class: "num" }, known(called) ? (called ? count(called) : "never") : NOTHING))))));
}

function duplicates(own, mine) {
  const twice = own.filter((i) => ["duplicate_content", "dead_tool_schema"].includes(index.findings[i].kind));
  return twice.length ? el("ul", { class: "unchecked" }, twice.map((i) => {
    const f = index.findings[i], last = f.calls.filter((call) => mine.has(call)).pop();
    return el("li", {}, el("code", {}, f.kind), ` ${visible(f.title)} · ${visible(f.path ?? "")} · ${count(f.tokens)} tokens · `,
      el("button", { type: "button", class: "link", onclick: () => openCall(last) }, `turn ${index.calls[last][CALL.turn]}`));
  })) : el("p", { class: "empty" }, "No duplicate content and no dead tool was found.");
}

function seenWhole(calls) {
  const sums = {};
  for (const call of calls) {
    const key = [call.completeness.status, ...(call.completeness.reasons ?? [])].join(" ");
    sums[key] = (sums[key] ?? 0) + 1;
  }
  return el("ul", { class: "unchecked" }, Object.entries(sums).map(([key, n]) => {
    const [status, ...reasons] = key.split(" ");
    return el("li", {}, `${many(n, "call")}: content ${status === "full" ? "seen in full" : words(status)}${reasons.length ? ` (${reasons.map(words).join(", ")})` : ""}`);
  }));
}
