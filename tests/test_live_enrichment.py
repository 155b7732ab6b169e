"""The enriched copy: everything that was there, what is added, and an original that was not touched."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
from opentelemetry.trace import Link, SpanContext

from otel_ctx.live import enrichment as module
from otel_ctx.live.enrichment import Enrichment, attributes_of, enriched, span_context
from tests.exported import recording

TO = span_context("0" * 31 + "1", "0" * 15 + "2")
ADDED = Enrichment(
    {
        "otelctx.call.role": "primary",
        **{f"otelctx.n{i}": i for i in range(24)},
        "otelctx.findings": ("a", "b"),
    },
    (("otelctx.finding", {"otelctx.finding.kind": "growth_spike"}),),
    TO,
)


def span(
    attributes: Mapping[str, Any], limits: SpanLimits | None = None, events: int = 1, links: int = 1
) -> ReadableSpan:
    provider, memory = recording(resource=Resource({"a": "b"}), span_limits=limits)
    tracer = provider.get_tracer("scope", "1")
    parent = trace.set_span_in_context(tracer.start_span("parent"))
    to = [Link(SpanContext(7, n + 1, is_remote=False), {"n": n}) for n in range(links)]
    one = tracer.start_span("chat", parent, trace.SpanKind.CLIENT, attributes, links=to, start_time=5)
    for n in range(events):
        one.add_event(f"e{n}", {"x": n}, 6)
    one.set_status(trace.StatusCode.ERROR, "boom")
    one.end(9)
    return memory.get_finished_spans()[0]


def content(s: ReadableSpan) -> dict[str, Any]:
    """Everything that an exporter can ask a span for."""
    names = (
        "name", "context", "kind", "parent", "start_time", "end_time", "status", "resource", "instrumentation_scope",
        "dropped_attributes", "dropped_events", "dropped_links",
    )  # fmt: skip
    return {name: getattr(s, name) for name in names} | {
        "attributes": dict(s.attributes or {}),
        "events": [(e.name, e.timestamp, dict(e.attributes or {})) for e in s.events],
        "links": [(link.context.span_id, dict(link.attributes or {})) for link in s.links],
    }


def differences(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    return {key for key in a if a[key] != b[key]}


def test_all_is_there_and_the_original_is_as_it_was() -> None:
    original = span({"text": "x" * 5000, "list": ("a", "b"), "n": 1})
    before = content(original)
    made = enriched(original, ADDED)
    assert content(original) == before
    assert differences(before, content(made)) == {"attributes", "events", "links"}
    assert dict(made.attributes or {}) == {**before["attributes"], **ADDED.attributes}
    assert [e.name for e in made.events] == ["e0", "otelctx.finding"]
    assert made.events[-1].timestamp == 9
    assert dict(made.events[-1].attributes or {}) == {"otelctx.finding.kind": "growth_spike"}
    assert [link.context.span_id for link in made.links] == [1, 2]


def test_a_full_span_loses_nothing() -> None:
    original = span({f"k{n:03}": n for n in range(128)})
    made = enriched(original, ADDED)
    assert (original.dropped_attributes, made.dropped_attributes) == (0, 0)
    assert made.attributes is not None
    assert list(made.attributes)[:128] == [f"k{n:03}" for n in range(128)]
    assert len(made.attributes) == 128 + len(ADDED.attributes)


def test_what_the_limits_took_is_still_told() -> None:
    limits = SpanLimits(max_span_attributes=5, max_events=2, max_links=1)
    original = span({f"k{n}": n for n in range(9)}, limits, events=6, links=4)
    made = enriched(original, ADDED)
    assert original.dropped_attributes == made.dropped_attributes == 4
    assert original.dropped_events == made.dropped_events == 4
    assert original.dropped_links == made.dropped_links == 3
    assert len(made.events) == 3
    assert len(made.links) == 2


def test_the_copy_can_be_copied_and_printed_and_not_be_changed() -> None:
    made = enriched(span({"a": 1}), ADDED)
    assert content(copy.deepcopy(made))["attributes"] == content(made)["attributes"]
    assert '"otelctx.n3": 3' in made.to_json()
    with pytest.raises(TypeError):
        made.attributes["b"] = 2  # type: ignore[index]


def test_a_span_is_enriched_once() -> None:
    made = enriched(span({"a": 1}), ADDED)
    assert enriched(made, ADDED) is made


def test_without_events_and_links_those_of_the_span_are_shared() -> None:
    original = span({"a": 1})
    made = enriched(original, Enrichment({"otelctx.call.role": "duplicate"}))
    assert differences(content(original), content(made)) == {"attributes"}


def test_a_span_with_plain_containers_as_vendors_make_them() -> None:
    first = span({"a": 1})
    original = ReadableSpan(
        name=first.name, context=first.context, parent=first.parent, resource=first.resource, attributes={"a": 1},
        events=(Event("e"),), links=(), status=first.status, start_time=5, end_time=9,
    )  # fmt: skip
    made = enriched(original, ADDED)
    assert attributes_of(original) == {"a": 1}
    assert attributes_of(made) == {"a": 1, **ADDED.attributes}
    assert [e.name for e in made.events] == ["e", "otelctx.finding"]


def test_a_span_without_attributes() -> None:
    first = span({})
    original = ReadableSpan("none", first.context, resource=first.resource, attributes=None)
    assert dict(enriched(original, ADDED).attributes or {}) == ADDED.attributes


class OtherNames(ReadableSpan):
    """As a future SDK may be: the same properties, other fields behind them."""

    def __init__(self, of: ReadableSpan) -> None:
        self.hidden = of

    def __getattribute__(self, name: str) -> Any:
        if name in {"hidden", "__dict__", "__class__"}:
            return object.__getattribute__(self, name)
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "hidden"), name)


def test_without_the_private_fields_the_public_constructor_does_it() -> None:
    limits = SpanLimits(max_span_attributes=5, max_events=2, max_links=1)
    original = span({f"k{n}": n for n in range(9)}, limits, events=6, links=4)
    assert content(enriched(OtherNames(original), ADDED)) == content(enriched(original, ADDED))


def test_without_the_dict_behind_bounded_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opaque(BoundedAttributes):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._made_of = self.__dict__.pop("_dict")

        def __iter__(self) -> Any:
            return iter(self._made_of)

        def __getitem__(self, key: str) -> Any:
            return self._made_of[key]

        def __len__(self) -> int:
            return len(self._made_of)

        def _set_items(self, attributes: Mapping[str, Any]) -> None:
            self._dict.update(attributes)

    original = span({f"k{n}": n for n in range(9)}, SpanLimits(max_span_attributes=5))
    expected = content(enriched(original, ADDED))
    monkeypatch.setattr(module, "BoundedAttributes", Opaque)
    made = enriched(original, ADDED)
    assert dict(made.attributes or {}) == expected["attributes"]
    assert made.dropped_attributes == 4


def test_ids_of_a_raw_log_are_no_context() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        span_context("dump.jsonl", "12")
