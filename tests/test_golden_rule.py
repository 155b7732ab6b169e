"""Never a verdict on text that was not seen, never a call counted twice, never prompt text where it was not before.

Telemetry as applications and redactors really write it, through the engine as a whole and into the report.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_ctx.engine import Engine, Settings
from otel_ctx.errors import InputError
from otel_ctx.inputs import read
from otel_ctx.model import Said, Span
from otel_ctx.outputs.attributes import attributes
from otel_ctx.outputs.metrics import records
from otel_ctx.outputs.report import Inputs, build, dumps
from otel_ctx.outputs.text import plain, render
from otel_ctx.parts.texts import loads, salvage
from otel_ctx_cli.main import main

SECOND = 1_000_000_000
MILLI = 1_000_000
BASE = 1_764_500_000 * SECOND
OPENAI = "opentelemetry.instrumentation.genai.openai"
RULES = "You are a clerk of the company. " + " ".join(
    f"Rule {i}: treat parcels of class {i} with care." for i in range(40)
)
OTHER = "Du bist der Rechnungsprüfer. " + "Prüfe jeden Beleg genau und antworte knapp. " * 12
SECRET = "purple elephants at midnight"

Json = dict[str, Any]


# ---- small telemetry


def said(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def tool(name: str) -> Json:
    return {"type": "function", "name": name, "description": "Looks it up.", "parameters": {"type": "object"}}


class App:
    """Makes spans of calls, ten seconds apart."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def call(
        self,
        messages: Sequence[Json] | None,
        *,
        system: str = "",
        tools: Sequence[Json] = (),
        usage: tuple[int, int] | None = None,
        model: str = "gpt-4o",
        at: int | None = None,
        length: int = SECOND,
        trace: int = 1,
        parent: str = "",
        scope: str = OPENAI,
        service: str = "shop",
        more: Json | None = None,
    ) -> str:
        """One span; its id. ``usage``: input and output tokens; ``at``: nanoseconds after the beginning;
        ``length``: in nanoseconds."""
        id_ = f"{len(self.spans) + 1:016x}"
        start = BASE + (len(self.spans) * 10 * SECOND if at is None else at)
        attributes: Json = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": model,
        }
        if messages is not None:
            attributes["gen_ai.input.messages"] = json.dumps(messages)
            attributes["gen_ai.tool.definitions"] = json.dumps(list(tools))
        if system:
            attributes["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": system}])
        if usage is not None:
            attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"] = usage
        attributes |= more or {}
        self.spans.append(
            Span(
                f"{trace:032x}",
                id_,
                parent,
                f"chat {model}",
                start,
                start + length,
                attributes,
                3,
                scope_name=scope,
                scope_version="1.3b0",
                resource={"service.name": service},
            )
        )
        return id_

    def talk(self, systems: Sequence[str], tools: Sequence[Sequence[Json]] | None = None) -> None:
        """A conversation whose nth call has the nth system prompt."""
        history: list[Json] = []
        for n, system in enumerate(systems):
            history = [*history, said("user", f"Question {n}: where is the parcel?")]
            self.call(history, system=system, tools=tools[n] if tools else (tool("find"),))
            history = [*history, said("assistant", f"Answer {n}: it is on its way.")]


def report(spans: Sequence[Span], *, include_text: bool = False) -> Any:
    """As it is written."""
    engine = Engine(Settings(ignore=frozenset({"dead_tool_schema", "duplicate_content"})))
    engine.feed(spans)
    return json.loads(dumps(build(engine.close(), Inputs((), ()), include_text=include_text)))


def talked(*systems: str, tools: Sequence[Sequence[Json]] | None = None) -> Any:
    app = App()
    app.talk(systems, tools)
    return report(app.spans)


def kinds(made: Any) -> list[str]:
    """Of the findings, but for the one on numbers that these spans do not have."""
    return sorted(f["kind"] for f in made["findings"] if f["kind"] != "usage_missing")


def unchecked(made: Any) -> set[tuple[str, str]]:
    return {(n["check"], id_) for n in made["not_checked"] for id_ in n["calls"]}


def ids(made: Any) -> list[str]:
    return [c["id"] for c in made["calls"]]


# ---- masks

