// Two prompts side by side: what is the same, added, evicted, moved, or changed in place, down to the characters.
// Every step is bounded: past the bound a stretch counts as replaced as a whole.

const PAIRS = 4_000_000; // cells of a table of common parts
const ALIKE = 0.4; // of the words, for a message to be the same one, edited
const kindOf = (segment) => index.kinds[segment[SEGMENT.kind]];
const section = (segment) => ({ tools: "tools", system: "system" })[kindOf(segment)] ?? "messages";

/** Pairs [i, j] of equal items in rising order (longest common subsequence); only equal ends where that were too much. */
function aligned(a, b) {
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const pairs = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  const n = a.length - start - end, m = b.length - start - end;
  if (n && m && n * m <= PAIRS) {
    const table = new Uint16Array((n + 1) * (m + 1));
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        table[i * (m + 1) + j] = a[start + i] === b[start + j]
          ? table[(i + 1) * (m + 1) + j + 1] + 1
          : Math.max(table[(i + 1) * (m + 1) + j], table[i * (m + 1) + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[start + i] === b[start + j]) pairs.push([start + i++, start + j++]);
      else if (table[(i + 1) * (m + 1) + j] >= table[i * (m + 1) + j + 1]) i++;
      else j++;
    }
  }
  for (let i = end; i > 0; i--) pairs.push([a.length - i, b.length - i]);
  return pairs;
}

// Words, as otel_ctx/outputs/views/edits.py has them: of scripts without blanks each character is one.
const ALONE = "\\u0e00-\\u0eff\\u2e80-\\ud7ff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const WORD = new RegExp(`(?:(?![${ALONE}])[\\p{L}\\p{N}_])+|\\s+|.`, "gsu");
const split = (text) => text.match(WORD) ?? [];
const LEAST = 3; // characters that stay between two changes, for these to be told apart

/** Without short common runs that stand alone between two changes: what changes is read as a whole. */
function bridged(pairs, a, b) {
  const runs = [];
  for (const [i, j] of pairs) {
    const run = runs[runs.length - 1], last = run?.[run.length - 1];
    if (last && last[0] === i - 1 && last[1] === j - 1) run.push([i, j]);
    else runs.push([[i, j]]);
  }
  return runs.filter((run) => {
    const [i, j] = run[0], [x, y] = run[run.length - 1];
    const between = (i || j) && (x < a.length - 1 || y < b.length - 1);
    const text = a.slice(i, x + 1).join("");
    return !between || (text.length >= LEAST && text.trim());
  }).flat();
}

/** Of one text: [sign, text] with sign "" (same), "-" (gone) or "+" (new). */
function edits(old, now) {
  const a = split(old), b = split(now);
  const out = [];
  const put = (sign, text) => {
    if (!text) return;
    if (out.length && out[out.length - 1][0] === sign) out[out.length - 1][1] += text;
    else out.push([sign, text]);
  };
  let i = 0, j = 0;
  for (const [x, y] of [...bridged(aligned(a, b), a, b), [a.length, b.length]]) {
    put("-", a.slice(i, x).join(""));
    put("+", b.slice(j, y).join(""));
    if (x < a.length) put("", a[x]);
    i = x + 1;
    j = y + 1;
  }
  return out;
}

const sort = (s) => JSON.stringify([s[SEGMENT.kind], s[SEGMENT.role], s[SEGMENT.name]]);

/** Whether two segments of one sort are the same one, edited. ``alone``: nothing else stands where they stand. */
function alike(a, b, alone) {
  if (sort(a) !== sort(b)) return false;
  if (alone || kindOf(a) === "system") return true;
  const x = textOf(a), y = textOf(b);
  if (!x || !y) return a[SEGMENT.path] === b[SEGMENT.path];
  const one = new Set(x.text.split(/\s+/)), two = new Set(y.text.split(/\s+/));
  let both = 0;
  for (const word of one) both += two.has(word);
  return (2 * both) / (one.size + two.size) >= ALIKE;
}

