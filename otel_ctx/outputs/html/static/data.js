// The blocks of data in the page. The index is read at once, all others when they are looked at.

const read = (id) => {
  const block = document.getElementById(id);
  return block ? JSON.parse(block.textContent) : null;
};

const index = read("index");
const CALL = { conversation: 0, turn: 1, usage: 2, outcome: 3, cause: 4, wasted: 5, usd: 6, status: 7, start: 8, model: 9 };
const SEGMENT = { kind: 0, role: 1, name: 2, path: 3, bytes: 4, tokens: 5, method: 6, digest: 7, marker: 8, inferred: 9, text: 10 };

const blocks = new Map();
function conversationBlock(number) {
  if (!blocks.has(number)) {
    if (blocks.size > 3) blocks.delete(blocks.keys().next().value);
    const block = read(`c${number}`);
    if (block) block.calls = block.calls.map((call) => ({ ...block.common, ...call }));
    blocks.set(number, block);
  }
  return blocks.get(number);
}

const textBlocks = new Map();
/** {text, whole: its length in characters} or null where there is none. */
function textOf(segment) {
  const number = segment[SEGMENT.text];
  if (!known(number)) return null;
  const block = Math.floor(number / index.chunk);
  if (!textBlocks.has(block)) textBlocks.set(block, read(`t${block}`));
  const text = textBlocks.get(block)[number % index.chunk];
  return Array.isArray(text) ? { text: text[0], whole: text[1] } : { text, whole: text.length };
}

/** The segments of a call, in the order of the prompt: what it shares with the call before it lies there. */
function segmentsOf(block, at) {
  const pieces = [];
  let [from, same, added] = block.calls[at].segments;
  pieces.push(added);
  let wanted = same;
  while (from >= 0 && wanted > 0) {
    const [older, there, own] = block.calls[from].segments;
    if (wanted > there) pieces.push(own.slice(0, wanted - there));
    wanted = Math.min(wanted, there);
    from = older;
  }
  return pieces.reverse().flat().map((i) => block.segments[i]);
}

/** A segment's tokens as the provider counts them. */
const tokensOf = (segment, call) => known(segment[SEGMENT.tokens]) ? Math.round(segment[SEGMENT.tokens] * (call.tokens.factor ?? 1)) : null;

/** What segments are shares of: the usage, or their own sum where more was counted than that. */
const countedOf = (call) => Math.round((call.tokens.counted ?? 0) * (call.tokens.factor ?? 1));
const wholeOf = (call) => Math.max(call.context.usage ?? 0, countedOf(call));

const nameOf = (c) => [(c.services ?? []).slice(0, 2).join(", "), (c.agents ?? []).slice(0, 2).join(", ")].filter(Boolean).join(" › ");
/** The beginning of an id, enough to tell it from its neighbours: the terminal has the same. */
function markOf(c) {
  const colon = c.id.indexOf(":"), trace = colon < 0 ? c.id : c.id.slice(0, colon), span = colon < 0 ? "" : c.id.slice(colon + 1);
  if (span && /^[0-9a-f]{32}$/.test(trace)) return `#${trace.slice(0, 8)}:${span.slice(0, 4)}`;
  if (span && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(trace)) return `#${trace.slice(0, 8)}:${span.slice(-4)}`;
  return `#${c.id.slice(-24)}`;
}
const titleOf = (c) => visible(nameOf(c) || "conversation");

/** Findings by call, and by conversation. */
const found = { calls: new Map(), conversations: new Map() };
index.findings.forEach((finding, i) => {
  for (const call of finding.calls ?? []) {
    if (!found.calls.has(call)) found.calls.set(call, []);
    found.calls.get(call).push(i);
    const home = index.calls[call][CALL.conversation];
    if (!found.conversations.has(home)) found.conversations.set(home, new Set());
    found.conversations.get(home).add(i);
  }
});