MASKS = [
    "***",
    "****************",
    "<redacted>",
    "<REDACTED>",
    "__REDACTED__",
    "[MASKED]",
    "XXXXX",
    "REDACTED",
    "[redacted by otel]",
    "[Filtered]",
    "<removed>",
    "(content hidden)",
    "{{redacted}}",
    "[PII]",
    "[SCRUBBED]",
    "[Scrubbed due to 'password']",
]


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_in_the_place_of_the_system_prompt_is_no_change_of_it(mask: str) -> None:
    made = talked(RULES, mask, RULES)
    assert kinds(made) == ["content_not_captured"]
    assert [c["completeness"]["status"] for c in made["calls"]] == ["full", "partial", "full"]
    assert made["calls"][1]["completeness"]["reasons"] == ["redacted"]
    _, masked, after = ids(made)
    assert unchecked(made) == {("prefix_changed", masked), ("prefix_changed", after)}


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_in_the_place_of_an_earlier_message_is_no_change_of_it(mask: str) -> None:
    app = App()
    history = [said("user", "My parcel is late, please help."), said("assistant", "Which one?")]
    masked = [said("user", mask), history[1]]
    more = [said("user", "The blue one."), said("assistant", "It is on its way.")]
    app.call(history[:1], system=RULES)
    app.call([*history, *more[:1]], system=RULES)
    app.call([*masked, *more, said("user", "When will it come?")], system=RULES)
    made = report(app.spans)
    assert set(kinds(made)) <= {"content_not_captured"}
    assert made["calls"][2]["completeness"]["status"] == "partial"
    assert "redacted" in made["calls"][2]["completeness"]["reasons"]


@pytest.mark.parametrize(
    "text",
    [
        "Replace names by [REDACTED] in what you answer.",
        "Never show what is hidden or removed.",
        "Write *** between the parts.",
        "(The list of hidden rooms follows, in the order in which they were removed from the plan of the house.)",
        "Names that are [removed] stay so.",
        "Sizes are S, M, L, XL and XXL.",
        "[PII] must not leave the house; mask it.",
    ],
)
def test_a_text_that_speaks_of_masks_is_seen_whole(text: str) -> None:
    made = talked(text, text, text)
    assert kinds(made) == []
    assert [c["completeness"]["status"] for c in made["calls"]] == ["full"] * 3
    assert made["not_checked"] == []


def test_a_text_that_speaks_of_masks_and_changes_elsewhere_is_a_change() -> None:
    text = f"Replace names by [REDACTED] in what you answer. {RULES} Be kind."
    made = talked(text, text, text.replace("Be kind.", "Be strict."))
    assert kinds(made) == ["prefix_changed"]


@pytest.mark.parametrize("mask", ["[REDACTED_ORG]", "<redacted>", "[masked by otel]", "(removed)"])
def test_one_masked_word_is_no_change(mask: str) -> None:
    masked = RULES.replace("company", mask)
    made = talked(RULES, masked, RULES, masked)
    assert kinds(made) == []
    assert unchecked(made) == {("prefix_changed", id_) for id_ in ids(made)[1:]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<PERSON_0>", "<PERSON_1>"),
        ("<PERSON_9>", "<PERSON_10>"),
        ("<PERSON>", "<EMAIL_ADDRESS_2>"),
        ("[PII_0]", "[PII_1]"),
        ("[NAME_GIVEN_1]", "[NAME_FAMILY_1]"),
        ("{{NAME_1}}", "{{NAME_2}}"),
        ("[redacted:sha256:00000000]", "[redacted:sha256:00012fd1]"),
    ],
)
def test_another_placeholder_is_no_change(one: str, other: str) -> None:
    made = talked(*(RULES.replace("company", word) for word in (one, other, one, other)))
    assert kinds(made) == []
    assert unchecked(made) == {("prefix_changed", id_) for id_ in ids(made)[1:]}


def test_a_hash_within_a_text_is_volatile() -> None:
    hashes = [sha256(f"build {n}".encode()).hexdigest() for n in range(3)]
    assert kinds(talked(*(f"Build {h}. {RULES}" for h in hashes))) == ["volatile_prefix"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<document>", "<letters>"),
        ("<INSTRUCTIONS>Be kind.</INSTRUCTIONS>", "<RULES>Be kind.</RULES>"),
        ("<PERSON_0> is kind", "<PERSON_0> is rude"),
        ("<PERSON_0>", "Ann"),
        ("[INFO]", "[WARN]"),
        ("{{customer}}", "{{client}}"),
    ],
)
def test_a_tag_or_a_text_beside_a_placeholder_that_changes_is_a_change(one: str, other: str) -> None:
    texts = [RULES.replace("company", word) for word in (one, one, other)]
    assert kinds(talked(*texts)) == ["prefix_changed"]


# ---- cuts


@pytest.mark.parametrize(
    "mark", ["...", "…", "... [truncated]", "… [truncated]", "[TRUNCATED]", " (truncated)"]
)
def test_a_text_cut_with_a_mark_is_no_change(mark: str) -> None:
    cut = RULES[:700] + mark
    made = talked(RULES, cut, RULES, cut)
    assert kinds(made) == []
    assert unchecked(made) == {("prefix_changed", id_) for id_ in ids(made)[1:]}


