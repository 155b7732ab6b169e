"""A dump as a whole: everything settles at its end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from otel_ctx.calls import fold
from otel_ctx.cost import lifetimes, savings_of
from otel_ctx.engine.intake import Intake
from otel_ctx.engine.judge import Judge
from otel_ctx.engine.libraries import Libraries
from otel_ctx.engine.settings import Settings
from otel_ctx.findings import as_it_stands, gather, hindsight, ranked, unknown_dialects, unpaired
from otel_ctx.model import Analysis, Conversation, Finding, LogRecord, NotChecked, Reading, Span
from otel_ctx.rules import Rules

_DEFAULT = Settings()


class Engine:
    """Feed it records in any chunks, then close it."""

    def __init__(self, settings: Settings = _DEFAULT) -> None:
        self._settings = settings
        self._intake = Intake(settings, {}, {}, set())

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> None:
        """Take records in. A span or record that came before is known by its ids and counted once."""
        for span in spans:
            self._intake.span(span)
        for record in logs:
            self._intake.log(record)

    def forget(self, traces: Collection[str]) -> None:
        """Let go what was told in ``traces``: a file that a record referred to is a part of that record's call."""
        told = self._intake.told
        for key in [key for key in told if key[0] in traces]:
            del told[key]
            self._intake.spans -= 1

    def close(self) -> Analysis:
        """Fold and judge everything that was fed."""
        intake = self._intake
        folded = fold(list(intake.told.values()), intake.parents, intake.rules, intake.joined)
        judge = Judge(self._settings, intake.rules, intake.parents, intake.texts)
        said = [judge.judge(call, folded.conflicts.get(call.id, ())) for call in folded.calls]
        readings = tuple(s.reading for s in said)
        newest = {r.conversation: r for r in readings if r.context.usage is not None}
        found: list[tuple[Finding | NotChecked, Reading]] = []
        for s in said:
            last = newest.get(s.reading.conversation, s.reading)
            found += [(as_it_stands(f, s.reading, last), s.reading) for f in s.findings]
            found += [(n, s.reading) for n in s.not_checked]
        findings, not_checked = gather(found, readings)
        ignored = Counter(kind for s in said for kind in s.ignored)
        foreign = tuple(sorted(intake.foreign.items()))
        told = tuple(hindsight(readings, intake.texts.get, partial(lifetimes, rules=intake.rules)))
        for finding in (*unknown_dialects(foreign), *told):
            if self._settings.leaves_out(finding):
                ignored[finding.kind] += len(finding.calls)
            else:
                findings += (finding,)
        libraries = Libraries(intake.told.values(), [r.call for r in readings], intake.rules, folded.usages)
        return Analysis(
            readings=readings,
            conversations=tuple(_with_savings(judge.conversations(), readings, told, intake.rules)),
            findings=ranked(findings),
            not_checked=(*not_checked, *unpaired(folded.unclear)),
            spans=intake.spans,
            log_records=intake.logs,
            orphans=len(folded.orphans),
            unassigned_bytes=sum(o.content for o in folded.orphans),
            foreign=foreign,
            text=intake.texts.get,
            ignored=tuple(sorted(ignored.items())),
            libraries=libraries.of_all(),
            libraries_of=libraries.of,
        )


def _with_savings(
    conversations: Iterable[Conversation], readings: Iterable[Reading], found: Iterable[Finding], rules: Rules
) -> Iterator[Conversation]:
    """``found``: in hindsight, lifetimes that were paid for in vain among it."""
    own: dict[str, list[Reading]] = defaultdict(list)
    for r in readings:
        own[r.conversation].append(r)
    overpaid = {f.calls[0] for f in found if f.kind == "ttl_overpaid"}
    for c in conversations:
        yield replace(c, savings=savings_of(own[c.id], rules, not overpaid.isdisjoint(c.calls)))
