"""Records -> what they tell, with their content read and their text let go."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from operator import length_hint

from otel_ctx import dialects
from otel_ctx.calls import Told, another_span, content_of
from otel_ctx.engine.assemble import Assembler
from otel_ctx.engine.discreet import telling_of_names
from otel_ctx.engine.settings import Settings
from otel_ctx.engine.spans import Marks
from otel_ctx.engine.stored import with_contents
from otel_ctx.engine.texts import Texts
from otel_ctx.model import EMPTY_CHAIN, Chain, LogRecord, Raw, Span, Telling
from otel_ctx.rules import Rules, load
from otel_ctx.tokens import Counter

Key = tuple[str, str, str, int, str]
"""Trace, span, role, order among the span's content records, dialect (of a content record: what it holds)."""

_NO_TOOLS = Raw("tools", ())  # it was said that there are none


class Intake:
    """Takes records in, in any order. A record that came before is known by its ids and counted once.

    ``told`` is what was told so far; ``parents`` gives (trace, span) -> parent span of every span seen; ``above`` holds the
    spans above a call, as far as they are known: a sum on one of them is no call of its own; ``traced`` the services whose
    calls have spans."""

    def __init__(
        self,
        settings: Settings,
        told: MutableMapping[Key, Told],
        parents: MutableMapping[tuple[str, str], str],
        above: Marks,
    ) -> None:
        self.rules: Rules = load(settings.rules_override).standing_for(settings.limits.models)
        self.texts = Texts(settings.text_cap)
        self.told = told
        self.parents = parents
        self.above = above
        self.traced: dict[str, None] = {}
        self.foreign: dict[str, int] = {}
        self.spans = self.logs = 0
        self._contents = settings.contents
        self._discreet = settings.discreet
        self.assembler = Assembler(Counter(settings.tokenizer).count, self.texts, settings.discreet)
        self.encodings: dict[tuple[str, str], str] = {}

    def span(self, span: Span) -> Told | None:
        """Take a span in; what it told that was not known before."""
        self.spans += 1
        if dialects.is_announcement(span):
            return None
        known_as = (span.trace_id, span.span_id)
        again = known_as in self.parents
        self.parents[known_as] = span.parent_id
        if span.parent_id and known_as in self.above:
            self.above.add((span.trace_id, span.parent_id))
        telling = dialects.read(span)
        if telling is not None:
            telling = self._held(telling)
            if telling.role == "call":
                self.traced[telling.service] = None
                if telling.parent_id:
                    self.above.add((telling.trace_id, telling.parent_id))
            return self._hear(telling)
        if not again and dialects.is_foreign(span):
            scope = span.scope_name or "(no scope)"
            self.foreign[scope] = self.foreign.get(scope, 0) + 1
        return None

    def log(self, record: LogRecord) -> Told | None:
        """Take a log record in; what it told that was not known before."""
        self.logs += 1
        telling = dialects.read_log(record)
        return self._hear(self._held(telling)) if telling is not None else None

    def go_on_from(self, history: Told) -> None:
        """Remember how far a thread has gone, in the place of an earlier history."""
        self.told[history.telling.thread, "", history.telling.role, 0, "history"] = history

    def joined(self, base: Chain, chains: Iterable[Chain]) -> Chain:
        """One chain out of several, each segment at its place in the whole."""
        out = base if base.length else EMPTY_CHAIN
        for chain in chains:
            out = self.assembler.append(out, chain)
        return out

    def _held(self, telling: Telling) -> Telling:
        return telling_of_names(telling) if self._discreet else telling

    def _hear(self, telling: Telling) -> Told | None:
        key: Key
        if telling.role in ("content", "piece"):
            told = self._read(telling)
            place = (telling.trace_id, telling.span_id, telling.role, telling.order)
            content, n = content_of(told), 0
            while (key := (*place, f"{content}#{n}")) in self.told:
                n += 1  # a message that is there twice, or a second delivery: the fold sees which
        else:
            key = (telling.trace_id, telling.span_id, telling.role, 0, telling.dialect)
            known = self.told.get(key)
            if known is not None and another_span(known.telling, telling):
                telling = telling._replace(span_id=_own_id(telling))
                key = (telling.trace_id, telling.span_id, telling.role, 0, telling.dialect)
                known = self.told.get(key)
            if known is not None and known.weight >= _weight(telling):
                return None
            told = self._read(telling)
        self.told[key] = told
        return told

    def _read(self, telling: Telling) -> Told:
        telling = with_contents(telling, self._contents)
        encoding = self._encoding(telling)
        tools, tool_reasons = self.assembler.section(telling.tools, encoding)
        system, system_reasons = self.assembler.section(telling.system, encoding)
        thread = telling.conversation_hint or telling.trace_id
        messages, message_reasons = self.assembler.chain(telling.messages, encoding, thread)
        answer = self.assembler.answer(telling.output, encoding)
        none = _NO_TOOLS if telling.tools is not None and not tools and not tool_reasons else None
        bare, reasons = telling.without_content(none), telling.reasons
        if tool_reasons or system_reasons or message_reasons:
            of = {"tools": tool_reasons, "system": system_reasons, "messages": message_reasons}
            bare = bare._replace(lost=telling.lost.union(section for section, why in of.items() if why))
            reasons = reasons.union(*of.values())
        return Told(bare, tools, system, messages, answer, reasons, _weight(telling))

    def _encoding(self, telling: Telling) -> str:
        model = telling.response_model or telling.request_model
        key = (model, telling.provider)
        encoding = self.encodings.get(key)
        if encoding is None:
            encoding = self.encodings[key] = self.rules.encoding_of(model, telling.provider)
        return encoding


def _own_id(telling: Telling) -> str:
    """Of a span whose id is another's too."""
    read = telling.usage.input if telling.usage is not None else None
    return f"{telling.span_id}#{telling.start_unix_nano:x}.{read}"


def _weight(telling: Telling) -> tuple[int, int]:
    """How much a span tells: one that comes twice, cut or masked on one of its ways, is told by the fuller; of a message
    that was copied while it still grew, by the later."""
    usage = telling.usage
    size = sum(map(length_hint, telling.contents))
    return size + (usage is not None and usage.input is not None), (usage.output or 0) if usage else 0