@pytest.mark.parametrize("end", [".", "...", "… and so on"])
def test_a_text_that_grows_is_a_change(end: str) -> None:
    once = f"{RULES[:-1]}{end}"
    twice = f"{once} Note: the customer is called Ann and waits for a blue jacket."
    made = talked(once, twice, f"{twice} Note: it is her third call.")
    assert kinds(made) == ["prefix_changed"]
    (finding,) = (f for f in made["findings"] if f["kind"] == "prefix_changed")
    assert finding["severity"] == "warning"
    assert finding["calls"] == ids(made)[1:]


@pytest.mark.parametrize("goes_on", [". Then", " (see", "[T", "..and"])
def test_a_text_that_goes_on_as_the_mark_begins_is_cut_all_the_same(goes_on: str) -> None:
    whole = f"{RULES[:700]}{goes_on}{RULES[700:]}"
    for mark in ("...", "... [truncated]", " (truncated)", "[TRUNCATED]"):
        made = talked(whole, RULES[:700] + mark, whole)
        assert kinds(made) == [], mark
        assert len(unchecked(made)) == 2


def test_a_text_that_speaks_of_cuts_and_changes_at_its_end_is_a_change() -> None:
    made = talked(f"{RULES} Lists are truncated. Be kind to all.", f"{RULES} Lists are truncated. Be strict.")
    assert kinds(made) == ["prefix_changed"]


# ---- values that change


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Today is 2026-11-30.", "Today is 2026-12-01."),
        ("It is Monday.", "It is Tuesday."),
        ("At most 12 parcels.", "At most 13 parcels."),
        ("At most 12 parcels.", "At most 40 parcels."),
    ],
)
def test_a_date_or_a_number_that_changes_once_is_a_change(before: str, after: str) -> None:
    made = talked(*[f"{RULES} {before}"] * 4, *[f"{RULES} {after}"] * 2)
    assert kinds(made) == ["prefix_changed"]
    (finding,) = (f for f in made["findings"] if f["kind"] == "prefix_changed")
    assert finding["severity"] == "warning"
    assert finding["calls"] == [ids(made)[4]]


@pytest.mark.parametrize(
    "values",
    [
        ("It is 10:41:07.", "It is 10:41:19."),
        ("Request 0f8fad5b-d9cb-469f-a165-70867728950e.", "Request 7c9e6679-7425-40de-944b-e07fc1f90ae7."),
    ],
)
def test_a_clock_time_or_an_id_is_volatile_at_once(values: tuple[str, str]) -> None:
    made = talked(*[f"{RULES * 4} {values[0]}"] * 4, f"{RULES * 4} {values[1]}")
    (finding,) = (f for f in made["findings"] if f["kind"] != "usage_missing")
    assert (finding["kind"], finding["severity"]) == ("volatile_prefix", "error")
    assert finding["calls"] == [ids(made)[4]]


def test_a_date_that_changes_again_is_volatile() -> None:
    days = [30, 30, 30, 30, 29, 29, 28]
    made = talked(*(f"{RULES} Today is 2026-11-{d}." for d in days))
    assert kinds(made) == ["volatile_prefix"]
    (finding,) = (f for f in made["findings"] if f["kind"] == "volatile_prefix")
    assert finding["calls"] == [ids(made)[4], ids(made)[6]]  # the first change, too


# ---- one call, or two


def test_a_wrapper_whose_numbers_differ_a_little_is_the_same_call() -> None:
    app = App()
    prompt = [said("system", RULES), said("user", "Where is the parcel?")]
    wrapper = app.call(prompt, at=0, usage=(500, 11), scope="acme.framework")
    app.call(prompt, at=MILLI, length=900 * MILLI, usage=(501, 11), parent=wrapper)
    made = report(app.spans)
    (call,) = made["calls"]
    assert sorted(s["role"] for s in call["spans"]) == ["duplicate", "primary"]
    assert {"double_instrumentation", "usage_inconsistent"} <= set(kinds(made))
    (finding,) = (f for f in made["findings"] if f["kind"] == "usage_inconsistent")
    assert "500" in finding["detail"]
    assert "501" in finding["detail"]
    assert made["totals"]["usage"]["input"] in (500, 501)


def test_one_question_to_two_models_inside_a_call_are_two_calls() -> None:
    app = App()
    prompt = [said("system", RULES), said("user", "Where is the parcel?")]
    outer = app.call(prompt, at=0, usage=(500, 11), scope="acme.framework")
    app.call(prompt, at=MILLI, length=900 * MILLI, usage=(501, 11), parent=outer, model="gpt-4.1")
    assert len(report(app.spans)["calls"]) == 2


