"""Tokens: the vocabularies are whole, the engines agree, a cut changes no count, and nothing can hurt the host."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_ctx.errors import SettingError
from otel_ctx.tokens import ENCODINGS, Counter, claude, cutting, estimates, vocabulary
from otel_ctx.tokens import pack as packing
from otel_ctx.tokens.engines import ENGINES, KNOWN_COUNTS, UnfitError, start

ENGINE = {engine.name: engine for engine in ENGINES}
OPENAI = ("o200k_base", "cl100k_base")
CHANCE = random.Random(20261130)

PROSE = (
    "The quick brown fox doesn't jump over 12,345 lazy dogs; it's asleep.\n\n"
    "    def sleep(self, hours: float = 7.5) -> None:\n        return None  # ZZZ\r\n"
    '{"role": "tool", "content": [{"type": "text", "text": "naïve café – 3 €"}]}\n'
)
VARIED = (
    PROSE,
    PROSE * 300,
    json.dumps([{"id": n, "name": f"user_{n}", "tags": ["a", "b"], "ok": n % 2 == 0} for n in range(2_000)]),
    json.dumps([{"id": n, "value": n * 1.37} for n in range(2_000)], indent=2),
    "".join(Path(json.__file__).with_name(name).read_text("utf-8") for name in ("decoder.py", "encoder.py")),
    "你好，世界！これはテストです。한국어 문장도 있습니다。" * 200,
    "Привет, мир! Ещё раз. مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก\n" * 100,
    "😀👍🏽👩\u200d👩\u200d👧‍👦🇨🇭 e\u0301 \ufeff\u00a0\u3000" * 100,
    "<|endoftext|><|im_start|>system<|im_sep|><|endofprompt|>",
    " " * 3_000 + "\t" * 500 + "\n" * 500 + "\r\n \r\n" * 50 + "end" + " " * 99,
    "\x00\x01\x1b[31m\x7f\ufffd",
    base64.b64encode(CHANCE.randbytes(60_000)).decode(),
    "".join(
        chr(CHANCE.choice((CHANCE.randrange(0xD800), CHANCE.randrange(0xE000, 0x110000))))
        for _ in range(3_000)
    ),
)


@pytest.fixture(autouse=True)
def _fresh_engines(request: pytest.FixtureRequest) -> Iterator[None]:
    """Loaded tokenizers are shared by a process: here some are missing, broken or counting wrong on purpose."""
    if "monkeypatch" not in request.fixturenames:
        yield
        return
    start.cache_clear()
    claude.installed.cache_clear()
    yield
    start.cache_clear()
    claude.installed.cache_clear()


@pytest.fixture(scope="module")
def by_tiktoken() -> Counter:
    return Counter("tiktoken")


@pytest.fixture(scope="module")
def by_splintr() -> Counter:
    pytest.importorskip("splintr")
    return Counter("splintr")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``without("splintr", …)``: as if these modules were not installed."""

    def hide(*modules: str) -> None:
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)

    return hide


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def fake_splintr(monkeypatch: pytest.MonkeyPatch, encode: Any) -> None:
    """A splintr that encodes as ``encode`` says."""
    tokenizer = ModuleType("tokenizer")
    tokenizer.encode_ordinary = tokenizer.encode_raw = encode  # type: ignore[attr-defined]
    loader = ModuleType("loader")
    loader.from_pretrained = lambda name: tokenizer  # type: ignore[attr-defined]
    fake(monkeypatch, "splintr", Tokenizer=loader)


# ---- the vocabularies


@pytest.mark.parametrize("name", OPENAI)
def test_a_pack_holds_the_very_file_that_openai_serves(name: str) -> None:
    text = vocabulary.tiktoken_text(vocabulary.load(name))

    assert hashlib.sha256(text).hexdigest() == vocabulary.VOCABULARIES[name].sha256
    assert vocabulary.unpack(vocabulary.pack(text)) == vocabulary.load(name)


def test_the_sums_are_openais() -> None:
    assert [vocabulary.VOCABULARIES[name].sha256 for name in OPENAI] == [
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ]


