// The page: which view is shown, the keys, light and dark, print.

const HELP = [
  ["?", "this help"], ["/", "search"], ["Enter", "open the row"], ["u", "up: all conversations"], ["1 … 9", "go to the panel of that number"], ["t", "light or dark"],
  ["← →", "turn before, next turn"], ["Home End", "first turn, last turn"], ["b", "next turn whose prefix broke"], ["f", "next turn with a finding"],
  ["c", "compare with this turn: then choose another"], ["[ ]", "conversation before, next conversation"], ["↑ ↓", "move in a list"], ["Esc", "leave a field, close this help"],
];

const main = document.getElementById("main");
const help = document.getElementById("help");
let view = null, shown;

help.append(el("h2", { id: "help-title" }, "Keys"), el("dl", { class: "keys" }, HELP.map(([key, what]) => [el("dt", {}, key.split(" ").map((k) => (k === "…" ? " … " : el("kbd", {}, k)))), el("dd", {}, what)])),
  el("p", {}, stateLegend()), el("button", { type: "button", onclick: () => help.close() }, "close"));
document.body.append(patterns());

const media = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const remembered = (() => { try { return localStorage.getItem("otelctx-theme"); } catch { return null; } })();
function paint(theme) {
  root.dataset.theme = theme;
  try { localStorage.setItem("otelctx-theme", theme); } catch { /* a file may have no storage: the choice lasts as long as the page */ }
}
if (remembered === "dark" || remembered === "light") root.dataset.theme = remembered;
const toggleTheme = () => paint((root.dataset.theme ?? (media.matches ? "dark" : "light")) === "dark" ? "light" : "dark");

const crumbs = el("nav", { "aria-label": "Where you are" });
document.getElementById("top").append(
  el("button", { type: "button", class: "skip", onclick: () => main.focus() }, "to the content"),
  el("b", { class: "brand" }, "otelctx"), crumbs,
  el("span", { class: "right" }, index.redacted ? el("span", { class: "tag" }, "redacted") : null,
    el("button", { type: "button", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: toggleTheme }, "◐"),
    el("button", { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: () => help.showModal() }, "?")));

function render() {
  const number = place.number("c");
  const wanted = known(number) && numbered[number] ? number : null;
  if (shown !== wanted || view === null) {
    const first = view === null;
    view?.closed?.();
    view = wanted === null ? overview() : conversation(wanted);
    shown = wanted;
    main.replaceChildren(view.node);
    view.started?.();
    crumbs.replaceChildren(...(wanted === null ? [] : [el("button", { type: "button", class: "link", onclick: () => openOverview() }, "all conversations"), el("span", { "aria-hidden": "true" }, " › "),
      ...(numbered[wanted].services?.[0] ? [el("button", { type: "button", class: "link service", onclick: () => openOverview({ service: numbered[wanted].services[0] }) }, visible(numbered[wanted].services[0])), el("span", { class: "service", "aria-hidden": "true" }, " › ")] : []),
      el("span", {}, visible(markOf(numbered[wanted])))]));
    if (!first) { scrollTo(0, 0); view.heading.focus({ preventScroll: true }); }
  }
  view.update();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const field = event.target.closest?.("input, select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    if (field.type !== "range" || ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  }
  const digit = "123456789".indexOf(event.key);
  const act = view.keys?.[event.key] ?? { "?": () => help.showModal(), "/": () => document.querySelector("#search, #segments")?.focus(), u: () => shown !== null && openOverview(), t: toggleTheme }[event.key]
    ?? (digit >= 0 && view.panels?.[digit] ? () => { view.panels[digit].node.scrollIntoView({ block: "start" }); view.panels[digit].head.focus({ preventScroll: true }); } : null);
  if (!act) return;
  event.preventDefault();
  act();
});
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));

place.read();
place.listeners.push(render);
render();
document.documentElement.dataset.ready = "yes";
