"""What is a value that changes by itself, and what is a changed text."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.findings.volatile import Difference, excerpt, recognise


def difference(before: str, after: str) -> Difference:
    start = next(
        (i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y),
        min(len(before), len(after)),
    )
    return recognise(before, after, start)


VOLATILE = [
    ("Now: 2026-11-30T10:00:00Z.", "Now: 2026-11-30T10:00:07Z.", "2026-11-30T10:00:00Z", "a date and time"),
    ("2026-11-30 10:00:00.12+00:00", "2026-11-30 10:01:09.9+00:00", "2026-11-30 10:00:00.12+00:00", "a date and time"),
    ("at 20261130T100000Z ok", "at 20261130T100731Z ok", "20261130T100000Z", "a date and time"),
    ("Date: 2026-11-30.", "Date: 2026-12-01.", "2026-11-30", "a date"),
    ("It is 3:07:42 PM on Thu. Hi", "It is 3:07:55 PM on Thu. Hi", "3:07:42 PM", "a clock time"),
    ("It is 9:59.", "It is 10:00.", "9:59", "a clock time"),
    ("It is 9 pm here", "It is 10 pm here", "9 pm", "a clock time"),
    ("Today is Tuesday, as", "Today is Wednesday, as", "Tuesday", "a date"),
    ("on Thu.", "on Tue.", "Thu.", "a date"),
    ("since June 9, 2026:", "since May 30, 2026:", "June 9, 2026", "a date"),
    ("the 9th of June 2026:", "the 10th of June 2026:", "9th of June 2026", "a date"),
    ("Today: 06/09/2026", "Today: 06/10/2026", "06/09/2026", "a date"),
    ("Heute: 9.6.2026", "Heute: 10.6.2026", "9.6.2026", "a date"),
    (
        "id 123e4567-e89b-12d3-a456-426614174000 x", "id 99999999-e89b-12d3-a456-426614174abc x",
        "123e4567-e89b-12d3-a456-426614174000", "a UUID",
    ),
    ("commit 12ab4f7 ok", "commit 99fe001 ok", "12ab4f7", "a hash"),
    ("commit 1234567 ok", "commit 99fe001 ok", "1234567", "a hash"),
    ("t=1764500000 x", "t=1764500031 x", "1764500000", "a Unix time"),
    ("t=1764500000123.", "t=1764500031999.", "1764500000123", "a Unix time"),
    ("t=1764500000123456.", "t=1764500031999123.", "1764500000123456", "a Unix time"),
    ("t=1764500000123456789.", "t=1764500031999123456.", "1764500000123456789", "a Unix time"),
    ("Ticket 41 is open", "Ticket 42 is open", "41", "a counter"),
    ("request #99", "request #100", "99", "a counter"),
    ("18,233 tokens left", "17,002 tokens left", "18,233", "a number"),
    ("it took 17ms", "it took 250ms", "17ms", "a number"),
    ("run req_8f3k2m1q now", "run req_zz19a8b7 now", "req_8f3k2m1q", "a random id"),
    ("session aB3dE5gH7jK9", "session Zx1Yw2Vu3Ts4", "aB3dE5gH7jK9", "a random id"),
    ("id 01JDQ8Z5W3N7Y2K4M6P8R0T1V3", "id 01JDQ8Z5W9ABC2K4M6P8R0T1V4", "01JDQ8Z5W3N7Y2K4M6P8R0T1V3", "a random id"),
    ("log run-2026-11-30.txt", "log run-2026-12-01.txt", "run-2026-11-30", "a date and time"),
    ('{"description":"As of:\\n41 orders"}', '{"description":"As of:\\n42 orders"}', "41", "a counter"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "value", "what"), VOLATILE)
def test_a_value_that_changes_by_itself(before: str, after: str, value: str, what: str) -> None:
    found = difference(before, after)

    assert (found.what, found.before) == (what, value)
    assert before[found.start :].startswith(value)
    assert difference(after, before).what == what


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("It is 3:59 PM on Thu.", "It is 4:00 PM on Fri.", "a clock time and 1 more such value"),
        ("10:05, request 17, step 3", "10:06, request 18, step 4", "a clock time and 2 more such values"),
    ],
)
def test_several_values_at_once(before: str, after: str, what: str) -> None:
    assert difference(before, after).what == what


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("You are a careful agent.", "You are a bold agent."),
        ("You help Alice today.", "You help Bob today."),
        ("user alice2024 asks", "user robert1987 asks"),
        ("Widget: $12.50, Gadget: $8.00", "Widget: $13.50, Gadget: $9.25"),
        ("Widget 12, Gadget 30", "Widget 14, Gadget 35"),
        ("it costs $12 now", "it costs $13 now"),
        ("it costs 12 EUR", "it costs 13 EUR"),
        ("a discount of 10% now", "a discount of 15% now"),
        ("price 12.50", "price 13.50"),
        ("model claude-3-5-sonnet-20241022", "model claude-sonnet-4-20250514"),
        ("model gpt-4 answers", "model gpt-5 answers"),
        ("the iPhone15Pro", "the iPhone16Pro"),
        ("version v1.2.3", "version v1.2.4"),
        ("host 10.0.0.1", "host 10.0.0.7"),
        ("It is 3:07 PM. Be kind.", "It is 3:08 PM. Be rude."),
        ("As of 2026-11-29: A 10, B 20", "As of 2026-11-30: A 12, B 25"),
        ("It is Thu", "It is hot"),
        ("Ticket 41.", "Ticket 41. Then 42."),
        ("", "3:07 PM"),
        ("at 3:07 PM", ""),
        ("same", "same"),
    ],
)
def test_a_changed_text_is_no_value(before: str, after: str) -> None:
    assert difference(before, after).what == ""


def test_the_stretch_that_differs_is_whole_words() -> None:
    found = difference("You help Alison today.", "You help Alistair today.")

    assert (found.start, found.before, found.after) == (9, "Alison", "Alistair")


def test_the_excerpt_shows_the_characters_and_a_little_around_them() -> None:
    before = "x" * 100 + " It is 3:07:42 PM on Thu. " + "y" * 100
    after = before.replace("3:07:42", "3:07:55")

    shown = excerpt(before, after, difference(before, after))

    assert "It is 3:07:42 PM on Thu" in shown
    assert "It is 3:07:55 PM on Thu" in shown
    assert len(shown) < 160


@given(
    st.text(max_size=40),
    st.text(max_size=40),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001
    st.integers(1, 10**7),
    st.sampled_from(
        ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%I:%M:%S %p", "%H:%M", "%A, %B %d, %Y", "%d %b %Y"]
    ),
)
def test_a_time_is_found_in_any_form_and_surrounding(
    left: str, right: str, moment: datetime, later: int, form: str
) -> None:
    texts = [f"{left} | {t.strftime(form)} | {right}" for t in (moment, moment + timedelta(seconds=later))]

    assert texts[0] == texts[1] or difference(*texts).what


@given(st.text(max_size=40), st.text(max_size=40), st.uuids(), st.uuids())
def test_a_uuid_is_found_in_any_surrounding(left: str, right: str, one: UUID, two: UUID) -> None:
    assert one == two or difference(f"{left} {one} {right}", f"{left} {two} {right}").what == "a UUID"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_can_be_compared(before: str, after: str) -> None:
    found = difference(before, after)

    start = found.start
    assert before[:start] == after[:start]
    assert before[start:].startswith(found.before)
    assert after[start:].startswith(found.after)
    if not found.what:  # then the rest is the same on both sides
        assert before[start + len(found.before) :] == after[start + len(found.after) :]
