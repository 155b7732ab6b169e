"""Words that only telemetry and logs of requests have: what tells damage of them from a file that never was any."""

from __future__ import annotations

from pathlib import PurePath

# Prose and programs quote telemetry: they are none.
_NAMES = frozenset((".json", ".jsonl", ".ndjson", ".har"))
_TOGETHER = (  # each in lower case and behind the quote that opens it: the one that closes it may be escaped
    (b'"resourcespans',),
    (b'"resource_spans',),
    (b'"scopespans',),
    (b'"gen_ai.',),
    (b'"llm.',),
    (b'"openinference',),
    (b'"traceloop.',),
    (b'"parentuuid',),
    (b'"chat.completion',),
    (b'"custom_id',),
    (b'"sessionid', b'"uuid'),
    (b'"messages', b'"role'),
    (b'"choices', b'"finish_reason'),
    (b'"input_tokens', b'"output_tokens'),
    (b'"trace', b'"span', b'"start'),  # a log of any program may name its trace
    (b'"traceid', b'"duration'),
)
_OF_A_VENDOR = ((b'"modelinvocationlog',), (b'"inputbodyjson',), (b'"call_type', b'"model_parameters'))


def of_telemetry(head: bytes, where: str) -> bool:
    """Was the file that begins with ``head``, and of which something is no JSON, telemetry before it was damaged?"""
    return not _NAMES.isdisjoint(PurePath(where).suffixes) and _has(head, _TOGETHER + _OF_A_VENDOR)


def of_a_vendor(head: bytes) -> bool:
    """Is it a vendor's log of requests, whatever has become of what they held?"""
    return _has(head, _OF_A_VENDOR)


def _has(head: bytes, signs: tuple[tuple[bytes, ...], ...]) -> bool:
    lower = head.lower()
    return any(all(word in lower for word in words) for words in signs)
