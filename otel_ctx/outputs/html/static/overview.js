// The first page: totals, services, and everything in lists that can be searched, filtered and sorted.

const BANDS = ["exceeded", "critical", "low", "ok", "unknown"];
const MARKS = { error: "✖", warning: "▲", info: "ℹ", exceeded: "✖", critical: "✖", low: "▲", ok: "✓", unknown: "?" };
const tag = (name) => el("span", { class: `tag ${name}` }, `${MARKS[name] ? `${MARKS[name]} ` : ""}${words(name)}`);
const numbered = index.conversations.map((c, i) => ({ ...c, number: i, name: titleOf(c) }));

function totals() {
  const t = index.totals, u = t.usage, left = index.left_out;
  const notes = [];
  if (index.redacted) notes.push("Redacted: no prompt text is in this file.");
  if (left.cut) notes.push(`${many(left.cut, "text")} cut to ${count(left.characters)} characters.`);
  if (left.texts) notes.push(`${many(left.texts, "text")} left out: this file is bounded.`);
  if (left.conversations) notes.push(`${many(left.conversations, "conversation")} without details: this file is bounded; select fewer to see them.`);
  return [
    facts([
      ["calls", count(t.calls)], ["failed", t.errors ? count(t.errors) : null, "bad"], ["conversations", count(t.conversations)],
      ["tokens in", short(u.input)], ["read from cache", known(u.cache_read) ? `${short(u.cache_read)} (${percent(u.cache_read, u.input)})` : null],
      ["tokens out", short(u.output)], ["billed again", short(t.waste.tokens), t.waste.tokens ? "bad" : ""],
      ["that cost", usd(t.waste.usd)], ["list price", usdRange(t.cost.usd_low, t.cost.usd_high)], ["saved by cache", usd(t.cost.saved_usd)],
      ["from", time(Math.round((t.start_unix_nano ?? 0) / 1e6))],
    ]),
    t.cost.usd !== null && t.cost.priced_calls < t.reported_by ? el("p", { class: "note" }, `The cost is that of ${count(t.cost.priced_calls)} of ${many(t.calls, "call")}.`) : null,
    t.reported_by < t.calls ? el("p", { class: "note" }, `Usage is reported by ${count(t.reported_by)} of ${many(t.calls, "call")}.`) : null,
    notes.map((n) => el("p", { class: "note" }, n)),
  ];
}

/** What to look at first. */
function worst() {
  const first = index.findings.map((f, i) => i).filter((i) => index.findings[i].severity !== "info").slice(0, 3);
  if (!first.length) return null;
  return el("section", { "aria-label": "First" }, el("div", { class: "title" }, el("h2", {}, "Look at this first"),
    el("button", { type: "button", class: "link", onclick: () => place.go({ tab: "findings", q: "" }) }, `all ${many(index.findings.length, "finding")}`)),
    el("ul", { class: "unchecked" }, first.map((i) => {
      const f = index.findings[i], calls = f.calls ?? [];
      return el("li", {}, tag(f.severity), " ", el("b", {}, visible(f.title)), ` ${[f.tokens ? `${count(f.tokens)} tokens` : "", known(f.usd) ? usd(f.usd) : ""].filter(Boolean).join(" · ")} `,
        calls.length ? el("button", { type: "button", class: "link", onclick: () => openCall(calls[0]) }, `${many(calls.length, "call")}: go to the first`) : null);
    })));
}

function services() {
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table of services" }, el("table", {},
    el("thead", {}, el("tr", {}, ["service", "conversations", "calls", "failed", "tokens in", "billed again", "cost", "fullest window"].map((h, i) => el("th", { scope: "col", class: i ? "num" : null }, h)))),
    el("tbody", {}, index.services.map((s) => el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", "aria-pressed": String(place.get("service") === s.name), onclick: () => place.go({ service: place.get("service") === s.name ? "" : s.name, tab: "conversations" }) }, visible(s.name || "(not named)"))),
      [count(s.conversations), count(s.calls), count(s.errors), short(s.input), short(s.wasted), usd(s.usd), percent(s.fullest, 1)].map((v) => el("td", { class: "num" }, v)))))));
}

const link = (text, go) => el("button", { type: "button", class: "link", tabindex: -1, onclick: (e) => { e.stopPropagation(); go(); } }, text);

