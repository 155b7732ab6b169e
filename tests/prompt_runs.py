"""What of a prompt would be told by: runs of its characters, wherever a text stands in a value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

RUN = 12  # characters
TEXT = 60  # characters from which on a value is text, not a name


def strings(value: Any) -> Iterator[str]:
    """Every string in a value. Of what is JSON, the strings inside: its own keys and names are no prompt."""
    if isinstance(value, str):
        try:
            inside = json.loads(value) if value[:1] in ("[", "{") else None
        except ValueError:
            inside = None
        yield from [value] if inside is None else strings(inside)
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from strings(each)


def runs(text: str) -> set[str]:
    return {text[i : i + RUN] for i in range(len(text) - RUN + 1)}