def test_two_services_that_ask_the_same_are_two_calls() -> None:
    app = App()
    prompt = [said("system", RULES), said("user", "Where is the parcel?")]
    app.call(prompt, at=0, usage=(500, 11), trace=1, service="shop")
    second: Json = {"trace": 2, "service": "stock", "scope": "acme.instrumentation"}
    app.call(prompt, at=10 * MILLI, length=900 * MILLI, usage=(500, 11), **second)
    made = report(app.spans)
    assert [len(c["spans"]) for c in made["calls"]] == [1, 1]
    assert made["totals"]["usage"]["input"] == 1_000
    assert "double_instrumentation" not in kinds(made)


def test_two_models_with_equal_numbers_are_two_calls() -> None:
    app = App()
    app.call(None, at=0, usage=(500, 11), trace=1)
    second: Json = {"trace": 2, "model": "gpt-4.1", "scope": "acme.instrumentation"}
    app.call(None, at=10 * MILLI, length=900 * MILLI, usage=(500, 11), **second)
    made = report(app.spans)
    assert [len(c["spans"]) for c in made["calls"]] == [1, 1]
    assert "double_instrumentation" not in kinds(made)


# ---- another agent


@pytest.mark.parametrize(
    ("before", "after"),
    [(("find",), ("find",)), ((), ()), (("find",), ("audit",)), (("find",), ())],
    ids=["same tools", "no tools", "other tools", "tools no more"],
)
@pytest.mark.parametrize("short", [False, True])
def test_a_hand_off_to_an_agent_without_a_name_is_no_break(
    before: Sequence[str], after: Sequence[str], short: bool
) -> None:
    own = "You are a bookkeeper. Sum the bills up." if short else OTHER
    tools = [[tool(n) for n in names] for names in (before, before, after, after)]
    made = talked(RULES, RULES, own, own, tools=tools)
    assert [c["cache"]["break"] for c in made["calls"]] == [None] * 4
    assert kinds(made) == []


@pytest.mark.parametrize("own", ["You are a summarizer. Summarise the conversation.", OTHER])
def test_a_summary_made_in_between_does_not_take_the_conversation(own: str) -> None:
    app = App()
    history = [said("user", "Question 0?")]
    app.call(history, system=RULES, tools=[tool("find")])
    history += [said("assistant", "Answer 0."), said("user", "Question 1?")]
    app.call(history, system=RULES, tools=[tool("find")])
    history += [said("assistant", "Answer 1.")]
    app.call([*history, said("user", "Summarise the above.")], system=own)
    history += [said("user", "Question 2?")]
    app.call(history, system=RULES, tools=[tool("find")])
    history += [said("assistant", "Answer 2."), said("user", "Question 3?")]
    app.call(history, system=RULES, tools=[tool("find")])

    made = report(app.spans)
    first, second, _, fourth, fifth = made["calls"]
    assert {c["conversation"] for c in (first, second, fourth, fifth)} == {first["id"]}
    assert [c["previous"] for c in (second, fourth, fifth)] == [first["id"], second["id"], fourth["id"]]
    assert [c["relation"] for c in (fourth, fifth)] == ["continues", "continues"]
    assert [c["cache"]["break"] for c in made["calls"]] == [None] * 5
    assert kinds(made) == []


def test_the_same_agent_asked_twice_at_one_place_still_forks() -> None:
    app = App()
    history = [said("user", "Question 0?"), said("assistant", "Answer 0.")]
    app.call(history[:1], system=RULES)
    app.call([*history, said("user", "Question 1?")], system=RULES)
    app.call([*history, said("user", "Question 2, in its place?")], system=RULES)
    assert [c["relation"] for c in report(app.spans)["calls"]] == ["new", "continues", "forks"]


# ---- numbers

HUGE = 10**400
ODD_NUMBERS: list[Json] = [
    {"intValue": str(HUGE)},
    {"intValue": HUGE},
    {"intValue": str(2**63)},
    {"doubleValue": 1e300},
    {"doubleValue": "NaN"},
    {"doubleValue": "Infinity"},
    {"stringValue": str(HUGE)},
]
COUNTS = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.request.max_tokens",
]


def otlp(*spans: Json) -> bytes:
    """One line an export request."""
    return b"".join(
        json.dumps(
            {"resourceSpans": [{"scopeSpans": [{"scope": {"name": OPENAI}, "spans": [span]}]}]}
        ).encode()
        + b"\n"
        for span in spans
    )