const TABS = {
  conversations: {
    rows: () => numbered, key: (c) => c.number, open: (c) => openConversation(c.number),
    match: (c, q) => `${c.name} ${c.id} ${(c.models ?? []).join(" ")} ${[...(found.conversations.get(c.number) ?? [])].map((i) => index.findings[i].kind).join(" ")}`.toLowerCase().includes(q),
    filters: { service: (c, v) => (c.services ?? []).includes(v), band: (c, v) => c.band === v },
    choices: { service: () => index.services.map((s) => s.name).filter(Boolean), band: () => BANDS },
    columns: [
      { name: "conversation", width: "minmax(160px, 2fr)", narrow: "minmax(0, 1fr)", cell: (c) => [link(c.name, () => openConversation(c.number)), el("span", { class: "note" }, ` ${visible(markOf(c))}`)], value: (c) => c.name },
      { name: "model", wide: true, cell: (c) => visible((c.models ?? []).join(", ")), value: (c) => (c.models ?? [""])[0] },
      { name: "turns", num: true, width: "64px", narrow: "36px", cell: (c) => count(c.calls.length), value: (c) => c.calls.length },
      { name: "depth", num: true, width: "72px", narrow: "44px", cell: (c) => short(c.usage_peak), value: (c) => c.usage_peak },
      { name: "window", wide: true, width: "110px", cell: (c) => gauge(c.usage_peak, c.limit), value: (c) => (c.limit ? c.usage_peak / c.limit : null) },
      { name: "turns left", num: true, wide: true, width: "84px", cell: (c) => wholeTurns(c.headroom_turns), value: (c) => c.headroom_turns },
      { name: "headroom", width: "96px", narrow: "68px", cell: (c) => tag(c.band), value: (c) => -BANDS.indexOf(c.band) },
      { name: "lost", num: true, width: "96px", narrow: "40px", cell: (c) => short(c.wasted), value: (c) => c.wasted },
      { name: "cost", num: true, wide: true, width: "80px", cell: (c) => usdRange(c.usd_low, c.usd_high), value: (c) => c.usd },
      { name: "findings", num: true, wide: true, width: "76px", cell: (c) => count(found.conversations.get(c.number)?.size ?? 0), value: (c) => found.conversations.get(c.number)?.size ?? 0 },
      { name: "start", wide: true, width: "150px", cell: (c) => time(c.start), value: (c) => c.start ?? null },
    ],
  },
  calls: {
    rows: () => index.calls.map((_, i) => i), key: (i) => i, open: openCall,
    match: (i, q) => `${numbered[index.calls[i][CALL.conversation]].name} ${index.calls[i][CALL.model] ?? ""} ${index.calls[i][CALL.cause] ?? ""}`.toLowerCase().includes(q),
    filters: {
      service: (i, v) => (numbered[index.calls[i][CALL.conversation]].services ?? []).includes(v),
      outcome: (i, v) => index.outcomes[index.calls[i][CALL.outcome]] === v, status: (i, v) => index.statuses[index.calls[i][CALL.status]] === v,
    },
    choices: { service: () => index.services.map((s) => s.name).filter(Boolean), outcome: () => index.outcomes, status: () => index.statuses },
    columns: [
      { name: "call", width: "minmax(140px, 2fr)", narrow: "minmax(0, 1fr)", cell: (i) => link(`${numbered[index.calls[i][CALL.conversation]].name} · turn ${index.calls[i][CALL.turn]}`, () => openCall(i)), value: (i) => `${numbered[index.calls[i][CALL.conversation]].name}` },
      { name: "model", wide: true, cell: (i) => visible(index.calls[i][CALL.model] ?? NOTHING), value: (i) => index.calls[i][CALL.model] },
      { name: "tokens", num: true, width: "80px", narrow: "60px", cell: (i) => count(index.calls[i][CALL.usage]), value: (i) => index.calls[i][CALL.usage] },
      { name: "cache", width: "110px", narrow: "72px", cell: (i) => words(index.outcomes[index.calls[i][CALL.outcome]] ?? NOTHING), value: (i) => index.calls[i][CALL.outcome] },
      { name: "cause", wide: true, width: "180px", cell: (i) => words(index.calls[i][CALL.cause] ?? NOTHING), value: (i) => index.calls[i][CALL.cause] },
      { name: "lost", num: true, width: "96px", narrow: "60px", cell: (i) => short(index.calls[i][CALL.wasted]), value: (i) => index.calls[i][CALL.wasted] },
      { name: "cost", num: true, wide: true, width: "80px", cell: (i) => usd(index.calls[i][CALL.usd]), value: (i) => index.calls[i][CALL.usd] },
      { name: "status", wide: true, width: "80px", cell: (i) => index.statuses[index.calls[i][CALL.status]], value: (i) => index.calls[i][CALL.status] },
      { name: "start", wide: true, width: "150px", cell: (i) => time(index.calls[i][CALL.start]), value: (i) => index.calls[i][CALL.start] || null },
    ],
  },
};