/** {rows: [{change, before, after}] in the order of the new prompt, unseen: sections of which nothing is said}. */
function compared(block, from, to) {
  const unseen = new Set([from, to].flatMap((at) => block.calls[at].completeness.lost ?? []).map((lost) => (lost === "head" ? "messages" : lost)));
  const seen = (at) => segmentsOf(block, at).filter((s) => !unseen.has(section(s)));
  const a = seen(from), b = seen(to);
  const same = aligned(a.map((s) => s[SEGMENT.digest]), b.map((s) => s[SEGMENT.digest]));
  const pairs = new Map(same.map(([i, j]) => [j, [i, "same"]]));
  const gone = new Set(a.keys());
  for (const [i] of same) gone.delete(i);
  const pair = (i, j, change) => { pairs.set(j, [i, change]); gone.delete(i); };
  const came = () => [...b.keys()].filter((j) => !pairs.has(j));

  const elsewhere = new Map([...gone].reverse().map((i) => [a[i][SEGMENT.digest], i]));
  for (const j of came()) if (gone.has(elsewhere.get(b[j][SEGMENT.digest]))) pair(elsewhere.get(b[j][SEGMENT.digest]), j, "moved");
  const tools = new Map([...gone].filter((i) => kindOf(a[i]) === "tools").map((i) => [a[i][SEGMENT.name], i]));
  for (const j of came()) if (kindOf(b[j]) === "tools" && gone.has(tools.get(b[j][SEGMENT.name]))) pair(tools.get(b[j][SEGMENT.name]), j, "changed");
  let last = [-1, -1]; // what went and what came between two segments that stayed
  for (const next of [...same, [a.length, b.length]]) {
    const olds = [...gone].filter((i) => i > last[0] && i < next[0]);
    const news = [];
    for (let j = last[1] + 1; j < next[1]; j++) if (!pairs.has(j)) news.push(j);
    const alone = olds.length === 1 && news.length === 1;
    let left = 0;
    for (const j of news) {
      const n = olds.findIndex((i, k) => k >= left && alike(a[i], b[j], alone));
      if (n < 0) continue;
      pair(olds[n], j, "changed");
      left = n + 1;
    }
    last = next;
  }
  const rows = [], left = [...gone];
  b.forEach((s, j) => {
    const [i, change] = pairs.get(j) ?? [null, "added"];
    if (change === "same" || change === "changed") while (left.length && left[0] < i) rows.push({ change: "evicted", before: a[left.shift()] });
    rows.push({ change, before: i === null ? undefined : a[i], after: s });
  });
  for (const i of left) rows.push({ change: "evicted", before: a[i] });
  return { rows, unseen: [...unseen].sort() };
}

const SIGNS = { same: "=", added: "+", evicted: "−", moved: "↔", changed: "~" };
const CONTEXT = 120; // characters beside a change

function inline(before, after) {
  const x = textOf(before), y = textOf(after);
  if (!x || !y) return null;
  const parts = edits(x.text, y.text).map(([sign, text], i, all) => {
    if (sign === "-") return el("del", {}, `[-${visible(text)}-]`);
    if (sign === "+") return el("ins", {}, `{+${visible(text)}+}`);
    const first = i === 0, last = i === all.length - 1;
    if (text.length <= 2 * CONTEXT) return visible(text);
    return `${first ? "" : visible(text.slice(0, CONTEXT))} … ${last ? "" : visible(text.slice(-CONTEXT))}`;
  });
  const cut = x.whole > x.text.length || y.whole > y.text.length;
  return el("pre", { class: "text" }, parts, cut ? el("span", { class: "note" }, ` (compared up to character ${count(Math.min(x.text.length, y.text.length))})`) : null);
}

/** The panel's content: a line of sums, then each change; what stays the same is one line. */
function comparison(block, from, to, pick) {
  const { rows, unseen } = compared(block, from, to);
  const sums = {};
  for (const row of rows) {
    const side = row.change === "evicted" ? tokensOf(row.before, block.calls[from]) : tokensOf(row.after, block.calls[to]);
    const sum = (sums[row.change] ??= { n: 0, tokens: 0 });
    sum.n++;
    sum.tokens += side ?? 0;
  }
  const lines = [];
  for (let i = 0; i < rows.length; i++) {
    if (rows[i].change === "same") {
      let n = 0, tokens = 0;
      for (; i < rows.length && rows[i].change === "same"; i++) { n++; tokens += tokensOf(rows[i].after, block.calls[to]) ?? 0; }
      i--;
      lines.push(el("li", { class: "same" }, el("span", { class: "sign" }, "="), ` ${many(n, "segment")} the same, ${count(tokens)} tokens`));
      continue;
    }
    const { change, before, after } = rows[i], segment = after ?? before;
    const at = change === "evicted" ? from : to;
    const label = `${words(index.kinds[segment[SEGMENT.kind]])} ${segment[SEGMENT.path]}${segment[SEGMENT.name] ? ` · ${segment[SEGMENT.name]}` : ""}`;
    const where = change === "moved" ? ` from ${before[SEGMENT.path]}` : "";
    const sample = change === "changed" ? inline(before, after) : textOf(segment) ? el("pre", { class: "text clip" }, visible(textOf(segment).text.slice(0, 400))) : null;
    lines.push(el("li", { class: change }, el("span", { class: "sign" }, SIGNS[change]), ` ${change} `,
      change === "evicted" ? visible(label) : el("button", { type: "button", class: "link", onclick: () => pick(segment) }, visible(label)),
      where, el("span", { class: "num" }, ` ${count(tokensOf(segment, block.calls[at]))} tokens`), sample));
  }
  const told = Object.entries(sums).map(([change, s]) => el("span", { class: `sum ${change}` }, `${SIGNS[change]} ${count(s.n)} ${change} (${short(s.tokens)})`));
  return [
    el("p", { class: "sums" }, told.length ? told : "Neither prompt was seen."),
    unseen.length ? el("p", { class: "warn" }, `Not compared: ${unseen.join(", ")}: not seen whole in one of the two.`) : null,
    el("ul", { class: "diff" }, lines.slice(0, 300)), lines.length > 300 ? el("p", { class: "note" }, `${count(lines.length - 300)} more`) : null,
  ];
}
