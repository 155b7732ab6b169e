"""The two OpenAI vocabularies, packed beside this file: nothing is ever downloaded.

A pack is zlib over: the number of tokens (4 bytes, big-endian), each token's length in one byte, the tokens' bytes
one after the other; both in the order of rank. ``python -m otel_ctx.tokens.pack`` makes one from a .tiktoken file.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What makes an encoding besides its tokens. Source of both: tiktoken 0.14, openai_public.py, 2026-11-30."""

    sha256: str  # of the .tiktoken text
    pattern: str  # what splits a text before merging


VOCABULARIES = {
    "o200k_base": Vocabulary(
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern="|".join([
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]),
    ),
    "cl100k_base": Vocabulary(
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern=r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}  # fmt: skip


def load(name: str) -> dict[bytes, int]:
    """Token bytes -> rank of a vocabulary that is packed here."""
    from importlib.resources import files  # 15 ms of modules that nobody needs who has another engine

    return unpack(files(__package__).joinpath(f"{name}.bin").read_bytes())


def pack(tiktoken_text: bytes) -> bytes:
    """A .tiktoken text (lines of base64 token, blank, rank) as a pack. ValueError where the ranks have gaps."""
    lines = [line.split() for line in tiktoken_text.splitlines() if line]
    if [int(rank) for _, rank in lines] != list(range(len(lines))):
        raise ValueError("the ranks are not 0, 1, 2 … in this order")
    tokens = [base64.b64decode(token, validate=True) for token, _ in lines]
    data = len(tokens).to_bytes(4, "big") + bytes(map(len, tokens)) + b"".join(tokens)
    return zlib.compress(data, 9)


def unpack(packed: bytes) -> dict[bytes, int]:
    data = zlib.decompress(packed)
    count = int.from_bytes(data[:4], "big")
    ends = accumulate(data[4 : 4 + count], initial=4 + count)
    start = next(ends)
    ranks = {}
    for rank, end in enumerate(ends):
        ranks[data[start:end]] = rank
        start = end
    return ranks


def tiktoken_text(ranks: dict[bytes, int]) -> bytes:
    """The .tiktoken text again, byte for byte: what its sha256 is taken of."""
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
