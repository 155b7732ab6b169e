"""What has the form of a name, and what stands in the place of what has not: there may be prompt text in it.

A framework may put a task or a question where a name is meant. A name is short, stands on one line and is of few words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/@+-]+")  # of models, packages, hosts, files
# What providers take as the name of a tool, and what a type of an error looks like.
_TOOL = re.compile(r"[\w.:/-]{1,80}")
_LONGEST_IDENTIFIER = 200  # characters: Bedrock's profiles have ARNs
# Text has them; what else cannot be seen is escaped.
_BREAK = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_LONGEST, _WORDS = 64, 8  # columns and words of any other name


def is_word(value: str) -> bool:
    """Of a tool, a role, a type: providers take but one word."""
    return _TOOL.fullmatch(value) is not None


def is_identifier(value: str) -> bool:
    return len(value) <= _LONGEST_IDENTIFIER and _IDENTIFIER.fullmatch(value) is not None


def is_name(value: str) -> bool:
    """Of an agent, a service, a model and the like."""
    if _IDENTIFIER.fullmatch(value):
        return len(value) <= _LONGEST_IDENTIFIER
    return _BREAK.search(value) is None and cells(value) <= _LONGEST and len(value.split()) <= _WORDS


def digest_of(value: str, size: int = 4) -> str:
    """To be shown in the place of what is no name. ``size`` in bytes: 8 where different ones must not become one."""
    return f"(no name {blake2b(value.encode('utf-8', 'replace'), digest_size=size).hexdigest()})"


def cells(text: str) -> int:
    """Columns that an escaped text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_cell, text))


@lru_cache(maxsize=1024)
def _cell(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
