"""``otelctx rules``, ``otelctx explain``, and what a user says of rules, baselines and findings to be left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otel_ctx import analyze
from otel_ctx.errors import RulesError
from otel_ctx.findings.kinds import KINDS, explanations
from otel_ctx.rules import load
from otel_ctx.rules.rows import AS_LISTED, ENGINES
from otel_ctx.rules.tables import Rules
from otel_ctx_cli.main import main
from otel_ctx_cli.rules import _known_of
from tests.own_rules import SOURCE, own_price
from tests.test_finding_words import findings, turns

DEMO = Path(__file__).parents[1] / "examples/support-agent.otlp.jsonl.gz"
MINE = own_price("gpt-4o", "usd = { input = 1000.0, output = 1000.0, cache_read = 1000.0 }")


def otelctx(*args: str, **env: str) -> Result:
    return CliRunner().invoke(main, list(args), env={"COLUMNS": "100", **env})


def test_every_kind_is_explained() -> None:
    assert list(explanations()) == list(KINDS)
    for told in explanations().values():
        assert all(sentence.endswith(".") for sentence in (told.means, told.found, told.sure))


def test_explain_names_meaning_method_and_evidence() -> None:
    text = otelctx("explain", "ttl_expired").output

    assert "ttl_expired  warning" in text
    assert "how it is found" in text
    assert "how sure it is" in text


def test_explain_without_a_kind_lists_all() -> None:
    assert [k for k in KINDS if re.search(rf"^{k} ", otelctx("explain").output, re.M)] == list(KINDS)


def test_a_cause_is_explained_as_its_finding() -> None:
    assert otelctx("explain", "unknown").output == otelctx("explain", "unexplained_miss").output


def test_an_unknown_kind_is_told() -> None:
    result = otelctx("explain", "nonsense")

    assert (result.exit_code, "no kind of finding" in result.output) == (2, True)


def test_rules_of_a_model_have_value_status_date_and_source() -> None:
    text = otelctx("rules", "us.anthropic.claude-opus-4-7-v1:0").output

    assert "bedrock/claude-opus-4-7, engine breakpoint" in text
    assert re.search(r"min cacheable tokens +4,096\s+\(documented, \d{4}", text)
    assert re.search(r"price, USD per million tokens +input \d", text)


def test_rules_as_json() -> None:
    told = json.loads(otelctx("rules", "gpt-4o", "--json").output)

    assert (told["family"], told["engine"]) == ("openai/gpt-4o-o1", "auto_rounded_prefix")
    assert told["values"]["min_cacheable_tokens"]["value"] == 1024
    assert told["price"]["usd_per_mtok"]["input"] == 2.5
    assert all(v["sources"] and v["date"] for v in told["values"].values())


def test_rules_say_since_when_a_price_applies_and_what_did_before() -> None:
    text = " ".join(otelctx("rules", "o3").output.split())
    assert re.search(
        r"price, USD per million tokens input 2, [^(]*\([^)]*from 2025-06-10", text.replace(" (MIT)", "")
    )
    assert "before input 10, output 40" in text
    hours = " ".join(otelctx("rules", "deepseek-flash").output.split())
    assert re.search(r"input 0\.3, .*01:00-04:00, 06:00-10:00 UTC on weekdays", hours)

    told = json.loads(otelctx("rules", "us.anthropic.claude-opus-4-6-v1", "--json").output)
    assert (told["price"]["from"], told["price"]["above"]) == ("2026-03-13", None)
    assert [(p["from"], p["above"]) for p in told["other_prices"]] == [(None, 200_000)]
    assert told["times_where_served"] == [1.1]


def test_rules_lists_every_family() -> None:
    listed = {line.split()[0] for line in otelctx("rules").output.splitlines()[1:]}

    assert listed == {f.id for f in load().families}


def test_nothing_known_is_said() -> None:
    result = otelctx("rules", "no-such-model")

    assert (result.exit_code, "nothing is known" in result.output) == (2, True)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_own_prices_come_first(by: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    args, env = (("--rules", str(path)), {}) if by == "option" else ((), {"OTELCTX_RULES": str(path)})

    assert "input 1,000.0" in otelctx("rules", "gpt-4o", *args, **env).output
    report = json.loads(otelctx("analyze", str(DEMO), "--json", "-", *args, **env).output)
    costs = [(c["cost"]["usd"], c["usage"]) for c in report["calls"] if c["model"].startswith("gpt-4o")]
    assert costs
    for usd, usage in costs:
        assert usd == pytest.approx((usage["input"] + usage["output"]) / 1000)


def test_a_file_of_rules_that_does_not_hold_together_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(MINE.replace('source = ["mine"]', 'source = ["nobody"]'))

    result = otelctx("analyze", str(DEMO), "--rules", str(path))

    assert result.exit_code == 2
    assert "nobody" in result.output
    assert f"{path}: " in result.output
    assert "override" not in result.output


def test_a_baseline_passes_what_was_accepted(tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.json"
    gate = ("analyze", str(DEMO), "--fail-on", "error")

    assert otelctx(*gate, "--json", str(accepted)).exit_code == 1
    assert otelctx(*gate, "--baseline", str(accepted)).exit_code == 0

    report = json.loads(accepted.read_bytes())
    report["findings"] = [f for f in report["findings"] if f["severity"] != "error"]
    accepted.write_text(json.dumps(report))
    assert otelctx(*gate, "--baseline", str(accepted)).exit_code == 1


def test_a_baseline_names_what_it_accepts_and_accepts_nothing_of_others(tmp_path: Path) -> None:
    """The same finding of another service, agent or provider is another one."""
    accepted = tmp_path / "accepted.json"
    gate = ("analyze", str(DEMO), "--fail-on", "error")
    otelctx(*gate, "--json", str(accepted))

    passed = otelctx(*gate, "--baseline", str(accepted))
    assert "--baseline accepts volatile_prefix" in passed.stderr

    for field in ("service", "agent", "provider"):
        report = json.loads(accepted.read_bytes())
        for call in report["calls"]:
            call[field] = "another"
        other = tmp_path / "other.json"
        other.write_text(json.dumps(report))
        result = otelctx(*gate, "--baseline", str(other))
        assert (result.exit_code, "accepts" in result.stderr) == (1, False)


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_baseline_that_is_none_is_told(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    if content is not None:
        path.write_text(content)

    result = otelctx("analyze", str(DEMO), "--baseline", str(path))

    assert (result.exit_code, "--baseline" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("ignored", "left"), [("volatile_prefix:system[0]", 0), ("volatile_prefix:system[1]", 1)]
)
def test_a_finding_is_left_out_at_one_place(ignored: str, left: int) -> None:
    report = json.loads(otelctx("analyze", str(DEMO), "--json", "-", "--ignore", ignored).output)

    assert sum(f["kind"] == "volatile_prefix" for f in report["findings"]) == left


# ---- rules of one's own


def test_the_page_on_own_rules_holds_together() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own-rules.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    rules = load(example)
    family, window, price = (
        rules.model("our-qwen-32b", "vllm"), rules.window("our-qwen-32b"), rules.price("gpt-4o"),
    )  # fmt: skip
    assert (family and family.id) == "mine/qwen-on-vllm"
    assert (window and window.value) == 131_072
    assert (price and price.id) == "mine/gpt-4o"
    assert rules.service_tier("scale", "openai", "gpt-4o") is not None
    assert all(engine in page for engine in ENGINES)


@pytest.fixture
def as_on_the_page(tmp_path: Path) -> str:
    page = (Path(__file__).parents[1] / "docs" / "own-rules.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    path = tmp_path / "own.toml"
    path.write_text(example)
    return str(path)


def test_the_rows_of_the_page_on_own_rules_are_shown_as_they_are_written(as_on_the_page: str) -> None:
    """Who serves the model they say themselves, and what they document is no inference."""
    text = " ".join(otelctx("rules", "our-qwen-7b", "--rules", as_on_the_page).output.split())

    assert "our-qwen-7b on vllm" in text
    assert "mine/qwen-on-vllm, engine block_hash" in text
    assert "131,072 tokens (documented, 2026-11: our contract)" in text
    assert "on openai" in otelctx("rules", "gpt-4o", "--rules", as_on_the_page).output


@pytest.mark.parametrize("provider", ["openai", "vllm", "my-gateway"])
def test_own_rules_hold_for_a_model_whose_server_speaks_the_api_of_another(
    tmp_path: Path, as_on_the_page: str, provider: str
) -> None:
    sizes = ((0, 3_450, 0), (1, 3_530, 3_440), (2, 3_610, 0))
    findings(tmp_path, provider, "our-qwen-7b", [(20 * i, turns(i), n, read, 0) for i, n, read in sizes])
    found = analyze(tmp_path / "dump.json", rules=Path(as_on_the_page).read_text())

    assert [r.call.served_by for r in found.analysis.readings] == ["vllm"] * 3
    assert [r.wasted for r in found.analysis.readings] == [0, 0, 3_520]
    assert all(f.kind != "unknown_cache_rule" for f in found.findings)


def test_a_price_of_ones_own_is_shown_without_a_platform_and_one_of_another_provider_is_named(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(own_price("my-deployment", "usd = { input = 1.0, output = 2.0 }", "openai"))
    findings(tmp_path, "azure.ai.openai", "my-deployment", [(0, turns(0), 3_450, 0, 0)])
    (found,) = [
        f
        for f in analyze(tmp_path / "dump.json", rules=path.read_text()).findings
        if f.kind == "unpriced_model"
    ]

    assert "input 1.0, output 2.0" in otelctx("rules", "my-deployment", "--rules", str(path)).output
    assert 'provider = "azure", model = "my-deployment"' in found.fix
    assert "The row of yours is of provider openai." in found.fix


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("input = 1000.0", "input = -2.0", "usd: input: -2.0 is no price: a number, 0 or more"),
        ("input = 1000.0", "input = nan", "usd: input: nan is no price"),
        ("input = 1000.0", "input = inf", "usd: input: inf is no price"),
        ("input = 1000.0", 'input = "2"', "usd: input: '2' is no price"),
        (
            "cache_read =",
            "cached =",
            "usd: 'cached' is no class of token: there are input, output, cache_read",
        ),
        ("input = 1000.0, ", "", "usd: input is missing"),
        (
            "provider =",
            "provder =",
            "provder: no such field, is provider meant? There are id, source, status",
        ),
        ('"openai"', '"opnai"', "provider: no provider 'opnai', is openai meant?"),
        ('model = "gpt-4o"', "model = 4", "model: 4 is not a text"),
    ],
)
def test_what_is_wrong_in_a_row_is_said_with_what_is_wanted(old: str, new: str, said: str) -> None:
    with pytest.raises(RulesError, match=re.escape(said)):
        load(MINE.replace(old, new))


def test_all_fields_that_a_family_lacks_are_named_at_once() -> None:
    row = SOURCE + (
        '[[family]]\nid = "f"\nprovider = "vllm"\nplatforms = ["vllm"]\nmatch = ["m"]\nengine = "block_hash"\n'
        'source = ["mine"]\nstatus = "documented"\nmin_cacheable_tokens = 16\n'
    )
    with pytest.raises(
        RulesError, match=r"granularity_tokens, max_breakpoints, .*usage_input_includes_cache: missing"
    ):
        load(row)


def test_a_platform_that_nobody_knows_is_told() -> None:
    result = otelctx("rules", "gpt-4o", "--platform", "bedrok")
    assert (result.exit_code, "--platform" in result.output, "bedrock" in result.output) == (2, True, True)
    assert "on bedrock" in otelctx("rules", "claude-opus-4-7", "--platform", "aws.bedrock").output


def test_a_price_has_its_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    told = json.loads(otelctx("rules", "gpt-4o", "--json").output)["price"]
    assert told["sources"] == ["genai-prices"]
    assert "2026-11: our contract)" in otelctx("rules", "gpt-4o", "--rules", str(path)).output
    assert json.loads(otelctx("rules", "gpt-4o", "--json", "--rules", str(path)).output)["price"][
        "sources"
    ] == ["mine"]


def test_a_price_that_only_the_package_has_is_shown() -> None:
    pytest.importorskip("genai_prices")
    assert "the installed package genai-prices" in " ".join(otelctx("rules", "gpt-5.6").output.split())


def test_a_price_of_the_package_is_what_it_is_where_it_is_served() -> None:
    """It has the price of the region, which the table makes of the maker's."""
    pytest.importorskip("genai_prices")
    model, listed = "eu.anthropic.claude-opus-4-8-v1:0", load()
    unlisted = Rules(lambda table: [] if table == "price" else listed.rows(table))
    ours, theirs = (_known_of(rules, model, "bedrock") for rules in (listed, unlisted))
    assert (ours.times, theirs.times) == ((1.1,), AS_LISTED)
    assert theirs.prices[0].usd["input"] == pytest.approx(1.1 * ours.prices[0].usd["input"])


@pytest.mark.parametrize("width", [60, 80, 140])
def test_rules_keep_to_the_width(width: int) -> None:
    lines = otelctx(
        "rules", "claude-opus-4-7", "--platform", "bedrock", COLUMNS=str(width)
    ).output.splitlines()
    assert max(map(len, lines)) <= width