def otlp_span(n: int, *extra: Json, **fields: Any) -> Json:
    messages = json.dumps([said("user", f"Question {n}: where is the parcel?")])
    strings = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": messages,
    }
    known = [{"key": k, "value": {"stringValue": v}} for k, v in strings.items()]
    replaced = {e["key"] for e in extra}
    counts = [
        {"key": k, "value": {"intValue": str(v)}}
        for k, v in (("gen_ai.usage.input_tokens", 30 + n), ("gen_ai.usage.output_tokens", n))
        if k not in replaced
    ]
    return {
        "traceId": f"{n:032x}",
        "spanId": f"{n:016x}",
        "name": "chat gpt-4o",
        "startTimeUnixNano": str(BASE + n * SECOND),
        "endTimeUnixNano": str(BASE + n * SECOND + MILLI),
        "attributes": [*known, *counts, *extra],
        **fields,
    }


def reported(data: bytes) -> Any:
    """The report on a dump, as it is written."""
    engine = Engine()
    skipped: list[tuple[str, str]] = []
    for batch in read(["-"], stdin=BytesIO(data)):
        engine.feed(batch.spans, batch.logs)
        skipped += [(s.where, s.why) for s in batch.skipped]
    return json.loads(dumps(build(engine.close(), Inputs((), tuple(skipped)))))


def figures(made: Any, key: str = "") -> list[Json]:
    """The calls but for the kinds of their findings. Of a count of the cache that cannot be read, what was read may be
    unknown where one that is absent is 0, as this library leaves out zeros; a number it is not."""
    calls = [{k: v for k, v in call.items() if k != "findings"} for call in made["calls"]]
    if ".cache_" not in key:
        return calls
    assert all(not call["usage"][count] for call in calls[1:2] for count in ("cache_read", "cache_write"))
    usage = [{k: v for k, v in call["usage"].items() if "cache" not in k} for call in calls]
    return [{**c, "usage": u, "cache": None, "cost": None} for c, u in zip(calls, usage, strict=True)]


@pytest.mark.parametrize("odd", ODD_NUMBERS, ids=lambda odd: f"{next(iter(odd.items()))}"[:30])
@pytest.mark.parametrize("key", COUNTS)
def test_a_number_that_is_no_count_is_as_if_it_were_not_there(odd: Json, key: str) -> None:
    sound = otlp_span(1), otlp_span(3)
    bad = otlp_span(2, {"key": key, "value": odd})
    without = otlp_span(2, {"key": key, "value": None})
    made = reported(otlp(sound[0], bad, sound[1]))
    assert len(made["calls"]) == 3
    assert figures(made, key) == figures(reported(otlp(sound[0], without, sound[1])), key)
    told = {c["id"]: c for c in made["calls"]}
    for call in reported(otlp(*sound))["calls"]:
        assert told[call["id"]] == call


@pytest.mark.parametrize("key", COUNTS[:5])
@pytest.mark.parametrize("n", [2**63 - 1, 10**10 + 1, -1])
def test_a_number_that_no_model_can_have_is_told_and_not_believed(key: str, n: int) -> None:
    sound = otlp_span(1), otlp_span(3)
    bad = otlp_span(2, {"key": key, "value": {"intValue": str(n)}})
    without = otlp_span(2, {"key": key, "value": None})
    made = reported(otlp(sound[0], bad, sound[1]))
    assert figures(made, key) == figures(reported(otlp(sound[0], without, sound[1])), key)
    (found,) = (f for f in made["findings"] if f["kind"] == "usage_inconsistent")
    assert (f"{n:,}" in found["detail"], len(found["calls"])) == (True, 1)
    assert all(f["kind"] != "usage_missing" for f in made["findings"])


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"doubleValue": 1e308}, "input 1e+308 cannot be read as a number of tokens"),
        ({"boolValue": True}, "input is recorded as true or false, not as a number of tokens"),
        ({"stringValue": SECRET}, "input is recorded as text, not as a number of tokens"),
        (
            {"arrayValue": {"values": [{"intValue": "5"}]}},
            "input is recorded as a list, not as a number of tokens",
        ),
    ],
)
def test_an_input_that_is_no_number_is_not_said_to_be_missing(odd: Json, words: str) -> None:
    made = reported(otlp(otlp_span(1, {"key": "gen_ai.usage.input_tokens", "value": odd})))
    assert [f["kind"] for f in made["findings"] if f["kind"].startswith("usage")] == ["usage_inconsistent"]
    assert words in json.dumps(made)
    assert SECRET not in json.dumps(made)


USAGE_KEYS = (
    *COUNTS,
    "gen_ai.usage.total_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
)
INTS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 10**10, 10**10 + 1, 2**53, 2**63 - 1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(USAGE_KEYS), INTS), min_size=1, max_size=3))
def test_no_integer_in_the_usage_stops_the_report(calls: list[dict[str, int]]) -> None:
    spans = [
        otlp_span(n, *({"key": k, "value": {"intValue": str(v)}} for k, v in counts.items()))
        for n, counts in enumerate(calls, 1)
    ]
    assert len(reported(otlp(*spans))["calls"]) == len(calls)


