"""Requests and answers that stand in records of their own: which belong together, by the ids that a log gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from otel_ctx.inputs.interface import Skipped
from otel_ctx.model import Span

EXPLICIT = ("custom_id", "request_id", "requestId", "req_id")
"""Ids that batches and gateways use again in other files, and from one try to the next."""
_NAMED_ID = re.compile(
    r"(?:^|.*[-_. ])(?:id|uuid|guid)|.*[a-z](?:I[dD]|UUID|Uuid|GUID|Guid)|(?:req|request|trace|call|flow|correlation)id"
)
_STAYS = re.compile(  # an id of what lasts longer than a request
    r"conversation|session|thread|chat|user|account|tenant|org|project|customer|client|team|group|app|agent|service|host"
    r"|instance|process|worker|container|pod|node|model|deployment|key|device|workspace|region|parent|env|stream|version",
    re.IGNORECASE,
)

Ids = frozenset[tuple[str, str]]  # name and value


def ids_of(around: list[Mapping[str, Any]], body: Any) -> Ids:
    """Of what lies round a request or an answer, not of itself."""
    return frozenset(
        (name, str(value))
        for level in around
        if level is not body
        for name, value in level.items()
        if isinstance(value, (str, int)) and value != "" and not isinstance(value, bool) and _is_id(name)
    )


def _is_id(name: str) -> bool:
    return len(name) < 64 and _NAMED_ID.fullmatch(name) is not None and not _STAYS.search(name)


class _Answer(NamedTuple):
    span: Span
    ids: Ids


class Pairs:
    """Of one file. Answers are kept until its end: only then it is known that no other request has their id."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute  # of a span, that names a request and its answer alike
        self._names: dict[tuple[str, str], str] = {}  # of requests by their ids, "" where several have one
        self._requests = 0
        self._answers: list[_Answer] = []

    def ask(self, ids: Ids, span: Span) -> Span:
        """A request without an answer, with a name that its answer can be given."""
        self._requests += 1
        if not ids:
            return span
        name = str(span.attributes.get(self._attribute) or f"{span.trace_id}:{span.span_id}")
        for one in ids:
            self._names[one] = "" if one in self._names else name
        return _named(span, self._attribute, name)

    def answer(self, ids: Ids, span: Span) -> None:
        self._answers.append(_Answer(span, ids))

    def close(self, skipped: list[Skipped]) -> Iterator[Span]:
        """The answers, each with the name of its request. Those of which that is not known stand beside the requests: said."""
        common = Counter(one for answer in self._answers for one in answer.ids)
        explicit = {value for name, value in self._names if name in EXPLICIT}
        alone: list[Span] = []
        for span, ids in self._answers:
            names = {self._names[one] for one in ids if common[one] == 1 and self._names.get(one)}
            if len(names) == 1:
                span = _named(span, self._attribute, names.pop())
            elif span.attributes.get(self._attribute) not in explicit:
                alone.append(span)
            yield span
        if alone and self._requests > len(self._answers) - len(alone):
            count = f"{len(alone):,} answers" if len(alone) > 1 else "an answer"
            skipped.append(Skipped(alone[0].where, f"{count} {_ALONE}"))


_ALONE = "that no id joins to a request, counted as calls of their own: log one id with both (request_id)"


def _named(span: Span, attribute: str, name: str) -> Span:
    return replace(span, attributes={**span.attributes, attribute: name})