def test_a_pack_is_made_of_the_right_file_only(tmp_path: Path) -> None:
    right = tmp_path / "cl100k_base.tiktoken"
    right.write_bytes(vocabulary.tiktoken_text(vocabulary.load("cl100k_base")))
    target = packing.write(right, tmp_path)
    assert vocabulary.unpack(target.read_bytes()) == vocabulary.load("cl100k_base")

    right.write_bytes(right.read_bytes().replace(b"IQ== 0", b"IQ== 1", 1))
    with pytest.raises(ValueError, match="sha256"):
        packing.write(right, tmp_path)
    with pytest.raises(ValueError, match="the name must be"):
        packing.write(tmp_path / "p50k_base.tiktoken", tmp_path)


def test_ranks_with_a_gap_are_no_vocabulary() -> None:
    with pytest.raises(ValueError, match="ranks"):
        vocabulary.pack(b"IQ== 0\nIg== 2\n")


def test_the_patterns_are_tiktokens(monkeypatch: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    asked = []
    monkeypatch.setattr(public, "load_tiktoken_bpe", lambda url, expected_hash: asked.append(expected_hash))
    for name in OPENAI:
        made = vocabulary.VOCABULARIES[name]
        assert public.ENCODING_CONSTRUCTORS[name]()["pat_str"] == made.pattern
        assert asked[-1] == made.sha256


# ---- loading


def test_importing_loads_no_tokenizer() -> None:
    heavy = ("tiktoken", "splintr", "toktok", "ctok", "regex", "requests")
    code = f"import sys, otel_ctx.tokens as t; t.Counter(); print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("engine", [None, "tiktoken"])
def test_counting_needs_no_network(engine: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = __import__("tiktoken.registry").registry
    before = dict(registry.ENCODINGS)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    counter = Counter(engine)
    for encoding in (*OPENAI, "claude3", "claude4.7", "gemma3", "kimi_k2", ""):
        assert counter.count("hello world", encoding)[0] in (2, 3)
    assert counter.describe()["dropped"] == {}
    assert dict(registry.ENCODINGS) == before


def test_an_engine_that_is_not_there_is_refused_by_name(without: Any) -> None:
    without("splintr")
    with pytest.raises(SettingError, match="'splintr' is not installed"):
        Counter("splintr")
    with pytest.raises(SettingError, match="must be one of splintr, toktok, tiktoken, bytes"):
        Counter("magic")


def test_without_splintr_tiktoken_counts(without: Any) -> None:
    without("splintr", "toktok")
    counter = Counter()
    assert counter.engine == ""
    assert counter.count("hello world", "o200k_base") == (2, "exact")
    assert counter.engine == "tiktoken"
    assert counter.count("hello world", "gemma3") == (2, "estimated")
    assert counter.describe()["dropped"] == {}


def test_without_any_tokenizer_a_token_is_four_bytes(without: Any) -> None:
    without("splintr", "toktok", "tiktoken", "ctok")
    counter = Counter()
    for encoding in ("o200k_base", "cl100k_base", "gpt_oss", "", "no such"):
        assert counter.count("x" * 41, encoding) == (11, "estimated")
    assert counter.count("x" * 400, "claude3")[1] == "estimated"
    assert counter.engine == "bytes"
    assert counter.count("", "o200k_base") == (0, "exact")


def test_an_engine_that_counts_wrong_is_dropped(monkeypatch: pytest.MonkeyPatch, without: Any) -> None:
    without("toktok")
    fake_splintr(monkeypatch, lambda text: text.split())
    counter = Counter()
    assert counter.count("hello world", "o200k_base") == (2, "exact")
    assert counter.engine == "tiktoken"
    dropped = counter.describe()["dropped"]
    assert list(dropped) == ["splintr o200k_base"]
    assert "tokens, not" in dropped["splintr o200k_base"]


def test_an_engine_that_is_broken_is_dropped(monkeypatch: pytest.MonkeyPatch, without: Any) -> None:
    without("toktok")

    class Panic(BaseException):
        pass

    def broken(name: str) -> None:
        raise Panic("no such file")

    loader = ModuleType("loader")
    loader.from_pretrained = broken  # type: ignore[attr-defined]
    fake(monkeypatch, "splintr", Tokenizer=loader)
    counter = Counter()
    assert counter.count("hello world", "cl100k_base") == (2, "exact")
    assert counter.describe()["dropped"] == {"splintr cl100k_base": "Panic: no such file"}


# ---- exact


@pytest.mark.parametrize("encoding", OPENAI)
@pytest.mark.parametrize("engine", ["splintr", "toktok"])
def test_engines_agree_with_tiktoken(engine: str, encoding: str, by_tiktoken: Counter) -> None:
    pytest.importorskip(engine)
    counter = Counter(engine)
    for text in VARIED:
        counted = counter.count(text, encoding)
        assert counted == by_tiktoken.count(text, encoding), text[:40]
        assert counted[1] == "exact"


def test_counts_that_anybody_can_look_up(by_tiktoken: Counter) -> None:
    # From the examples of OpenAI's cookbook, "How to count tokens with tiktoken".
    for text, cl100k, o200k in (
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 9, 8),
    ):
        assert by_tiktoken.count(text, "cl100k_base") == (cl100k, "exact")
        assert by_tiktoken.count(text, "o200k_base") == (o200k, "exact")


@pytest.mark.parametrize("encoding", sorted(KNOWN_COUNTS))
def test_known_counts_hold(encoding: str) -> None:
    start.cache_clear()
    pytest.importorskip("splintr")
    start(ENGINE["splintr"], encoding)  # raises UnfitError where one differs
    broken = replace(ENGINE["splintr"], load=lambda _: len)
    with pytest.raises(UnfitError, match="tokens, not"):
        start(broken, encoding)


def test_special_tokens_in_a_text_are_text(by_tiktoken: Counter) -> None:
    for encoding in OPENAI:
        assert by_tiktoken.count("<|endoftext|>", encoding) == (7, "exact")


def test_the_long_s_that_engines_split_differently_is_no_exact_count(
    by_splintr: Counter, by_tiktoken: Counter
) -> None:
    assert by_splintr.count("it'\u017f", "o200k_base")[1] == "estimated"
    assert by_splintr.count("it's \u017f", "o200k_base")[1] == "exact"
    assert by_tiktoken.count("it'\u017f", "o200k_base")[1] == "exact"


@pytest.mark.parametrize("engine", ["splintr", "tiktoken"])
def test_half_a_character_counts_as_the_replacement_character(engine: str) -> None:
    pytest.importorskip(engine)
    counter = Counter(engine)
    for encoding in OPENAI:
        assert counter.count("a \ud83d b", encoding) == counter.count("a \ufffd b", encoding)
        assert counter.count("\ud83d\ude00", encoding) == counter.count("😀", encoding)
    assert counter.describe()["failures"] == 0


def test_gpt_oss_is_o200k_and_other_families_say_how_sure_they_are(by_splintr: Counter) -> None:
    counter = by_splintr
    assert counter.count(PROSE, "gpt_oss") == counter.count(PROSE, "o200k_base")
    assert counter.count(PROSE, "") == (counter.count(PROSE, "o200k_base")[0], "estimated")
    methods = {encoding: counter.count(PROSE, encoding)[1] for encoding in ENCODINGS}
    assert {encoding for encoding, method in methods.items() if method == "exact"} == {
        *KNOWN_COUNTS,
        "gpt_oss",
    }
    # What the tokenizers themselves do: one token a digit, HTML tags whole, composed characters.
    assert counter.count("12345678", "gemma3")[0] == 8
    assert counter.count("<table></table>", "gemma3") == (2, "exact")
    assert counter.count("<start_of_turn>x", "gemma3")[1] == "estimated"
    assert counter.count("e\u0301te\u0301", "qwen3") == counter.count("été", "qwen3")


def test_two_threads_count_at_once(by_tiktoken: Counter) -> None:
    start.cache_clear()
    counter = Counter()
    texts = [PROSE[at:] for at in range(100)] * 4
    with ThreadPoolExecutor(2) as pool:
        counted = list(pool.map(lambda text: counter.count(text, "o200k_base"), texts))
    assert counted == [by_tiktoken.count(text, "o200k_base") for text in texts]


# ---- long texts

FRAGMENTS = st.sampled_from([
    "\n", "\r\n", "\n\n", " ", "   ", "\t", "\u00a0", "\x0b", "a", "Word", "it's", "'S", "ABC", "7", "12345",
    '"', ' "', '":"', "'", "/", "//", "\n/", ",", "{}", "!", "…", "_", "<|", "|>",
    "é", "e\u0301", "\u0301", "ǅ", "的", "世界", "か", "٣", "😀", "\u200d",
])  # fmt: skip


@pytest.mark.parametrize("encoding", OPENAI)
def test_a_cut_changes_no_count(encoding: str) -> None:
    count = start(ENGINE["tiktoken"], encoding)

    @given(st.lists(FRAGMENTS, max_size=60), st.integers(1, 12))
    @settings(max_examples=300)
    def check(fragments: list[str], size: int) -> None:
        text = "".join(fragments)
        parts = list(cutting.parts(text, size))
        assert "".join(part for part, _ in parts) == text
        assert all(whole for _, whole in parts)
        assert sum(count(part) for part, _ in parts) == count(text)

    check()


def test_ordinary_long_texts_are_cut_and_stay_exact() -> None:
    count = start(ENGINE["tiktoken"], "o200k_base")
    for text in (PROSE * 5_000, VARIED[2] * 8, VARIED[3] * 8):
        parts = list(cutting.parts(text))
        assert all(whole and len(part) < 2 * cutting.PART for part, whole in parts)
        assert sum(count(part) for part, _ in parts) == count(text)


@pytest.mark.parametrize("engine", ["splintr", "toktok", "tiktoken"])
def test_texts_that_make_tiktoken_panic_or_hang_are_counted(engine: str) -> None:
    pytest.importorskip(engine)
    counter = Counter(engine)
    for text in (" " * 1_000_141, "a" * 1_000_000, "\t\n" * 500_000 + "x"):
        for encoding in OPENAI:
            tokens, method = counter.count(text, encoding)
            assert method == "estimated"
            assert 3_000 < tokens < 500_000
    assert counter.describe()["failures"] == 0


def test_a_text_without_a_safe_cut_is_nearly_exact() -> None:
    text = base64.b64encode(CHANCE.randbytes(750_000)).decode()
    whole = start(ENGINE["tiktoken"], "o200k_base")(text)
    tokens, method = Counter("tiktoken").count(text, "o200k_base")
    assert method == "estimated"
    assert abs(tokens - whole) <= len(text) / cutting.PIECE


# ---- an engine that fails


def test_a_panic_becomes_an_estimate(monkeypatch: pytest.MonkeyPatch, by_tiktoken: Counter) -> None:
    class PanicException(BaseException):
        pass

    def encode(text: str) -> list[int]:
        if text.startswith("panic"):
            raise PanicException("called `Option::unwrap()` on a `None` value")
        if text.startswith("never"):
            raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")
        return [0] * by_tiktoken.count(text, "o200k_base")[0]

    fake_splintr(monkeypatch, encode)
    counter = (
        Counter("splintr") if "splintr" in sys.modules and sys.modules["splintr"].__spec__ else Counter()
    )
    assert counter.count("hello world", "o200k_base") == (2, "exact")
    assert counter.engine == "splintr"
    assert counter.count("panic" + "x" * 35, "o200k_base") == (10, "estimated")
    assert counter.count("never" + "x" * 35, "o200k_base") == (10, "estimated")
    assert counter.describe()["failures"] == 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_shall_stop_the_program_does(
    stop: type[BaseException], monkeypatch: pytest.MonkeyPatch, by_tiktoken: Counter
) -> None:
    def encode(text: str) -> list[int]:
        if text == "stop":
            raise stop
        return [0] * by_tiktoken.count(text, "o200k_base")[0]

    fake_splintr(monkeypatch, encode)
    counter = Counter()
    counter.count("hello", "o200k_base")
    with pytest.raises(stop):
        counter.count("stop", "o200k_base")


# ---- estimates

EXPRESSIONS = {
    "capitalized": re.compile(r"[A-Z][a-z]+"),
    "all_caps": re.compile(r"[A-Z]{2,}"),
    "digit_runs": re.compile(r"[0-9]+"),
    "digits": re.compile(r"[0-9]"),
    "punctuation_runs": re.compile(r"[!-/:-@\[-`{-~]+"),
    "words": re.compile(r"[A-Za-z]+"),
    "long_lower": re.compile(r"[a-z]{7,}"),
    "cyrillic_greek": re.compile("[\u0300-\u04ff]"),
    "han": re.compile("[\u4000-\u9fff]"),
}


@given(st.text(alphabet=st.sampled_from("aZbcdefgQ09.;_ \n\u00e9\u0436\u7684\U0001f600\ud83d"), max_size=80))
def test_terms_are_what_their_expressions_find(text: str) -> None:
    found = estimates.terms(text, 7)
    assert found.tokens == 7
    for name, expression in EXPRESSIONS.items():
        assert getattr(found, name) == len(expression.findall(text)), name
    scripts = sum(
        getattr(found, name) for name in estimates.Terms._fields[estimates.Terms._fields.index("latin") :]
    )
    assert scripts == sum(not character.isascii() for character in text)


def test_an_estimate_is_the_weighted_sum() -> None:
    # "NASA has 42 Rockets.": 1 run of capitals, 1 of digits, 1 Capword, 1 mark, 3 words, 0 long lower-case runs.
    found = estimates.terms("NASA has 42 Rockets.", 100)
    weighed = 100 * 0.969 + 0.552 - 0.185 + 0.213 + 0.421 + 3 * 0.112
    assert estimates.estimate(estimates.MODELS["claude3"], found) == round(weighed)
    assert estimates.estimate(estimates.MODELS["mistral_v3"], estimates.terms("1", 0)) == 1


def test_claude_estimates_are_near_the_recorded_answers(without: Any) -> None:
    without("ctok")
    counter = Counter("tiktoken")
    recorded = json.loads(
        gzip.decompress((Path(__file__).parent / "data/claude_counts.json.gz").read_bytes())
    )
    errors: dict[str, list[float]] = {"claude3": [], "claude4.7": []}
    for row in recorded["texts"]:
        for encoding, of in errors.items():
            tokens, method = counter.count(row["text"], encoding)
            assert method == "estimated"
            of.append(abs(tokens / row[encoding] - 1))
            assert of[-1] < 0.15, row["language"]
    for of in errors.values():
        assert sum(of) / len(of) < 0.06


@pytest.mark.parametrize("encoding", sorted(estimates.MODELS.keys() & KNOWN_COUNTS.keys()))
def test_family_estimates_are_near_the_familys_own_tokenizer(
    encoding: str, by_splintr: Counter, by_tiktoken: Counter
) -> None:
    texts = VARIED[:5]
    exact = [by_splintr.count(text, encoding)[0] for text in texts]
    for text, known in zip(texts, exact, strict=True):
        tokens, method = by_tiktoken.count(text, encoding)
        assert method == "estimated"
        assert abs(tokens / known - 1) < 0.2


# ---- Claude by ctok


def test_ctok_counts_less_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = {"3.0": 7, "4.8": 6}

    def token_count(text: str, version: str) -> int:
        if "fail" in text:
            raise RecursionError
        per_text = {"hello, world": {"3.0": 3, "4.8": 4}}.get(text)
        return frames[version] + (per_text[version] if per_text else len(text.split()) * 10)

    fake(monkeypatch, "ctok", token_count=token_count)
    counter = Counter("tiktoken")
    assert counter.count("one two three", "claude3") == (30, "estimated")
    assert counter.count("one two", "claude4.7") == (20, "estimated")
    assert counter.engine == "ctok"
    # Too long for pure Python, or a text on which it fails: the fitted model.
    without_ctok = estimates.MODELS["claude3"]
    for text in ("word " * 50_000, "fail"):
        o200k = counter.count(text, "o200k_base")[0]
        expected = estimates.estimate(without_ctok, estimates.terms(text, o200k))
        assert counter.count(text, "claude3") == (expected, "estimated")
    assert len("word " * 50_000) > claude.LONGEST
    assert counter.describe()["failures"] == 1
    assert Counter("bytes").count("one two three", "claude3")[0] < 30


def test_a_ctok_that_counts_otherwise_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "ctok", token_count=lambda text, version: 1_000)
    with pytest.raises(UnfitError):
        claude.start("claude3")
    counter = Counter("tiktoken")
    assert counter.count("hello, world", "claude3")[0] < 10
    assert list(counter.describe()["dropped"]) == ["ctok claude3"]


def test_the_real_ctok() -> None:
    pytest.importorskip("ctok")
    counter = Counter("tiktoken")
    recorded = json.loads(
        gzip.decompress((Path(__file__).parent / "data/claude_counts.json.gz").read_bytes())
    )
    for row in recorded["texts"]:
        for encoding in ("claude3", "claude4.7"):
            assert abs(counter.count(row["text"], encoding)[0] - row[encoding]) <= 1, row["language"]
