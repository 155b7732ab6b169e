"""The native tokenizers, each loaded on its first use and believed only after it has counted known texts right."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from otel_ctx.tokens import vocabulary

Count = Callable[[str], int]  # may raise anything, a PanicException that is no Exception included


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    name: str
    module: str  # what it is imported as
    encodings: frozenset[str]
    load: Callable[[str], Count]  # never from the network
    # Texts on which it is known not to count as the encoding's own tokenizer does.
    doubtful: dict[str, re.Pattern[str]]


def _splintr(encoding: str) -> Count:
    # gemma4 has the ids of gemma3 for plain text, and takes ten times as long to load.
    tokenizer: Any = import_module("splintr").Tokenizer.from_pretrained(
        "gemma3" if encoding == "gemma4" else encoding
    )
    # HTML tags are single tokens in Gemma 3, as Google's own file has it; encode_ordinary would take them apart.
    encode = tokenizer.encode_raw if encoding == "gemma3" else tokenizer.encode_ordinary
    if encoding == "qwen3":  # its tokenizer composes characters first
        return lambda text: len(encode(unicodedata.normalize("NFC", text)))
    return lambda text: len(encode(text))


def _toktok(encoding: str) -> Count:
    batch_count: Any = import_module("toktok").batch_count
    return lambda text: int(batch_count([text], encoding, threads=1)[0])


def _tiktoken(encoding: str) -> Count:
    # Built from our own bytes: get_encoding may download, without a time limit and under a global lock.
    encode = (
        import_module("tiktoken")
        .Encoding(
            encoding,
            pat_str=vocabulary.VOCABULARIES[encoding].pattern,
            mergeable_ranks=vocabulary.load(encoding),
            special_tokens={},
        )
        .encode_ordinary
    )
    return lambda text: len(encode(text))


_OPENAI = frozenset(vocabulary.VOCABULARIES)
_FAMILIES = frozenset({
    "gemma3", "gemma4", "deepseek_v3", "kimi_k2", "mistral_v3", "llama3", "qwen3", "glm4",
})  # fmt: skip
_LONG_S = {"o200k_base": re.compile("'\u017f")}  # as in it'ſ: tiktoken takes it for 's, the others do not
_GEMMA_MARKERS = re.compile(
    r"<(?:pad|eos|bos|unk|mask|start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token)>"
    r"|\[multimodal\]|<unused\d"
)

# In the order of preference: splintr loads in 40 ms, toktok in 370, tiktoken in 300; tiktoken counts slowest.
ENGINES = (
    Engine("splintr", "splintr", _OPENAI | _FAMILIES, _splintr, _LONG_S | {"gemma3": _GEMMA_MARKERS}),
    Engine("toktok", "toktok", _OPENAI, _toktok, _LONG_S),
    Engine("tiktoken", "tiktoken", _OPENAI, _tiktoken, {}),
)

_KNOWN_TEXTS = (
    "a",
    "hello world",
    "Hello, World! I'm sure they'll say it's DON'T.",
    "The quick brown fox jumps over the lazy dog.\n\nThen   it sleeps.\n",
    'def f(x: int) -> str:\n    return f"{x!r}"\n\n\tif x == 0x1F: pass\r\n',
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2, 3], "ok": null}}',
    "1234567890 3.14159 2026-11-30T08:50:10Z 1,000,000",
    "https://example.org/a/b?c=d&e=f#g",
    "camelCase PascalCase snake_case SCREAMING_CASE kebab-case",
    " " * 100 + "x",
    "\n" * 50 + "\t\t\tend  ",
    "你好，世界！这是一个测试。",
    "こんにちは、世界。カタカナと漢字",
    "Привет, мир! Ещё раз.",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "안녕하세요 세계",
    "😀👍🏽👩\u200d👩\u200d👧 🇨🇭",
    "e\u0301tude \u00a0 naïve \ufeff \u3000x",
    "a" * 200 + "=-" * 50,
    "<table><tr><td>1</td></tr></table>",
    "<|endoftext|><|im_start|>system<|im_end|>",
)
# By tiktoken 0.14 (OpenAI's two), Hugging Face tokenizers 0.23.3 with each model's tokenizer.json (Gemma 3,
# DeepSeek V3, Llama 3, Qwen 3) and tiktoken with Mistral's tekken_240911.json, 2026-11-30. The same day splintr-rs
# 0.22 agreed with each on 3,220 texts, 7.9 million characters: code, JSON, 501 languages, random code points.
# The last text spells special tokens, which the JSON tokenizers would take for such.
KNOWN_COUNTS = {
    "o200k_base": (1, 2, 11, 15, 28, 35, 29, 12, 13, 3, 7, 8, 11, 9, 4, 5, 3, 16, 11, 32, 14, 19),
    "cl100k_base": (1, 2, 15, 15, 28, 35, 29, 12, 13, 3, 6, 12, 14, 12, 10, 13, 9, 27, 11, 32, 14, 19),
    "gemma3": (1, 2, 19, 17, 33, 35, 49, 19, 15, 5, 5, 7, 8, 8, 4, 2, 2, 11, 13, 75, 7),
    "deepseek_v3": (1, 2, 15, 15, 30, 36, 29, 14, 15, 3, 7, 7, 15, 9, 6, 7, 6, 17, 11, 50, 14),
    "mistral_v3": (1, 2, 16, 16, 30, 36, 49, 14, 14, 3, 16, 10, 12, 9, 5, 5, 5, 33, 14, 150, 14),
    "llama3": (1, 2, 15, 15, 28, 35, 29, 12, 13, 3, 6, 9, 11, 10, 6, 9, 3, 25, 10, 32, 14),
    "qwen3": (1, 2, 15, 15, 28, 35, 49, 12, 13, 3, 6, 7, 11, 11, 5, 13, 4, 14, 8, 32, 14),
}


class UnfitError(Exception):
    """An engine counts a known text wrong."""


@cache
def start(engine: Engine, encoding: str) -> Count:
    """The engine's count of ``encoding``, tested where counts are known. Raises whatever goes wrong."""
    count = engine.load(encoding)
    for text, known in zip(_KNOWN_TEXTS, KNOWN_COUNTS.get(encoding, ()), strict=False):
        if (found := count(text)) != known:
            raise UnfitError(f"{text[:20]!r} has {known} tokens, not {found}")
    return count