@pytest.mark.parametrize("field", ["startTimeUnixNano", "endTimeUnixNano"])
@pytest.mark.parametrize(
    "value", [str(2**64), 2**70, HUGE, str(HUGE), 1e300, -1, "-5"], ids=lambda v: str(v)[:12]
)
def test_a_time_beyond_64_bits_skips_that_record_and_names_its_place(field: str, value: object) -> None:
    sound = otlp_span(1), otlp_span(3)
    alone = reported(otlp(*sound))
    made = reported(otlp(sound[0], otlp_span(2, **{field: value}), sound[1]))
    assert made["calls"] == alone["calls"]
    (skipped,) = made["input"]["skipped"]
    assert skipped["where"].endswith(":2")
    assert "spans[0]" in skipped["why"]
    assert field in skipped["why"]


def test_less_input_than_the_text_has_is_a_contradiction() -> None:
    app = App()
    app.call([said("system", RULES), said("user", "Where is the parcel?")], usage=(3, 1))
    made = report(app.spans)
    assert kinds(made) == ["usage_inconsistent"]
    counted = made["calls"][0]["tokens"]["counted"]
    assert made["findings"][0]["detail"].startswith(f"input 3, but the text has {counted:,} tokens")


def test_input_beyond_every_window_is_a_contradiction_and_no_history_on_a_server() -> None:
    app = App()
    app.call([said("system", RULES), said("user", "Where is the parcel?")], usage=(50_000_000, 1))
    made = report(app.spans)
    assert kinds(made) == ["usage_inconsistent"]
    assert "50,000,000" in made["findings"][0]["detail"]
    assert made["calls"][0]["completeness"] == {"status": "full", "reasons": [], "lost": []}


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.1])
def test_numbers_that_framing_and_tokenizers_explain_are_no_contradiction(factor: float) -> None:
    counted = report(_one(1))["calls"][0]["tokens"]["counted"]
    assert kinds(report(_one(int(counted * factor)))) == []


def _one(tokens: int) -> list[Span]:
    app = App()
    app.call([said("system", RULES), said("user", "Where is the parcel?")], usage=(tokens, 1))
    return app.spans


# ---- prompt text stays where it was


def _roles() -> list[Span]:
    app = App()
    for n in range(2):
        app.call(
            [{**said("user", f"Hello {n}."), "role": SECRET}, said("user", "Where is it?")], usage=(60, 2)
        )
    return app.spans


def _tool_names() -> list[Span]:
    app = App()
    ask = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": SECRET, "name": SECRET, "arguments": {SECRET: SECRET}}],
    }
    answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": SECRET, "response": SECRET}]}
    first = [said("user", "Where is it?")]
    app.call(first, tools=[tool(f"{SECRET} {n}") for n in range(3)], usage=(60, 2))
    app.call([*first, ask, answer], tools=[tool(f"{SECRET} {n}") for n in (2, 0)], usage=(80, 2))
    app.call([*first, ask, answer, said("user", "And now?")], tools=[tool(SECRET)], usage=(90, 2))
    return app.spans


def _texts() -> list[Span]:
    app = App()
    first = [said("user", f"{SECRET}. Where is it?")]
    app.call(first, system=f"{RULES} {SECRET} 10:41:07", usage=(600, 2))
    app.call(
        [*first, said("assistant", SECRET), said("user", "And?")],
        system=f"{RULES} {SECRET} 10:41:19",
        usage=(620, 2),
        more={"error.type": f"invalid prompt: {SECRET}"},
    )
    return app.spans


def _pictures() -> list[Span]:
    return pictures(f"https://example.com/{SECRET}.png", f"https://example.com/{SECRET}2.png")


@pytest.mark.parametrize("made", [_roles, _tool_names, _texts, _pictures])
def test_prompt_text_is_not_in_the_report(made: Callable[[], list[Span]]) -> None:
    spans = made()
    assert any(SECRET in str(span.attributes) for span in spans)
    written = json.dumps(report(spans))
    assert SECRET not in written


def test_prompt_text_is_in_the_report_where_it_is_asked_for() -> None:
    assert SECRET in json.dumps(report(_texts(), include_text=True))


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({SECRET: 1}),
        json.dumps({SECRET.replace(" ", "_"): 1, "elephants": 2}),
        json.dumps([{SECRET: [SECRET]}]),
        json.dumps({"messages": SECRET}),
        f"{SECRET} and more",
    ],
)
def test_an_unknown_document_is_refused_without_its_words(tmp_path: Path, data: str) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(data)
    with pytest.raises(InputError) as refused:
        list(read([dump]))
    assert "elephants" not in str(refused.value)


