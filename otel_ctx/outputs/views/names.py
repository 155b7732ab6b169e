"""Names out of telemetry where no prompt text may be shown: what is no name is shown as a digest.

A framework may put a task or a question where a name is meant. A name has the form of one (``otel_ctx.names``); and no
long run of it is found in a text that was seen, unless it is written as identifiers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import chain
from operator import attrgetter
from typing import Any

from otel_ctx.model import Analysis, Call, Conversation
from otel_ctx.names import cells, digest_of, is_identifier, is_name, is_word

_RUN = 32  # columns: what is as long and stands in a prompt too was taken from it
_FIELDS = ("service", "agent", "operation", "provider", "platform", "model", "scope", "scope_version")
_fields = attrgetter(*_FIELDS)


def name_of(name: str, with_text: bool = False) -> str:
    """A tool's name. Providers take but one word: what has not the form of one may be prompt text that strayed."""
    return name if not name or with_text or is_word(name) else digest_of(name)


def shown(name: str) -> str:
    """Any other name, by its form."""
    return name if not name or is_name(name) else digest_of(name)


def held_back(analysis: Analysis) -> Analysis:
    """``analysis`` with a digest in the place of what is no name: of services, agents, models and the like, wherever the
    text of a finding repeats them too."""
    digests = _digests(analysis)
    if not digests:
        return analysis

    def held(text: str) -> str:
        return reduce(lambda told, name: told.replace(name, digests[name]), digests, text)

    def of_call(call: Call) -> Call:
        changed: dict[str, Any] = {
            f: digests[value] for f in _FIELDS if (value := getattr(call, f)) in digests
        }
        spans = tuple(replace(s, scope=digests.get(s.scope, s.scope)) for s in call.spans)
        return replace(call, **changed, spans=spans)

    def of_conversation(c: Conversation) -> Conversation:
        services, agents, models = (
            tuple(digests.get(n, n) for n in names) for names in (c.services, c.agents, c.models)
        )
        return replace(c, services=services, agents=agents, models=models)

    return replace(
        analysis,
        readings=tuple(r._replace(call=of_call(r.call)) for r in analysis.readings),
        conversations=tuple(map(of_conversation, analysis.conversations)),
        findings=tuple(
            replace(f, title=held(f.title), detail=held(f.detail), fix=held(f.fix)) for f in analysis.findings
        ),
        not_checked=tuple(replace(n, why=held(n.why)) for n in analysis.not_checked),
        foreign=tuple((digests.get(scope, scope), spans) for scope, spans in analysis.foreign),
        libraries=tuple(
            replace(
                library,
                scope=digests.get(library.scope, library.scope),
                version=digests.get(library.version, library.version),
                withholds=tuple(replace(w, title=held(w.title), fix=held(w.fix)) for w in library.withholds),
            )
            for library in analysis.libraries
        ),
    )


def _digests(analysis: Analysis) -> Mapping[str, str]:
    """What is no name -> what is shown; the longest first."""
    told = set(chain.from_iterable(set(map(_fields, (r.call for r in analysis.readings)))))
    told.update(*((*c.services, *c.agents, *c.models) for c in analysis.conversations))
    told.update(scope for scope, _ in analysis.foreign)
    told.update([s.scope for r in analysis.readings for s in r.call.spans])
    told.update(v for library in analysis.libraries for v in (library.scope, library.version))
    told.discard("")
    found = {name for name in told if not is_name(name)}
    doubtful = {name for name in told - found if cells(name) >= _RUN and not is_identifier(name)}
    if doubtful:
        for text in _texts(analysis):
            found.update(name for name in doubtful if name in text)
    return {name: digest_of(name) for name in sorted(found, key=lambda name: (-len(name), name))}


def _texts(analysis: Analysis) -> Iterator[str]:
    """Every text that was seen and is kept, once."""
    prompts = (r.call for r in analysis.readings)
    segments = chain.from_iterable(
        (*c.prompt.tools, *c.prompt.system, *c.prompt.messages.new, *c.answer) for c in prompts
    )
    return filter(None, map(analysis.text, _distinct(s.digest for s in segments)))


def _distinct(values: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(values)