/** A bar of how full a window is, with its number. */
function gauge(part, whole) {
  if (!known(part) || !whole) return NOTHING;
  const bar = el("span", { class: "bar" });
  bar.style.width = `${Math.min(100, (100 * part) / whole)}%`;
  return el("span", { class: "gauge" }, el("span", { class: "track", "aria-hidden": "true" }, bar), el("span", {}, percent(part, whole)));
}

/** A finding, with its links, its fix and its money. */
function findingItem(i, wanted = null) {
  const f = index.findings[i], calls = f.calls ?? [];
  const shown = wanted ? calls.filter((c) => wanted(c)) : calls;
  const turns = shown.slice(0, 24).map((c) => el("button", { type: "button", class: "link", onclick: () => openCall(c) },
    wanted ? String(index.calls[c][CALL.turn]) : `${numbered[index.calls[c][CALL.conversation]].name} · ${index.calls[c][CALL.turn]}`));
  const facts_ = [f.path && visible(f.path), f.tokens ? `${count(f.tokens)} tokens` : null, known(f.usd) ? usd(f.usd) : null, f.evidence];
  return el("li", { class: `finding ${f.severity}` },
    el("p", {}, tag(f.severity), " ", el("b", {}, visible(f.title)), " ", el("code", {}, f.kind)),
    el("p", { class: "note" }, facts_.filter(Boolean).join(" · ")),
    f.detail ? el("p", {}, visible(f.detail)) : null,
    f.excerpt ? el("pre", { class: "text clip" }, visible(f.excerpt)) : null,
    f.fix ? el("p", { class: "fix" }, el("b", {}, "Fix: "), visible(f.fix)) : null,
    el("p", { class: "turns" }, wanted ? "turns " : "calls ", turns.map((t) => [t, " "]), shown.length > 24 ? `and ${count(shown.length - 24)} more` : null));
}

const findingText = (f) => `${f.kind} ${f.title} ${f.detail ?? ""} ${f.fix ?? ""} ${f.path ?? ""}`.toLowerCase();