def test_unknown_lines_between_spans_are_skipped_without_their_words() -> None:
    lines = [json.dumps({SECRET: 1}), json.dumps({"elephants": 1}), f"{SECRET} foo", json.dumps(SECRET)]
    made = reported(otlp(otlp_span(1)) + "\n".join(lines).encode() + b"\n" + otlp(otlp_span(2)))
    assert len(made["calls"]) == 2
    assert made["input"]["skipped"]
    assert "elephants" not in json.dumps(made)


def test_an_empty_path_is_no_folder() -> None:
    with pytest.raises(InputError, match="is no path"):
        list(read([""]))
    result = CliRunner().invoke(main, ["analyze", ""])
    assert result.exit_code == 2
    assert "is no path" in result.output


# ---- JSON that was cut


def _work(function: Callable[[], object]) -> int:
    """Calls that ``function`` makes, Python's and C's; one that copies a list counts for each of its items."""
    count = 0

    def counted(_: object, event: str, called: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += len(called.__self__) if getattr(called, "__name__", "") == "copy" else 1

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":[', '["x",['])
def test_a_deep_cut_takes_work_in_proportion_to_its_depth(opened: str) -> None:
    def cut(depth: int) -> None:
        with suppress(ValueError):  # how deep JSON may be nested differs between Pythons
            salvage(opened * depth)

    few, many = _work(lambda: cut(5_000)), _work(lambda: cut(20_000))
    assert few >= 5_000  # each bracket was looked at
    assert many <= 5 * few
    cut(100_000)


WHOLE: Json = {
    "role": "user",
    "parts": [
        {"type": "text", "content": 'He said: "no", \\ and left.\nThen {nothing} [more].'},
        {"n": [0, -12, 3.5, True, False, None], "é": "ü😀\u2028", "": {}},
        [[], [[]], {"a": {"b": {"c": "d"}}}],
    ],
    "last": "x",
}


def is_beginning(part: Any, whole: Any) -> bool:
    """Is everything of ``part`` in ``whole``, at its place and unchanged, but for one value that ends too early?"""
    if isinstance(whole, dict) and isinstance(part, dict):
        mine, theirs = list(part.items()), list(whole.items())[: len(part)]
        return len(mine) == len(theirs) and all(
            k == j and (v == w if i < len(mine) - 1 else is_beginning(v, w))
            for i, ((k, v), (j, w)) in enumerate(zip(mine, theirs, strict=True))
        )
    if isinstance(whole, list) and isinstance(part, list):
        return part[:-1] == whole[: len(part)][:-1] and (
            not part or (len(part) <= len(whole) and is_beginning(part[-1], whole[len(part) - 1]))
        )
    if isinstance(whole, str) and isinstance(part, str):
        return whole.startswith(part)
    if isinstance(whole, (int, float)) and isinstance(part, (int, float)):
        return str(whole).startswith(str(part))  # the first digits of a number
    return type(part) is type(whole) and bool(part == whole)


@pytest.mark.parametrize("ascii_", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("whole", [WHOLE, [WHOLE, WHOLE]], ids=["object", "array"])
def test_a_cut_anywhere_leaves_a_beginning(whole: Any, indent: int | None, ascii_: bool) -> None:
    text = json.dumps(whole, ensure_ascii=ascii_, indent=indent)
    assert loads(text) == whole
    for end in range(1, len(text)):
        assert is_beginning(salvage(text[:end]), whole), text[:end]


def test_what_is_broken_and_not_cut_is_no_beginning() -> None:
    for text in ('{"a": ]', "[}", "", "plain words", '"a string'):
        with pytest.raises(ValueError, match=r"."):
            salvage(text)


# ---- images


def pictures(*urls: str) -> list[Span]:
    """A conversation whose first message holds an image; the nth call sends the nth URL."""
    app = App()
    history: list[Json] = []
    for n, url in enumerate(urls):
        first = {
            "role": "user",
            "parts": [
                {"type": "text", "content": "What is on the picture?"},
                {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": url},
            ],
        }
        app.call([first, *history], system=RULES)
        history = [*history, said("assistant", f"Answer {n}."), said("user", f"And then, {n}?")]
    return app.spans


A, B = "https://example.com/a.png", "https://example.com/b.png"


def test_another_image_at_the_same_place_is_a_break() -> None:
    made = report(pictures(A, A, B))
    at = made["calls"][2]["cache"]["break"]
    assert (at["path"], at["kind"], at["change"]) == ("messages[0].parts[1]", "image", "modified")
    (finding,) = (f for f in made["findings"] if f["kind"] == "prefix_changed")
    assert finding["calls"] == [ids(made)[2]]


def test_the_same_image_is_no_break() -> None:
    made = report(pictures(A, A, A))
    assert [c["relation"] for c in made["calls"]] == ["new", "continues", "continues"]
    assert [c["cache"]["break"] for c in made["calls"]] == [None] * 3
    assert "prefix_changed" not in kinds(made)


@pytest.mark.parametrize("include_text", [False, True])
def test_where_an_image_lies_is_never_told(include_text: bool) -> None:
    spans = pictures("https://example.com/cellar/a.png?key=k9", "https://example.com/cellar/b.png?key=k9")
    written = json.dumps(report(spans, include_text=include_text))
    for part in ("example.com", "cellar", "k9", "a.png"):
        assert part not in written


# ---- usage alone


_READ = "gen_ai.usage.cache_read.input_tokens"


def only_usage(reads: Sequence[int | None], *, traces: bool, size: int = 5_000) -> Sequence[Span]:
    """Calls without text, each of a trace of its own or all of one, which is what says that they belong together."""
    app = App()
    for n, read_ in enumerate(reads):
        scope = "own.tracer" if read_ is None else OPENAI  # which leaves a 0 out
        told = {} if read_ is None else {_READ: read_}
        app.call(None, usage=(size + 300 * n, 20), trace=n + 1 if traces else 1, scope=scope, more=told)
    return app.spans


def test_of_a_call_without_text_that_nothing_places_nothing_is_said() -> None:
    told = report(only_usage([0, 0, 4_000, None], traces=True))

    assert [(c["relation"], c["cache"]["outcome"]) for c in told["calls"]] == [
        ("new", None),
        ("new", None),
        ("new", None),
        ("new", "not_reported"),
    ]
    for c in told["calls"]:
        assert (c["cache"]["predicted"], c["cache"]["optimal"], c["waste"]) == (None, None, None)
    assert [c["cache"]["reported"] and c["cache"]["reported"]["read"] for c in told["calls"]] == [
        0,
        0,
        4_000,
        None,
    ]
    assert [c["savings"] for c in told["conversations"]] == [None] * 4
    assert (told["totals"]["waste"]["tokens"], told["totals"]["savings"]) == (None, None)
    assert {c for n in told["not_checked"] for c in n["calls"]} == {c["id"] for c in told["calls"]}


def test_calls_without_text_that_ids_place_are_judged_from_the_second_on() -> None:
    told = report(only_usage([0, 0, 4_000], traces=False))

    assert [(c["relation"], c["cache"]["outcome"]) for c in told["calls"]] == [
        ("new", None),
        ("continues", "miss"),
        ("continues", "partial"),
    ]
    assert [c["waste"] and c["waste"]["tokens"] for c in told["calls"]] == [None, 4_992, 1_248]


def test_a_prompt_too_short_to_be_cached_needs_no_text_to_be_known_as_such() -> None:
    (call,) = report(only_usage([0], traces=True, size=500))["calls"]

    assert (call["cache"]["outcome"], call["cache"]["optimal"]["read"], call["waste"]["tokens"]) == (
        "ineligible",
        0,
        0,
    )


def test_the_first_call_whose_text_was_seen_is_cold() -> None:
    app = App()
    app.call([said("user", "Where is it?")], system=RULES * 4)
    counted = report(app.spans)["calls"][0]["tokens"]["counted"]
    app = App()
    app.call([said("user", "Where is it?")], system=RULES * 4, usage=(counted, 20), more={_READ: 0})
    (call,) = report(app.spans)["calls"]

    assert (call["cache"]["outcome"], call["cache"]["optimal"]["read"]) == ("cold", 0)


def test_attributes_metrics_and_text_do_not_say_more_than_the_report() -> None:
    engine = Engine(Settings())
    engine.feed(only_usage([0, 4_000], traces=True))
    analysis = engine.close()
    for reading in analysis.readings:
        said_ = Said(reading, (), ())
        keys = attributes(said_, "primary")
        assert keys["otelctx.cache.read.reported"] == reading.call.usage.cache_read
        for absent in ("outcome", "cause", "read.predicted", "read.optimal"):
            assert f"otelctx.cache.{absent}" not in keys
        assert "otelctx.waste.tokens" not in keys
        names = {name for name, _, _ in records(said_, first=True)}
        assert not names & {"otelctx.cache.calls", "otelctx.cache.optimal.tokens", "otelctx.waste.tokens"}
    shown = "\n".join(plain(line) for line in render(analysis, Inputs((), ())))
    assert "2 calls not checked · what came before was not recorded · 4,000 tokens read" in shown
    assert "cold" not in shown
    assert "unbroken, marked prefix" not in shown


def test_the_text_says_from_how_many_tokens_on_a_prompt_is_cached() -> None:
    engine = Engine(Settings())
    engine.feed(only_usage([0, 0], traces=False, size=500))

    shown = "\n".join(plain(line) for line in render(engine.close(), Inputs((), ())))

    assert "2 ineligible (shorter than 1,024 tokens)" in shown
