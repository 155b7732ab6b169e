"""Long texts in parts, so that no native call is long: some hold the interpreter's lock, and tiktoken panics on a
whitespace run of a million."""

from __future__ import annotations

import re
from collections.abc import Iterator

PART = 16_384  # characters: about 0.3 ms of a native tokenizer
UNCUT = 200_000  # a text without a place to cut is left whole up to here
PIECE = 50_000  # and cut anywhere beyond it

# Where a token always ends, whatever stands around: after the last line feed before a visible character, and between
# a letter or digit and a quotation mark (JSON on one line). No pattern of VOCABULARIES looks behind, and in each
# a run of blanks ends at its last line feed; `/` is left out, because o200k's punctuation goes on over "\n/".
_CUT = re.compile(r'\n(?=[ \t]*+[A-Za-z0-9"\u4e00-\u9fff])|(?<=[A-Za-z0-9])(?=")')


def parts(text: str, size: int = PART) -> Iterator[tuple[str, bool]]:
    """Parts of at least ``size`` characters, in order, and whether the text was cut where a token ends: then the
    counts of the parts sum to the count of the whole."""
    start = 0
    while start < len(text):
        cut = _CUT.search(text, start + size) if len(text) - start > size else None
        end = cut.end() if cut else len(text)
        if end - start <= max(UNCUT, size):
            yield text[start:end], True
        else:
            for at in range(start, end, PIECE):
                yield text[at : min(at + PIECE, end)], False
        start = end
