"""Contents that a record only refers to: read where they are there, told as missing where they are not, and judged by
the hash in their name where that is all that is known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import Store, read
from otel_ctx.model import Analysis, Finding, LogRecord, Reading, Span
from otel_ctx.outputs.report import Inputs, build, dumps
from otel_ctx_cli.main import main
from tests.fidelity import wire_of, wire_pieces

if TYPE_CHECKING:
    from conftest import CorpusCase

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
UPLOADS = "otel-genai-anthropic-upload"
HASHES = ["a" * 64, "b" * 64]
SYSTEM = [{"type": "text", "content": "You are a clerk."}]
TOOLS = [
    {"type": "function", "name": "look_up", "description": "Looks it up.", "parameters": {"type": "object"}}
]

Json = Any


def said(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


HISTORY = [said("user", "Hello"), said("assistant", "Good morning"), said("user", "And now?")]


def span(n: int, tokens: tuple[int, int] = (2_000, 0), **references: str) -> Span:
    """Call ``n``, a minute after the one before; ``tokens``: input, and how many of them were read from the cache."""
    names = {
        "messages": "gen_ai.input.messages_ref",
        "system": "gen_ai.system_instructions_ref",
        "tools": "gen_ai.tool.definitions_ref",
        "output": "gen_ai.output.messages_ref",
    }
    start = BASE + 60 * n * SECOND
    return Span(
        trace_id=f"{1:032x}",
        span_id=f"{n:016x}",
        parent_id="",
        name="chat",
        start_unix_nano=start,
        end_unix_nano=start + SECOND,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.cache_read.input_tokens": tokens[1],
            "gen_ai.usage.output_tokens": 10,
            **{names[k]: v for k, v in references.items()},
        },
        scope_name="opentelemetry.instrumentation.genai.openai",
        scope_version="1.3b0",
    )


def analysed(
    spans: Sequence[Span], contents: Mapping[str, Json] | None = None, logs: Sequence[LogRecord] = ()
) -> Analysis:
    engine = Engine(Settings(contents=contents.get if contents is not None else None))
    engine.feed(spans, logs)
    return engine.close()


def one(analysis: Analysis) -> Reading:
    (reading,) = analysis.readings
    return reading


def about(analysis: Analysis, kind: str) -> list[Finding]:
    return [f for f in analysis.findings if f.kind == kind]


# ---- uploads, as a real library wrote them


def test_uploads_beside_the_dump_are_the_prompts_that_were_sent(
    corpus_case: Callable[[str], CorpusCase],
) -> None:
    case = corpus_case(UPLOADS)
    engine = Engine(Settings(contents=Store([case.folder]).fetch))
    for batch in read(case.files):
        engine.feed(batch.spans, batch.logs)
    analysis = engine.close()

    wire = [[p.kind for p in wire_pieces(request)] for request in wire_of(UPLOADS)]
    assert [[s.kind for s in r.call.prompt] for r in analysis.readings] == wire
    assert {r.call.completeness.status for r in analysis.readings} == {"full"}
    assert [r.relation for r in analysis.readings] == ["new"] + ["continues"] * 7
    assert all(r.call.answer for r in analysis.readings)
    assert not about(analysis, "content_not_captured")


def test_without_its_uploads_a_call_has_its_figures(corpus_case: Callable[[str], CorpusCase]) -> None:
    engine = Engine()
    for batch in read(corpus_case(UPLOADS).files):
        engine.feed(batch.spans, batch.logs)
    analysis = engine.close()

    assert {r.call.completeness.status for r in analysis.readings} == {"usage_only"}
    assert {r.call.completeness.reasons for r in analysis.readings} == {("reference_missing",)}
    assert all(r.context.headroom for r in analysis.readings)
    assert not about(analysis, "prefix_changed")
    assert not about(analysis, "tools_changed")  # named by their hash, and the hash is the same


def test_the_command_finds_them_by_itself_or_in_a_folder_of_their_own(
    corpus_case: Callable[[str], CorpusCase], tmp_path: Path
) -> None:
    case = corpus_case(UPLOADS)
    alone = tmp_path / "traces.jsonl.gz"
    alone.write_bytes((case.folder / alone.name).read_bytes())

    def statuses(*args: str | Path) -> list[str]:
        result = CliRunner().invoke(main, ["analyze", *map(str, args), "--json", "-"])
        assert result.exit_code == 0, result.output
        return sorted({c["completeness"]["status"] for c in json.loads(result.stdout)["calls"]})

    assert statuses(case.folder / "traces.jsonl.gz") == ["full"]
    assert statuses(alone) == ["usage_only"]
    assert statuses(alone, "--contents", case.folder / "uploads") == ["full"]
    assert statuses(alone, "--contents", case.folder) == ["full"]


def test_a_file_that_a_record_referred_to_was_not_skipped(
    corpus_case: Callable[[str], CorpusCase], tmp_path: Path
) -> None:
    case = corpus_case(UPLOADS)
    folder = tmp_path / "case"
    (folder / "uploads").mkdir(parents=True)
    for path in (case.folder / "traces.jsonl.gz", *(case.folder / "uploads").iterdir()):
        (folder / path.relative_to(case.folder)).write_bytes(path.read_bytes())
    (folder / "uploads" / "0_stray.json").write_text(json.dumps(HISTORY), "utf-8")

    result = CliRunner().invoke(main, ["analyze", str(folder), "--json", "-"])

    report = json.loads(result.stdout)
    assert [Path(s["where"]).name for s in report["input"]["skipped"]] == ["0_stray.json"]
    assert [Path(f["path"]).name for f in report["input"]["files"]] == ["traces.jsonl.gz", "0_stray.json"]


# ---- what a reference may lead to


def test_sections_come_from_where_each_of_them_lies() -> None:
    contents = {"m": HISTORY, "s": SYSTEM, "t": TOOLS, "o": [said("assistant", "Later")]}
    call = one(analysed([span(1, messages="m", system="s", tools="t", output="o")], contents)).call

    assert [s.kind for s in call.prompt] == ["tools", "system", "user", "assistant", "user"]
    assert [s.kind for s in call.answer] == ["assistant"]


def test_an_inline_section_is_not_looked_for_elsewhere() -> None:
    inline = span(1, messages="m")
    inline = Span(
        **{
            **_fields(inline),
            "attributes": {**inline.attributes, "gen_ai.input.messages": json.dumps(HISTORY)},
        }
    )

    assert one(analysed([inline], {"m": []})).call.prompt.messages.length == 3


def _fields(span: Span) -> dict[str, Any]:
    return {name: getattr(span, name) for name in Span.__slots__}


@pytest.mark.parametrize(
    "content",
    [
        None,
        "a secret",
        ["a secret"],
        [["a secret"]],
        {"name": "package", "version": "1", "secret": "a secret"},
        {"prompt": "a secret"},
        {"messages": "a secret"},
        {"messages": ["a secret"], "model": "m"},
        {"system": "a secret"},
        [{"user": "root", "password": "a secret"}],
        [said("user", "Hello"), {"password": "a secret"}],
    ],
)
@pytest.mark.parametrize("section", ["messages", "system", "tools"])
def test_what_is_no_prompt_is_not_shown(section: str, content: Json) -> None:
    others = {"m": HISTORY, "x": content}
    references = {"messages": "m", section: "x"}
    analysis = analysed([span(1, **references)], others)

    assert b"a secret" not in dumps(build(analysis, Inputs((), ()), include_text=True))
    assert "reference_missing" in one(analysis).call.completeness.reasons
    assert section in one(analysis).call.completeness.lost


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}, ["user"]),
        (
            {"model": "m", "system": "Be kind.", "messages": [{"role": "user", "content": "Hello"}]},
            ["system", "user"],
        ),
        (
            {"model": "m", "instructions": "Be kind.", "input": [{"role": "user", "content": "Hello"}]},
            ["system", "user"],
        ),
    ],
)
def test_a_whole_body_has_its_sections(content: Json, kinds: list[str]) -> None:
    call = one(analysed([span(1, (10, 0), messages="b", system="b", tools="b")], {"b": content})).call

    assert [s.kind for s in call.prompt] == kinds
    assert call.completeness.status == "full"  # a request that has no tools has lost none


# ---- named by a hash of what it is


def changing(section: str, names: Sequence[str], *tokens: tuple[int, int]) -> Analysis:
    spans = [
        span(n, t, **{section: f"file:///u/{name}_{section}.json"})
        for n, (name, t) in enumerate(zip(names, tokens, strict=True), 1)
    ]
    return analysed(spans)


def test_another_name_is_another_system_prompt() -> None:
    analysis = changing("system", [HASHES[0], HASHES[0], HASHES[1]], (2_000, 0), (2_100, 1_920), (2_200, 0))

    (found,) = about(analysis, "prefix_changed")
    assert found.calls == (analysis.readings[2].call.id,)
    assert (found.path, found.tokens, found.evidence) == ("system", 2_100, "inferred")
    assert "hash" in found.detail
    at = analysis.readings[2].break_
    assert at is not None
    assert (at.path, at.kind, at.char_offset) == ("system", "system", None)
    assert [n.calls for n in analysis.not_checked if n.check == "prefix_changed"] == [
        (analysis.readings[1].call.id,)  # of the messages nothing is known
    ]


def test_another_name_is_another_list_of_tools() -> None:
    analysis = changing("tools", HASHES, (2_000, 0), (2_100, 0))

    (found,) = about(analysis, "tools_changed")
    assert (found.path, found.tokens) == ("tools", 2_000)
    assert not about(analysis, "tools_reordered")


def test_the_same_name_is_no_change_whatever_the_cache_did() -> None:
    analysis = changing("system", [HASHES[0]] * 2, (2_000, 0), (2_100, 0))

    assert not about(analysis, "prefix_changed")


def test_a_cache_that_was_read_all_the_same_denies_the_change() -> None:
    analysis = changing("system", HASHES, (2_000, 0), (2_100, 2_000))

    assert not about(analysis, "prefix_changed")
    assert any("read more from its cache" in n.why for n in analysis.not_checked)


def test_a_name_without_a_hash_says_nothing() -> None:
    analysis = changing("system", ["first", "second"], (2_000, 0), (2_100, 0))

    assert not about(analysis, "prefix_changed")
    assert [n.check for n in analysis.not_checked] == ["prefix_changed"]


def test_a_prompt_that_is_there_and_one_that_is_not_are_two_where_their_names_are() -> None:
    kept = {f"{HASHES[0]}_s.json": SYSTEM, "m1": HISTORY[:1], "m2": HISTORY}
    spans = [
        span(1, (2_000, 0), system=f"{HASHES[0]}_s.json", messages="m1"),
        span(2, (2_100, 0), system=f"{HASHES[1]}_s.json", messages="m2"),
    ]
    analysis = analysed(spans, kept)

    (found,) = about(analysis, "prefix_changed")
    assert (found.path, found.evidence) == ("system", "inferred")
    assert analysis.readings[1].call.completeness.status == "partial"


def test_nothing_is_compared_where_only_one_call_has_a_section() -> None:
    whole = span(1, (2_000, 0), system="s", messages="m")
    bare = span(2, (2_100, 0), messages="gone")

    assert not about(analysed([whole, bare], {"s": SYSTEM, "m": HISTORY}), "prefix_changed")


def test_gzip_and_lines_are_read_from_a_real_folder(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, HISTORY)).encode()))
    engine = Engine(Settings(contents=Store([tmp_path]).fetch))
    engine.feed([span(1, messages="file:///elsewhere/m.jsonl")])

    assert one(engine.close()).call.prompt.messages.messages == 3
