// Two prompts side by side: what is the same, added, evicted, moved, or changed in place, down to the characters.
// Every step is bounded: past the bound a stretch counts as replaced as a whole.

const PAIRS = 4_000_000; // cells of a table of common parts
const ALIKE = 0.4; // of the words, for a message to be the same one, edited
const section = (segment) => (segment[SEGMENT.path] ?? "").split(/[[.]/)[0];

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

const split = (text) => text.match(/\p{L}+|\p{N}|\s+|[^\p{L}\p{N}\s]/gu) ?? [];

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
  for (const [x, y] of [...aligned(a, b), [a.length, b.length]]) {
    put("-", a.slice(i, x).join(""));
    put("+", b.slice(j, y).join(""));
    if (x < a.length) put("", a[x]);
    i = x + 1;
    j = y + 1;
  }
  return out;
}

function alike(a, b) {
  const same = [SEGMENT.kind, SEGMENT.role, SEGMENT.name].every((k) => a[k] === b[k]);
  if (!same) return false;
  if (a[SEGMENT.kind] === index.kinds.indexOf("tools")) return true;
  const x = textOf(a), y = textOf(b);
  if (!x || !y) return a[SEGMENT.path] === b[SEGMENT.path] && section(a) === "system";
  const one = new Set(split(x.text).filter((w) => w.trim())), two = new Set(split(y.text).filter((w) => w.trim()));
  let both = 0;
  for (const word of one) both += two.has(word);
  return both >= ALIKE * Math.max(1, Math.max(one.size, two.size));
}

/** {rows: [{change, before, after}] in the order of the new prompt, unseen: sections of which nothing is said}. */
function compared(block, from, to) {
  const unseen = new Set([from, to].flatMap((at) => block.calls[at].completeness.lost ?? []));
  if (unseen.has("head")) unseen.add("messages");
  const seen = (at) => segmentsOf(block, at).filter((s) => !unseen.has(section(s)));
  const a = seen(from), b = seen(to);
  const pairs = new Map(aligned(a.map((s) => s[SEGMENT.digest]), b.map((s) => s[SEGMENT.digest])).map(([i, j]) => [j, [i, "same"]]));
  const gone = new Set(a.keys());
  for (const [i] of pairs.values()) gone.delete(i);
  const elsewhere = new Map();
  for (const i of gone) elsewhere.set(a[i][SEGMENT.digest], i);
  b.forEach((s, j) => {
    const i = elsewhere.get(s[SEGMENT.digest]);
    if (!pairs.has(j) && gone.delete(i)) pairs.set(j, [i, "moved"]);
  });
  let after = -1; // an edited message stands between the same neighbours
  b.forEach((s, j) => {
    const pair = pairs.get(j);
    if (pair) { if (pair[1] === "same") after = pair[0]; return; }
    for (let i = after + 1; i < a.length && gone.has(i); i++) {
      if (alike(a[i], s)) { pairs.set(j, [i, "changed"]); gone.delete(i); break; }
    }
  });
  const rows = [], left = [...gone];
  b.forEach((s, j) => {
    const pair = pairs.get(j);
    if (pair && pair[1] !== "moved") while (left.length && left[0] < pair[0]) rows.push({ change: "evicted", before: a[left.shift()] });
    rows.push(pair ? { change: pair[1], before: a[pair[0]], after: s } : { change: "added", after: s });
  });
  for (const i of left) rows.push({ change: "evicted", before: a[i] });
  return { rows, unseen: [...unseen] };
}

const SIGNS = { same: "=", added: "+", evicted: "−", moved: "↔", changed: "~" };
const CONTEXT = 120; // characters beside a change

function inline(before, after) {
  const x = textOf(before), y = textOf(after);
  if (!x || !y) return null;
  const parts = edits(x.text, y.text).map(([sign, text], i, all) => {
    if (sign === "-") return el("del", {}, visible(text));
    if (sign === "+") return el("ins", {}, visible(text));
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
