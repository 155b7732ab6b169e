"""What of a call is not in its telemetry, in words: the checks tell it of each call, ``otelctx doctor`` of each library.

A helper of the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from otel_ctx.findings.switches import Lost
from otel_ctx.model import Call, Evidence, Reason, Severity


@dataclass(frozen=True, slots=True)
class Gap:
    """``kind`` is that of the finding, "" where it is none; ``note`` stands behind who recorded it."""

    lost: Lost
    kind: str
    title: str
    severity: Severity = "info"
    note: str = ""
    evidence: Evidence = "reported"


_NOT_CAPTURED, _TRUNCATED = "content_not_captured", "content_truncated"
_BY_REASON: dict[Reason, Gap] = {
    "redacted": Gap("masked", _NOT_CAPTURED, "Message contents are masked"),
    "logs_missing": Gap("logs", _NOT_CAPTURED, "Message contents are in log records that were not given"),
    "reference_missing": Gap("reference", _NOT_CAPTURED, "Message contents are stored elsewhere"),
    "server_side": Gap("server", _NOT_CAPTURED, "The history is kept on the provider's server"),
    "unparsable": Gap("unreadable", _NOT_CAPTURED, "Recorded contents could not be read"),
    "aggregate_only": Gap(
        "sum",
        _NOT_CAPTURED,
        "Only a sum over several calls is recorded",
        note="; the calls themselves have no spans of their own",
    ),
    "value_cut": Gap("cut", _TRUNCATED, "Recorded contents are cut at a length limit", "warning"),
    "message_cut": Gap("cut", _TRUNCATED, "Messages are missing from the recorded prompt", "warning"),
    "attributes_dropped": Gap(
        "attributes", "attributes_dropped", "Spans lost attributes to their limit", "warning"
    ),
    "media_placeholder": Gap("media", "", "Images and files are recorded without their data"),
}
_OF_FORMAT = Gap("format", _TRUNCATED, "Contents are cut by the format of the dump", "warning")
_CONTENT = Gap("content", _NOT_CAPTURED, "Message contents are not recorded")
_PART = Gap("part", _NOT_CAPTURED, "Part of the prompt is not recorded")
_MISSED = Gap(
    "part",
    _NOT_CAPTURED,
    "Part of the prompt is not recorded",
    note="; the provider counts more tokens than the recorded text has",
    evidence="inferred",
)
_TOOLS = Gap("tools", _NOT_CAPTURED, "Tool definitions are not recorded")
_NO_USAGE = "Calls report no input tokens"
_BY_TEXT = "; depth is counted from the text, as far as it was recorded"


def gaps(call: Call) -> Iterator[Gap]:
    """What was lost of ``call``, each loss once."""
    seen, reasons = call.completeness, call.completeness.reasons
    unseen = not seen.text_seen
    for reason, gap in _BY_REASON.items() if reasons else ():
        if reason in reasons:
            yield _OF_FORMAT if reason == "value_cut" and call.cut_by else gap
    if "not_captured" in reasons and "aggregate_only" not in reasons:
        if unseen:
            yield _CONTENT
        elif seen.lost != {"tools"}:
            by_usage = call.record == "span" and not call.prompt.messages.awaited.hole
            yield _MISSED if by_usage else _PART
    if "schema_missing" in reasons and not unseen:
        yield _TOOLS
    if _lacks_usage(call):
        lost: Lost = "attributes" if "attributes_dropped" in reasons else "usage"
        yield Gap(lost, "usage_missing", _NO_USAGE, note=_BY_TEXT)


def _lacks_usage(call: Call) -> bool:
    """A call that went well and reports no input tokens; 0 beside a prompt is no report either."""
    if call.status != "ok" or "aggregate_only" in call.completeness.reasons:
        return False
    if call.usage.input is None and any("input " in words for words in call.usage.conflicts):
        return False  # it does report them, and usage_inconsistent says what is wrong with the number
    return call.usage.input is None or (call.usage.input == 0 and len(call.prompt) > 0)


def recorded_by(call: Call) -> str:
    """Who told of it, in words."""
    if call.record == "transcript":
        return f"Told by a transcript of {call.dialect}"
    if call.record == "request":
        return "Told by a log of requests"
    if not call.scope:
        return "Recorded by an unnamed instrumentation"
    return f"Recorded by {call.scope} {call.scope_version}".rstrip()
