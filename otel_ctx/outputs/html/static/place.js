// Where the reader is: kept in the URL's hash, so that a place can be sent on, and Back goes back.
// c: conversation, t: turn, b: the turn it is compared with, s: segment, tab, q: search, and a filter per column.

const place = {
  values: {},
  listeners: [],
  read() {
    this.values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  },
  get(key) { return this.values[key] ?? ""; },
  number(key) { const n = parseInt(this.values[key], 10); return Number.isNaN(n) ? null : n; },
  /** Changes some values ("" or null takes one out). A new conversation is a step that Back can take; the rest is not. */
  go(changes, step = false) {
    const next = { ...this.values, ...changes };
    for (const [key, value] of Object.entries(next)) if (value === "" || !known(value)) delete next[key];
    const hash = `#${new URLSearchParams(next)}`;
    if (hash === location.hash) return;
    if (step) location.hash = hash;
    else { history.replaceState(null, "", hash); this.changed(); }
  },
  changed() {
    this.read();
    for (const listener of this.listeners) listener();
  },
};
addEventListener("hashchange", () => place.changed());

const openCall = (call) => {
  const [conversation, turn] = index.calls[call];
  place.values = {};
  place.go({ c: conversation, t: turn }, true);
};
const openConversation = (number) => { place.values = {}; place.go({ c: number }, true); };
const openOverview = (changes = {}) => { place.values = {}; place.go({ tab: "conversations", ...changes }, true); };