function overview() {
  const heading = el("h1", { tabindex: -1 }, "Report");
  const names = { conversations: "Conversations", calls: "Calls", findings: "Findings", unchecked: "Not checked", input: "Input" };
  const sizes = { conversations: index.conversations.length, calls: index.calls.length, findings: index.findings.length, unchecked: index.not_checked.length, input: index.input.files.length };
  const tabs = Object.entries(names).map(([key, name]) => el("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "panel", onclick: () => place.go({ tab: key, q: "" }) }, name, el("span", { class: "note" }, ` ${count(sizes[key])}`)));
  const bar = el("div", { role: "tablist", "aria-label": "What to list", onkeydown: (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    e.stopPropagation();
    const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
    tabs[next].focus();
    tabs[next].click();
  } }, tabs);
  const search = el("input", { type: "search", id: "search", placeholder: "search  ( / )", "aria-label": "Search this list", oninput: () => place.go({ q: search.value }) });
  const filters = el("span", { class: "filters" });
  const tally = el("span", { class: "note", role: "status" });
  const content = el("div", { role: "tabpanel", id: "panel" });
  const node = el("div", {}, el("section", { "aria-label": "Totals" }, el("div", { class: "title" }, heading), totals()),
    worst(),
    index.services.length ? el("section", { "aria-label": "Services" }, el("div", { class: "title" }, el("h2", {}, "Services")), services()) : null,
    el("section", { "aria-label": "Lists" }, bar, el("div", { class: "tools" }, search, filters, tally), content));
  const list = {};
  let shown = null;

  function choose(tab) {
    const choices = tab === "findings" ? { severity: () => ["error", "warning", "info"] } : TABS[tab]?.choices ?? {};
    filters.replaceChildren(...Object.entries(choices).filter(([, all]) => all().length > 1).map(([key, all]) => el("label", {}, `${key === "band" ? "headroom" : key} `,
      el("select", { id: `filter-${key}`, onchange: (e) => place.go({ [key]: e.target.value }) }, el("option", { value: "" }, "any"), all().map((v) => el("option", { value: v }, words(visible(v))))))));
  }

  function update() {
    const tab = names[place.get("tab")] ? place.get("tab") : "conversations", q = place.get("q").toLowerCase();
    if (document.activeElement !== search) search.value = place.get("q");
    Object.keys(names).forEach((key, i) => { tabs[i].setAttribute("aria-selected", String(key === tab)); tabs[i].tabIndex = key === tab ? 0 : -1; });
    content.setAttribute("aria-labelledby", `tab-${tab}`);
    search.parentElement.classList.toggle("hidden", tab === "input");
    if (shown !== tab) choose(tab);
    for (const select of filters.querySelectorAll("select")) select.value = place.get(select.id.slice(7));
    let size = 0, all = sizes[tab];
    if (TABS[tab]) {
      const { rows, match, filters: tests, columns, key, open } = TABS[tab];
      list[tab] ??= grid({ label: names[tab], columns, key, open, height: Math.max(320, innerHeight - 260), nothing: "Nothing matches.", sort: tab === "conversations" ? { name: "lost", down: true } : null });
      const wanted = Object.entries(tests).filter(([k]) => place.get(k));
      const kept = rows().filter((row) => (!q || match(row, q)) && wanted.every(([k, test]) => test(row, place.get(k))));
      if (shown !== tab) content.replaceChildren(list[tab].node);
      list[tab].set(kept);
      size = kept.length;
    } else if (tab === "findings") {
      const kept = index.findings.map((_, i) => i).filter((i) => (!q || findingText(index.findings[i]).includes(q)) && (!place.get("severity") || index.findings[i].severity === place.get("severity")));
      content.replaceChildren(kept.length ? el("ul", { class: "findings" }, kept.slice(0, 200).map((i) => findingItem(i))) : el("p", { class: "empty" }, index.findings.length ? "Nothing matches." : "Nothing was found in what could be seen."));
      size = Math.min(kept.length, 200);
      all = kept.length > 200 ? kept.length : all;
    } else if (tab === "unchecked") {
      const kept = index.not_checked.filter((n) => !q || `${n.check} ${n.why}`.toLowerCase().includes(q));
      content.replaceChildren(uncheckedList(kept));
      size = kept.length;
    } else content.replaceChildren(...inputs());
    tally.textContent = tab === "input" ? "" : `${count(size)} of ${count(all)}`;
    for (const button of node.querySelectorAll("table [aria-pressed]")) button.setAttribute("aria-pressed", String(button.textContent === visible(place.get("service"))));
    shown = tab;
  }
  return { node, heading, update, title: "Report", print: (on) => Object.values(list).forEach((g) => g.print(on)) };
}

function uncheckedList(items, wanted = null) {
  if (!items.length) return el("p", { class: "empty" }, "Everything that was asked could be checked.");
  return el("ul", { class: "unchecked" }, items.map((n) => el("li", {}, el("code", {}, n.check), " ", visible(n.why),
    el("span", { class: "note" }, ` ${many((wanted ? (n.calls ?? []).filter(wanted) : n.calls ?? []).length, "call")}`))));
}

function notes(title, items) {
  if (!items.length) return null;
  return [el("h3", {}, `${title}: ${count(items.length)}`), el("ul", {}, items.slice(0, 100).map((s) => el("li", {}, visible(`${s.where}: ${s.why}`))))];
}

function inputs() {
  const input = index.input;
  return [
    el("ul", {}, input.files.map((f) => el("li", {}, el("b", {}, visible(f.path)), ` ${visible(f.format || "no telemetry")} · ${many(f.spans, "span")} · ${many(f.log_records, "log record")}`))),
    notes("Skipped", input.skipped.filter((s) => !s.foreign)) ?? el("p", { class: "note" }, "Nothing was skipped."),
    notes("Other files, which hold no telemetry", input.skipped.filter((s) => s.foreign)),
    index.ignored.length ? el("p", {}, `Left out, as the settings want it: ${index.ignored.map((i) => `${i.kind} (${count(i.calls)})`).join(", ")}`) : null,
  ].flat().filter(Boolean);
}
