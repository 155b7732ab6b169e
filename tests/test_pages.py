"""Pages and pictures of docs/ that are made of tables and of a real run: `make docs` writes them anew."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import otel_ctx
from otel_ctx.findings import kinds
from otel_ctx.rules import load

ROOT = Path(__file__).parent.parent
SWITCHES = ROOT / "otel_ctx" / "findings" / "switches.toml"

LOST = {
    "content": "Contents are not recorded",
    "part": "Part of the prompt is not recorded",
    "masked": "Contents are masked",
    "tools": "Tool definitions are not recorded",
    "logs": "Contents are in log records",
    "reference": "Contents are stored elsewhere",
    "unreadable": "Contents cannot be read",
    "server": "The history is on the provider's server",
    "sum": "Only sums are recorded",
    "media": "Images and files come without their data",
    "cut": "Contents are cut",
    "attributes": "Attributes are dropped",
    "usage": "No input tokens",
    "cached": "No cached tokens",
    "double": "Two instrumentations tell of one call",
    "format": "The format of the dump loses contents",
}


def findings_page() -> str:
    out = [
        "# Findings",
        "",
        "What each kind means, how it is found and how sure that is; `otelctx explain KIND` says the same.",
        "The fix, in words for the library and the provider at hand, stands with each finding in the report.",
    ]
    for severity in ("error", "warning", "info"):
        out += ["", f"## {severity}"]
        for name, told in kinds.explanations().items():
            if told.severity == severity:
                out += [
                    "", f"### {name}", "", told.means, "",
                    f"**How it is found.** {told.found}", "", f"**How sure it is.** {told.sure}",
                ]  # fmt: skip
    return "\n".join(out) + "\n"


def libraries_page() -> str:
    rows = tomllib.loads(SWITCHES.read_text("utf-8"))["switch"]
    assert {r["lost"] for r in rows} <= LOST.keys()
    out = [
        "# Libraries and their switches",
        "",
        "What a library withholds, and the switch that mends it; the first row that fits is used.",
        "`otelctx doctor DUMP` says which of these concern you.",
    ]
    for lost, title in LOST.items():
        mine = [r for r in rows if r["lost"] == lost]
        if mine:
            out += ["", f"## {title}", "", "| library | versions | mend | seen |", "|---|---|---|---|"]
            out += [
                f"| {_who(r)} | {_versions(r)} | {_cell(r['fix'])} | {_cell(r['source'])} |" for r in mine
            ]
    return "\n".join(out) + "\n"


def rules_page() -> str:
    tables = tomllib.loads((ROOT / "otel_ctx" / "rules" / "sources.toml").read_text("utf-8"))["sources"]
    families = load().families
    out = [
        "# Rules and their sources",
        "",
        "How each provider's prompt cache works, as the simulation takes it. `otelctx rules MODEL` says what applies to a",
        "model, each value with its status, date and source; `--rules FILE` replaces rows. Read: the price of a cached token",
        "as a share of the input price.",
        "Empty: not published.",
        "",
        "| family | engine | minimum, tokens | steps of | markers | read | lifetimes, seconds | sources |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for f in families:
        lives = ", ".join(
            f"{name} {low}" + (f" to {high}" if high not in (None, low) else "")
            for name, (low, high) in f.ttl_seconds.items()
        )
        sources = dict.fromkeys(s for v in f.values.values() for s in v.sources)
        cells = (
            f"`{f.id}`", f.engine, f.min_cacheable_tokens, f.granularity_tokens, f.max_breakpoints, f.read_multiplier,
            lives, ", ".join(sources),
        )  # fmt: skip
        out.append("| " + " | ".join("" if c is None else _cell(c) for c in cells) + " |")
    out += ["", "## Sources", "", "| source | what | read | kind |", "|---|---|---|---|"]
    out += [f"| {name} | {_cell(t['title'])} | {t['date']} | {t['kind']} |" for name, t in tables.items()]
    return "\n".join(out) + "\n"


def _who(row: dict[str, object]) -> str:
    names = [*row.get("scopes", []), *row.get("dialects", [])]  # type: ignore[misc]
    return ", ".join("all others" if n == "*" else f"`{n}`" for n in names)


def _versions(row: dict[str, object]) -> str:
    return (
        " ".join(f"{word} {row[key]}" for key, word in (("since", "from"), ("below", "below")) if key in row)
        or "all"
    )


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


@pytest.mark.parametrize("page", [findings_page, libraries_page, rules_page])
def test_the_page_is_what_the_table_says(page: Callable[[], str], request: pytest.FixtureRequest) -> None:
    file = ROOT / "docs" / f"{page.__name__.removesuffix('_page')}.md"
    text = page()
    if request.config.getoption("--update"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text, f"docs/{file.name} is behind its table: make docs"


def test_each_kind_has_its_place() -> None:
    text = (ROOT / "docs" / "findings.md").read_text("utf-8")
    assert [n for n in kinds.KINDS if f"\n### {n}\n" not in text] == []


def test_the_picture_is_of_a_real_run(request: pytest.FixtureRequest) -> None:
    file = ROOT / "docs" / "context.svg"
    drawn = otel_ctx.analyze(ROOT / "examples" / "support-agent.otlp.jsonl.gz").to_svg()
    picture = drawn.encode() if isinstance(drawn, str) else drawn
    if request.config.getoption("--update"):
        file.write_bytes(picture)
    assert file.read_bytes() == picture, "docs/context.svg is behind what is drawn: make docs"
