"""What is known less of a request, where the dump's format has kept some attributes only in part (``Span.cut``).

The formats know nothing of dialects, the readers nothing of formats: the names of the attributes tell what they held.
"""

from __future__ import annotations

import re

from otel_ctx.model import Cut, Telling

# Looked for in this order in the name of an attribute.
_SECTIONS = tuple(
    (re.compile(pattern).search, section)
    for pattern, section in (
        (r"output|completion|response|result|choice|exception|answer", ""),
        (r"system|instruction", "system"),
        (r"messages?|prompt\.\d", "messages"),
        (r"tool|function", "tools"),
        (r"input|prompt|events|content|body|request_data|llm_request|history", "messages"),
    )
)


def with_cut(telling: Telling, cut: Cut | None) -> Telling:
    """``telling`` with what is missing because of ``cut``."""
    if cut is None:
        return telling
    sections = {section for key in cut.keys if (section := _section(key))}
    if not sections:
        return telling
    return telling._replace(
        reasons=telling.reasons | {"value_cut"},
        lost=telling.lost | sections,
        cut_by=cut.format,
    )


def _section(key: str) -> str:
    """The section of a prompt that an attribute of this name holds; "" of none."""
    key = key.lower()
    return next((section for search, section in _SECTIONS if search(key)), "")
