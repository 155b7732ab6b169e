"""Tokens and the prompt cache: what the usage numbers of an answer are.

The rules as the providers document them, without lifetimes: nothing expires while a stub runs. Of images and other
media the base64 is counted like text.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise

import tiktoken

from otel_ctx.tokens.vocabulary import VOCABULARIES, load
from tests.provider_stub.interface import Block, Prompt, Usage

MINIMUM = 1024  # tokens from which a prefix is cached
STEP = 128  # an automatic cache reads whole steps
LOOKBACK = 20  # blocks before a marker at which an earlier entry is looked for
FRAME = 3  # tokens around each block, and before the answer


@cache
def _encoding() -> tiktoken.Encoding:
    # tiktoken's own way downloads the vocabulary; here nothing leaves the machine.
    name = "o200k_base"
    pattern, ranks = VOCABULARIES[name].pattern, load(name)
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


@lru_cache(4096)  # a history is sent again and again
def _encode(text: str) -> tuple[int, ...]:
    return tuple(_encoding().encode_ordinary(text))


def tokens(text: str) -> int:
    return len(_encode(text))


class PromptCache:
    """Prefixes by model. Two requests at once miss both: what one writes can be read once its answer has begun."""

    def __init__(self) -> None:
        self._stored: set[bytes] = set()
        self._lock = threading.Lock()

    def meter(self, prompt: Prompt, automatic: bool, output: int, reasoning: int) -> Usage:
        encoded = [_encode(block.text) for block in prompt.blocks]
        total = sum(len(ids) + FRAME for ids in encoded) + FRAME
        account = self._automatic if automatic else self._marked
        with self._lock:
            read, write, write_1h = account(prompt, encoded)
        return Usage(total, read, write, write_1h, output + reasoning, reasoning)

    def _automatic(self, prompt: Prompt, encoded: Sequence[Sequence[int]]) -> tuple[int, int, int]:
        steps = dict(_steps(prompt.model, encoded))
        read = max((length for key, length in steps.items() if key in self._stored), default=0)
        self._stored |= steps.keys()
        return read, 0, 0

    def _marked(self, prompt: Prompt, encoded: Sequence[Sequence[int]]) -> tuple[int, int, int]:
        ends = list(_block_ends(prompt.model, prompt.blocks, encoded))
        marks = [n for n, block in enumerate(prompt.blocks) if block.marker and ends[n][1] >= MINIMUM]
        looked_at = {n for mark in marks for n in range(max(0, mark - LOOKBACK), mark + 1)}
        read = max((ends[n][1] for n in looked_at if ends[n][0] in self._stored), default=0)
        self._stored |= {ends[n][0] for n in marks}
        written = {"5m": 0, "1h": 0}
        for before, mark in pairwise([None, *marks]):
            start = max(read, 0 if before is None else ends[before][1])
            written[prompt.blocks[mark].marker or "5m"] += max(0, ends[mark][1] - start)
        return read, sum(written.values()), written["1h"]


def _steps(model: str, encoded: Sequence[Sequence[int]]) -> Iterator[tuple[bytes, int]]:
    """Key and length of each prefix that an automatic cache knows."""
    stream = [str(token) for ids in encoded for token in (*[-1] * FRAME, *ids)]
    digest, done = hashlib.sha256(model.encode()), 0
    for length in range(MINIMUM, len(stream) + 1, STEP):
        digest.update(",".join(stream[done:length]).encode())
        done = length
        yield digest.digest(), length


def _block_ends(
    model: str, blocks: Sequence[Block], encoded: Sequence[Sequence[int]]
) -> Iterator[tuple[bytes, int]]:
    """Key and length of the prefix up to the end of each block."""
    digest, length = hashlib.sha256(model.encode()), 0
    for block, ids in zip(blocks, encoded, strict=True):
        digest.update(hashlib.sha256(block.text.encode()).digest())
        length += len(ids) + FRAME
        yield digest.digest(), length
