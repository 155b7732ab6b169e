"""What is wrong and how it is mended; then what could not be checked, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from otel_ctx.model import SEVERITIES, Analysis, Finding, Reason, Severity, Status
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    DOT,
    Line,
    Run,
    Style,
    clip,
    clip_middle,
    facts,
    fitted,
    heading,
    line,
    many,
    more,
    number,
    paragraph,
    spaced,
    usd,
    wrap,
)
from otel_ctx.outputs.text.view import View
from otel_ctx.outputs.views.summary import only_predicted

_SHOWN = 8
_INDENT = 12
STYLES: Mapping[Severity, Style] = {"error": "alarm", "warning": "notice", "info": "strong"}


def findings(view: View) -> Iterator[Line]:
    found = ordered(view.analysis.findings)
    if not found:
        return
    yield from heading("Findings", tally(found), view.width)
    shown = found[: view.limit(_SHOWN)]
    yield from spaced((_finding(view, finding) for finding in shown), len(found) - len(shown), "finding")


def every(view: View) -> Iterator[Line]:
    """All of them, without a heading."""
    return fitted(_every(view), view.width)


def _every(view: View) -> Iterator[Line]:
    for n, finding in enumerate(ordered(view.analysis.findings)):
        if n:
            yield BLANK
        yield from _finding(view, finding, everything=True)
    yield BLANK
    yield line(Run(tally(view.analysis.findings), "strong"))


def ordered(found: Sequence[Finding]) -> list[Finding]:
    """The most severe first, and of these the costliest."""
    return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.usd or 0.0), -f.tokens))


def tally(found: Sequence[Finding]) -> str:
    counts = Counter(f.severity for f in found)
    words: list[str] = []
    for severity in SEVERITIES:
        if counts[severity]:
            words.append(
                f"{counts[severity]:,} info" if severity == "info" else many(counts[severity], severity)
            )
    return DOT.join(words)


def _finding(view: View, finding: Finding, *, everything: bool = False) -> Iterator[Line]:
    kind = f"  {escape(finding.kind)}"
    room = view.width - _INDENT
    first, *rest = wrap(escape(finding.title), room) or [""]
    gap = -1 if rest else room - cells(first) - cells(kind)
    severity = Run(f"  {finding.severity:<{_INDENT - 4}}  ", STYLES[finding.severity])
    yield line(severity, Run(first, "strong"), *((" " * gap, Run(kind, "dim")) if gap >= 0 else ()))
    for part in rest:
        yield line(" " * _INDENT, Run(part, "strong"))
    about = [escape(finding.path)] if finding.path else []
    if gap < 0:
        about.append(kind.strip())
    if finding.tokens:
        about.append(f"{number(finding.tokens)} tokens")
    if finding.usd:
        about.append(usd(finding.usd))
    if _only_predicted(view, finding):
        about.append("predicted")
    elif finding.tokens and finding.evidence == "inferred":
        about.append("inferred")
    about.append(many(len(finding.calls), "call"))
    about += view.turns(finding.calls)
    yield from facts(about, view.width, _INDENT, "dim")
    yield from paragraph(escape(finding.detail), view.width, _INDENT)
    if view.show_text and finding.excerpt and (everything or not _drawn(view, finding)):
        yield line(
            " " * _INDENT, Run("seen  ", "dim"), clip(escape(finding.excerpt), view.width - _INDENT - 6)
        )
    if finding.fix:
        yield from paragraph(escape(finding.fix), view.width, _INDENT, "", "fix   ")


def _only_predicted(view: View, finding: Finding) -> bool:
    """Of what was billed again; what is counted in the text is no prediction."""
    calls = [view.readings[c] for c in finding.calls if c in view.readings]
    lost = any(cause == finding.kind for r in calls for cause, _ in r.losses)
    return lost and only_predicted(calls)


def _drawn(view: View, finding: Finding) -> bool:
    """Whether the section of breaks has the characters already."""
    ats = (view.readings[c].break_ for c in finding.calls if c in view.readings)
    return any(at is not None and at.path == finding.path for at in ats)


def ignored(analysis: Analysis) -> str:
    """What was found but is left out, as the user wants it."""
    return ", ".join(f"{kind} ({many(calls, 'call')})" if calls else kind for kind, calls in analysis.ignored)


# ---- what was not seen

_NOT_CHECKED_SHOWN = 4
_SKIPPED_SHOWN = 5
_CHECKS_NAMED = 3
_STATUS: Mapping[Status, str] = {
    "full": "seen whole",
    "partial": "seen in part",
    "usage_only": "token counts only (depth and headroom rest on them)",
    "none": "nothing but the call itself",
}
_REASONS: Mapping[Reason, str] = {
    "attributes_dropped": "attributes dropped by a limit",
    "value_cut": "values cut by a limit",
    "message_cut": "messages cut",
    "redacted": "content redacted",
    "not_captured": "content not captured",
    "logs_missing": "content lies in log records that are not here",
    "reference_missing": "content lies in a store that is not here",
    "server_side": "history held by the provider",
    "media_placeholder": "media left out",
    "aggregate_only": "only sums of several calls",
    "schema_missing": "tool definitions without their schema",
    "unparsable": "content cannot be parsed",
    "guessed": "a role or a shape was guessed",
    "late": "came too late",
}


def unseen(view: View) -> Iterator[Line]:
    """Every reason why this report may not be the whole truth."""
    parts = (_completeness(view), _not_checked(view), _skipped(view), _foreign(view), _unknown(view))
    lines = [list(part) for part in parts]
    if not any(lines):
        return
    yield from heading("What was not seen", "", view.width)
    for part in lines:
        if part:
            yield BLANK
        yield from part


def _completeness(view: View) -> Iterator[Line]:
    counts = Counter(r.call.completeness.status for r in view.analysis.readings)
    if not counts or set(counts) == {"full"}:
        return
    words = DOT.join(f"{counts[status]:,} {text}" for status, text in _STATUS.items() if counts[status])
    yield from paragraph(words, view.width, 2, "", "calls   ")
    reasons = Counter(reason for r in view.analysis.readings for reason in r.call.completeness.reasons)
    why = (f"{_REASONS[reason]} ({many(count, 'call')})" for reason, count in reasons.most_common())
    yield from facts(why, view.width, 10, "dim")


def _not_checked(view: View) -> Iterator[Line]:
    """Checks that failed for the same reason are told together."""
    groups: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for entry in view.analysis.not_checked:
        checks, calls = groups.setdefault(entry.why, ({}, {}))
        checks[entry.check] = None
        calls.update(dict.fromkeys(entry.calls))
    if not groups:
        return
    ordered = sorted(groups.items(), key=lambda group: -len(group[1][1]))
    shown = ordered[: view.limit(_NOT_CHECKED_SHOWN)]
    yield line("  ", Run("not checked", "strong"))
    for why, (checks, calls) in shown:
        names = list(checks)[: view.limit(_CHECKS_NAMED)]
        rest = len(checks) - len(names)
        named = ", ".join(names) + (f" and {rest:,} more" if rest else "")
        yield from paragraph(escape(_without_fix(view, why)), view.width, 2, "", "· ")
        yield from paragraph(f"{escape(named)}{DOT}{many(len(calls), 'call')}", view.width, 4, "dim")
    yield from more(len(ordered) - len(shown), "reason", 2)


def _without_fix(view: View, why: str) -> str:
    """The same switch is not named twice on one screen."""
    for finding in view.analysis.findings:
        if finding.fix and why.endswith(finding.fix):
            return why.removesuffix(finding.fix) + "The fix is above."
    return why


def _skipped(view: View) -> Iterator[Line]:
    skipped = view.inputs.skipped
    if not skipped:
        return
    shown = skipped[: view.limit(_SKIPPED_SHOWN)]
    yield line("  ", Run(f"skipped in the input: {len(skipped):,}", "notice"))
    for where, why in shown:
        yield from _unread(view, where, why)
    yield from more(len(skipped) - len(shown), "record", 2)


def _unread(view: View, where: str, why: str) -> Iterator[Line]:
    place = clip_middle(escape(where), view.width - 4)
    return paragraph(f"{place}: {escape(why)}", view.width, 2, "", "· ")


def _foreign(view: View) -> Iterator[Line]:
    """Files that happen to lie beside the telemetry: in short."""
    foreign = view.inputs.foreign
    if not foreign:
        return
    hold = "holds" if len(foreign) == 1 else "hold"
    if view.verbose:
        yield line(f"  {many(len(foreign), 'other file')} {hold} no telemetry")
        for path, why in foreign:
            yield from _unread(view, path, why)
        return
    endings = Counter(PurePath(path).suffix or "without an ending" for path, _ in foreign)
    shown = [f"{n:,} {escape(ending)}" for ending, n in endings.most_common(_SKIPPED_SHOWN)]
    rest = len(foreign) - sum(n for _, n in endings.most_common(_SKIPPED_SHOWN))
    named = ", ".join([*shown, f"{rest:,} more"] if rest else shown)
    words = f"{many(len(foreign), 'other file')} {hold} no telemetry: {named} (-v shows all)"
    yield from paragraph(words, view.width, 2)


def _unknown(view: View) -> Iterator[Line]:
    analysis = view.analysis
    foreign = analysis.foreign[: view.limit(_SKIPPED_SHOWN)]
    for scope, spans in foreign:
        words = f"{many(spans, 'span')} of {escape(scope)}: a model's telemetry in a dialect that is not known here"
        yield from paragraph(words, view.width, 2, "", "· ")
    yield from more(len(analysis.foreign) - len(foreign), "scope", 2)
    if analysis.orphans:
        what = (
            f"{many(analysis.orphans, 'log record')} with content ({number(analysis.unassigned_bytes)} bytes)"
        )
        words = f"{what} of spans that are not in this input"
        yield from paragraph(words, view.width, 2, "", "· ")
