"""Requests and their answers that came in records of their own, under one id of the application or the gateway.

An id comes back with the next batch. Where the model, the order or the file does not tell whose an answer is, it is nobody's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from otel_ctx.calls.told import Told, place_of
from otel_ctx.rules import Rules, normalise_model_id

_LOOKED_AT = 64  # requests or answers of one id, files of one batch
_LATE_NS = 5_000_000_000  # an answer's clock may be another, and counts in seconds
_VERSION = re.compile(r"-(?:0|\d{3,}|(?:preview|exp)\b.*)")  # behind the name of the same model


@dataclass(slots=True)
class Paired:
    """``unclear``: requests and answers of one id of which nothing tells which belong together."""

    pairs: list[tuple[Told, Told]] = field(default_factory=list)
    unclear: list[Told] = field(default_factory=list)


def paired(calls: Iterable[Told], rules: Rules, find: Callable[[str], str]) -> Paired:
    """``find`` names the group that a telling was put into: an answer that was told twice is one."""
    asked: dict[str, list[Told]] = defaultdict(list)
    answered: dict[str, dict[str, Told]] = defaultdict(dict)
    for t in calls:
        name = t.telling.request_id
        if not name or (t.content and (t.answer or t.telling.usage)):
            continue
        if t.content:
            asked[name].append(t)
        else:
            answered[name].setdefault(find(t.id), t)
    out = Paired()
    partners: dict[str, str] | None = None
    for name in asked.keys() & answered.keys():
        open_, left = _in_order(asked[name]), _in_order(answered[name].values())
        late: list[Told] = []
        for n, answer in enumerate(left):
            rivals = [*late[:_LOOKED_AT], *left[n : n + _LOOKED_AT]]
            whose = _whose(answer, _fitting(answer, open_, rules), rivals, rules)
            if whose is None:
                late.append(answer)
            else:
                open_.remove(whose)
                out.pairs.append((answer, whose))
        if not late or not open_:
            continue
        if partners is None:
            partners = _partners(asked, answered)
        unclear: list[Told] = []
        for answer in late:
            file = partners.get(answer.telling.trace_id)
            fit = [q for q in _fitting(answer, open_, rules) if q.telling.trace_id == file]
            if len(fit) == 1:
                open_.remove(fit[0])
                out.pairs.append((answer, fit[0]))
            else:
                unclear.append(answer)
        out.unclear += [*open_, *unclear] if unclear else ()
    return out


def _in_order(told: Iterable[Told]) -> list[Told]:
    return sorted(told, key=lambda t: (t.telling.start_unix_nano, t.telling.trace_id, place_of(t)))


def _fitting(answer: Told, asked: list[Told], rules: Rules) -> list[Told]:
    """Those of ``asked`` that it may answer: of its model, and sent before it as far as that is known."""
    of_model = [q for q in asked[:_LOOKED_AT] if not _other_models(q, answer, rules)]
    if len(of_model) < 2:
        return of_model
    before = [q for q in of_model if _is_before(q, answer, 0)]
    return before or [q for q in of_model if _is_before(q, answer, _LATE_NS)]


def _whose(answer: Told, fitting: list[Told], rivals: list[Told], rules: Rules) -> Told | None:
    """The one request that it can answer, or any of equal ones. Of several answers the first after it is a request's;
    which one that is, is not known of a request without a time in another file."""
    if not fitting or len({_prompt(q) for q in fitting}) > 1:
        return None
    first = fitting[0]
    if first.telling.start_unix_nano or first.telling.trace_id == answer.telling.trace_id:
        return first
    of_model = [r for r in rivals if not _other_models(first, r, rules)]
    return first if len(of_model) <= len(fitting) else None


def _prompt(t: Told) -> Hashable:
    return t.messages.key, tuple(s.digest for s in (*t.tools, *t.system))


def _is_before(asked: Told, answer: Told, slack: int) -> bool:
    a, b = asked.telling, answer.telling
    if a.start_unix_nano and b.end_unix_nano:
        return a.start_unix_nano <= b.end_unix_nano + slack
    return a.trace_id != b.trace_id or place_of(asked) < place_of(answer) or bool(slack)


def _other_models(asked: Told, answer: Told, rules: Rules) -> bool:
    """Do they name two models? A deployment's name is no model's."""
    a = asked.telling.request_model
    b = answer.telling.response_model or answer.telling.request_model
    if not a or not b or rules.window(a) is None or rules.window(b) is None:
        return False
    short, long = sorted((normalise_model_id(a), normalise_model_id(b)), key=len)
    rest = long.removeprefix(short)
    return long != short and (rest == long or _VERSION.fullmatch(rest) is None)


def _partners(
    asked: Mapping[str, Iterable[Told]], answered: Mapping[str, Mapping[str, Told]]
) -> dict[str, str]:
    """File of answers -> the one file of requests that has all its ids, and whose answers no other file can hold."""
    requests: dict[str, set[str]] = defaultdict(set)
    answers: dict[str, set[str]] = defaultdict(set)
    for name, told in asked.items():
        for t in told:
            requests[t.telling.trace_id].add(name)
    for name, of in answered.items():
        for t in of.values():
            answers[t.telling.trace_id].add(name)
    if max(len(requests), len(answers)) > _LOOKED_AT:
        return {}
    could = {a: {q for q, theirs in requests.items() if names <= theirs} for a, names in answers.items()}
    partners: dict[str, str] = {}
    while True:
        sure = {a: next(iter(files)) for a, files in could.items() if len(files) == 1}
        sure = {
            a: q
            for a, q in sure.items()
            if not any(q == p and b != a and answers[a] & answers[b] for b, p in sure.items())
        }
        if not sure:
            return partners
        partners |= sure
        could = {
            a: {q for q in files if not any(q == p and answers[a] & answers[b] for b, p in sure.items())}
            for a, files in could.items()
            if a not in sure
        }
