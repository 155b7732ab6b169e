"""What every section of the terminal report looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ctx.model import Analysis, Band, Conversation, Finding, Reading
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.text.layout import Style, clip_middle, many, spans_of
from otel_ctx.outputs.views import names, selection

URGENCY: Mapping[Band, int] = {"exceeded": 0, "critical": 1, "low": 2, "unknown": 3, "ok": 4}
BAND_STYLES: Mapping[Band, Style] = {
    "exceeded": "alarm", "critical": "alarm", "low": "notice", "unknown": "dim", "ok": "good",
}  # fmt: skip
_LABEL, _BESIDE = 16, 48  # columns: of a name at least; of what stands beside it on a line
_MANY_CONVERSATIONS = 3  # named one by one where calls lie in several


@dataclass(frozen=True, slots=True, eq=False)
class View:
    analysis: Analysis
    inputs: Inputs
    width: int
    verbose: int
    show_text: bool
    readings: Mapping[str, Reading]
    conversations: Mapping[str, Conversation]
    namesakes: Mapping[str, int]  # how many conversations have a name, as far as it is shown
    found: Mapping[str, Sequence[Finding]]  # errors and warnings, by conversation

    def last(self, conversation: Conversation) -> Reading:
        return self.readings[conversation.calls[-1]]

    def limit(self, usual: int) -> int | None:
        """How many items of a list are shown; None is all."""
        return None if self.verbose else usual

    def name(self, conversation: Conversation) -> str:
        """Service and agent; the beginning of its id too where other conversations have the same."""
        return self._named(conversation, who(conversation))

    def _named(self, conversation: Conversation, name: str) -> str:
        if not name:
            return f"conversation {mark(conversation)}"
        alone = self.namesakes[_label(conversation, self.width)] == 1
        return name if alone else f"{name} {mark(conversation)}"

    def _inline(self, conversation: Conversation) -> str:
        return self._named(conversation, _label(conversation, self.width))

    def length(self, conversation: Conversation) -> str:
        """``8 turns``; ``12 calls in 10 turns`` where one was asked again, or several go on from the same call."""
        calls = len(conversation.calls)
        turns = len({self.readings[call].turn for call in conversation.calls if call in self.readings})
        return many(calls, "turn") if turns == calls else f"{many(calls, 'call')} in {many(turns, 'turn')}"

    def turns(self, calls: Sequence[str]) -> list[str]:
        """``turns 2–8``, with the conversation's name where there are several; the calls' ids with -v -v."""
        if self.verbose > 1:
            return [escape(call) for call in calls]
        by_conversation: dict[str, list[int]] = {}
        for call in calls:
            reading = self.readings.get(call)
            if reading is not None:
                by_conversation.setdefault(reading.conversation, []).append(reading.turn)
        if len(by_conversation) > _MANY_CONVERSATIONS and not self.verbose:
            return [f"in {many(len(by_conversation), 'conversation')}"]
        alone = len(self.conversations) == 1
        return [
            _turns(turns) + ("" if alone else f" of {self._inline(self.conversations[id_])}")
            for id_, turns in by_conversation.items()
        ]


def view(analysis: Analysis, inputs: Inputs, width: int, verbose: int, show_text: bool) -> View:
    if not show_text:
        analysis = names.held_back(analysis)
    readings = {r.call.id: r for r in analysis.readings}
    found: dict[str, list[Finding]] = {}
    for finding in analysis.findings:
        if finding.severity != "info":
            for id_ in {readings[call].conversation for call in finding.calls if call in readings}:
                found.setdefault(id_, []).append(finding)
    return View(
        analysis,
        inputs,
        width,
        verbose,
        show_text,
        readings,
        {c.id: c for c in analysis.conversations},
        Counter(_label(c, width) for c in analysis.conversations),
        found,
    )


def who(conversation: Conversation) -> str:
    return escape(" › ".join(filter(None, (some(conversation.services), some(conversation.agents)))))


def _label(conversation: Conversation, width: int) -> str:
    """What is shown of its name inside a line: so much that its mark is not cut away."""
    return clip_middle(who(conversation), max(width - _BESIDE, _LABEL))


def some(names: Sequence[str]) -> str:
    """The first two of several names."""
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")


def mark(conversation: Conversation) -> str:
    return escape(selection.mark(conversation.id))


def _turns(turns: Sequence[int]) -> str:
    return f"turn{'s' if len(set(turns)) > 1 else ''} {spans_of(turns)}"
