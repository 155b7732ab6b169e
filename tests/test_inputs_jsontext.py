"""Documents are found in any layout, and damage costs no more than the document it is in."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.inputs import jsontext
from otel_ctx.inputs.interface import OVERLONG
from otel_ctx.inputs.jsontext import (
    BROKEN,
    CUT,
    DEEP,
    NO_UTF8,
    NOT_JSON,
    NUMBERS,
    REPLACED,
    TWICE,
    ZEROS,
    Document,
    documents,
    loads,
)


def found(data: bytes) -> list[Document]:
    return list(documents(io.BytesIO(data)))


def values(data: bytes) -> list[Any]:
    return [document.value for document in found(data) if not document.problem]


def problems(data: bytes) -> list[tuple[int, int, str]]:
    return [(document.first, document.last, document.problem) for document in found(data) if document.problem]


ONE = {"a": [1, {"b": "}{\n"}], "c": "x"}
PRETTY = json.dumps(ONE, indent=2).encode()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=10,
)
json_documents = st.lists(json_values, max_size=3) | st.dictionaries(
    st.text(max_size=5), json_values, max_size=3
)


@given(
    st.lists(json_documents, max_size=4),
    st.sampled_from([None, 0, 2, "\t"]),
    st.sampled_from(["\n", "\r\n", "\n\n \n"]),
    st.booleans(),
    st.sampled_from([b"", jsontext.BOM, b"\0" * 9]),
    st.sampled_from([1, 7, 1 << 26]),
)
def test_documents_come_back_in_every_layout(
    wanted: list[Any], indent: int | str | None, end: str, closed: bool, bom: bytes, at_once: int
) -> None:
    text = end.join(json.dumps(value, indent=indent) for value in wanted)
    if "\r" in end:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    data = (bom if wanted else b"") + text.encode() + (end.encode() if closed else b"")
    with mock.patch.object(jsontext, "_KEPT", at_once):
        assert values(data) == wanted
        assert not problems(data)


@given(json_documents, json_documents, st.sampled_from([None, 2]))
def test_documents_that_stand_on_one_line(one: Any, two: Any, indent: int | None) -> None:
    data = (json.dumps(one, indent=indent) + json.dumps(two, indent=indent)).encode()
    assert values(data) == [one, two]


@given(st.binary(max_size=200) | st.text('{}[]",:\\ \n01a', max_size=60).map(str.encode))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    lines = data.count(b"\n") + 1
    for document in found(data):
        assert 1 <= document.first <= document.last <= lines


def test_lines_are_numbered_and_a_document_alone_is_known() -> None:
    def bare(data: bytes) -> list[Document]:
        return [document._replace(data=b"") for document in found(data)]

    assert bare(b'{"a":1}\n\n{"b":2}\n') == [Document(1, 1, {"a": 1}), Document(3, 3, {"b": 2})]
    assert bare(b'\xef\xbb\xbf{"a":1}\r\n') == [Document(1, 1, {"a": 1}, alone=True)]
    assert bare(PRETTY) == [Document(1, 1, ONE, alone=True)]
    assert [(d.first, d.alone) for d in found(PRETTY + b"\n" + PRETTY)] == [(1, False), (10, False)]


def test_a_line_that_was_cut_off_at_the_end() -> None:
    assert values(b'{"a":1}\n{"b":[{"c":"d') == [{"a": 1}]
    assert problems(b'{"a":1}\n{"b":[{"c":"d') == [(2, 2, CUT)]
    assert problems(b'{"a":1}\n{"b":[{"c":"d\n') == [(2, 2, BROKEN)]
    assert problems(b'{"a":1,"b":[{"c') == [(1, 1, CUT)]


@pytest.mark.parametrize("damaged", [b'{"b":[{"c":"d', b'{"b": nope}', b'{"b":[1,', b"{'python': 1}", b"{"])
def test_a_damaged_line_costs_only_itself(damaged: bytes) -> None:
    after = b'{"a":1}\n' + damaged + b'\n{"c":3}\n{"d":4}\n'
    assert values(after) == [{"a": 1}, {"c": 3}, {"d": 4}]
    assert problems(after) == [(2, 2, BROKEN)]
    assert values(damaged + b'\n{"c":3}\n{"d":4}\n') == [{"c": 3}, {"d": 4}]


def test_text_between_documents_is_passed_over() -> None:
    data = b'starting\n{"a":1}\nstill here\n' + PRETTY + b"\ndone"
    assert values(data) == [{"a": 1}, ONE]
    assert [problem for _, _, problem in problems(data)] == [NOT_JSON] * 3


def test_text_inside_an_indented_document_is_passed_over() -> None:
    lines = PRETTY.splitlines(keepends=True)
    data = PRETTY + b"\n" + b"".join([*lines[:3], b"a line of a log\n", *lines[3:]])
    assert values(data) == [ONE, ONE]
    assert problems(data) == [(13, 13, NOT_JSON)]


def test_an_indented_document_that_was_cut_costs_only_itself() -> None:
    cut = b"\n".join(PRETTY.splitlines()[:4]) + b"\n"
    assert values(cut + PRETTY) == [ONE]
    assert problems(cut + PRETTY) == [(1, 4, BROKEN)]
    assert values(PRETTY + b"\n" + cut.rstrip()) == [ONE]
    assert problems(PRETTY + b"\n" + cut.rstrip()) == [(10, 13, CUT)]


def test_the_items_of_a_list_that_was_cut_are_read() -> None:
    assert values(b'[\n{"a":1},\n{"b":2},\n{"c"') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("cut", [b"", b",", b', {"c"', b', {"c": [{"d": "e'])
def test_the_items_of_a_list_without_an_end_are_read(indent: int | None, cut: bytes) -> None:
    whole = [{"a": "1 é"}, {"b": {"c": [2, "}]"]}}]
    data = json.dumps(whole, indent=indent, ensure_ascii=False).encode().rstrip(b"\n]") + cut
    read, rest = found(data)
    assert (read.value, read.alone) == (whole, True)
    line = data.count(b"\n") + 1
    assert (rest.first, rest.last, rest.problem) == (line, line, CUT)


def test_of_a_list_that_is_broken_in_the_middle_the_rest_is_named() -> None:
    data = b'[\n {\n  "a": 1\n },\n {\n  "b": nope\n },\n {\n  "c": 3\n }\n]\n'
    assert values(data) == [[{"a": 1}]]
    assert problems(data) == [(5, 11, BROKEN)]


def test_a_list_that_broke_off_costs_nothing_behind_it() -> None:
    assert values(b'[\n {\n  "a": 1\n },\n {\n  "b"\n{"c":3}\n') == [[{"a": 1}], {"c": 3}]


def test_a_key_twice_in_a_list_without_an_end_is_seen() -> None:
    assert jsontext.flaw(found(b'[{"a":1,"a":2},{"b"')[0]) == TWICE


def test_a_line_of_zeros_is_named() -> None:
    assert values(b'{"a":1}\n' + b"\0" * 300 + b'\n{"b":2}\n') == [{"a": 1}, {"b": 2}]
    assert problems(b'{"a":1}\n' + b"\0" * 300 + b'\n{"b":2}\n') == [(2, 2, ZEROS)]
    assert problems(b'{"a":1}\n' + b"\0" * 300 + b'{"b":2}\n') == []


def test_brackets_that_are_not_indented() -> None:
    one = b'{"spans":[\n{"a":1},\n{"b":2}\n]}\n'
    assert values(one) == [{"spans": [{"a": 1}, {"b": 2}]}]
    assert values(one + one) == [{"spans": [{"a": 1}, {"b": 2}]}] * 2


def test_what_orjson_refuses() -> None:
    (document,) = found(b'{"a": NaN, "b": -Infinity, "c": 123456789012345678901234567890}')
    assert document.value["a"] != document.value["a"]
    assert document.value["b"] == float("-inf")
    assert values(b'{"lone": "x\\ud83dy", "\\udc00": ["\\ud83d\\ude42"]}') == [
        {"lone": "x\ufffdy", "\ufffd": ["🙂"]}
    ]
    (document,) = found(b'{"a": "caf\xe9"}')
    assert (document.value, document.note) == ({"a": "caf\ufffd"}, REPLACED)


def test_what_is_nested_too_deeply_costs_only_itself() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert [d.problem or d.value for d in found(b'{"b":1}\n' + deep + b'\n{"c":2}\n')] == [
        {"b": 1},
        DEEP,
        {"c": 2},
    ]
    assert problems(b'{"n": ' + b"9" * 5000 + b"}\n") == [(1, 1, BROKEN)]


def test_a_line_that_is_too_long_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "LONGEST", 1000)
    long = json.dumps(["x" * 5000]).encode()
    data = b"[1]\n" + long + b"\n[2]\n" + b" " * 3000 + b"\n[3]\n" + long
    assert values(data) == [[1], [2], [3]]
    assert problems(data) == [(2, 2, OVERLONG), (4, 4, OVERLONG), (6, 6, OVERLONG)]


@pytest.mark.parametrize("indent", [0, 1])
def test_a_document_of_many_lines_that_is_too_long_costs_only_itself(
    indent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = json.dumps({"a": list(range(1000))}, indent=indent).encode()
    data = b"[1]\n" + long + b"\n[2]\n"
    assert len(values(data)) == 3
    monkeypatch.setattr(jsontext, "LONGEST", 1000)
    assert values(data) == [[1], [2]]
    assert problems(data) == [(2, 1 + len(long.splitlines()), OVERLONG)]


def test_a_great_many_documents_on_one_line() -> None:
    assert len(values(b"{}" * 100_000)) == 100_000


def test_one_value() -> None:
    assert loads(b' {"a": NaN} ')["a"] != 0
    for data in (b"", b"{", b"{} {}", b'{"a":' * 100_000):
        with pytest.raises(ValueError, match="JSON"):
            loads(data)


def test_only_as_much_as_a_line_is_held() -> None:
    line = b'{"a":1}\n'
    stream = io.BufferedReader(io.BytesIO(line * 100_000), 1024)
    reader = documents(stream)
    next(reader)
    assert stream.tell() == 2 * len(line)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"a"', True),
        (b"\xef\xbb\xbf [", True),
        (b"log\n  {", True),
        (b"plain text", False),
        (b"", False),
        (b"\x00\n{", False),
        (b"\x00\x00{", True),
        (b'{"a": "\x00"}', True),
    ],
)
def test_what_looks_like_json(head: bytes, expected: bool) -> None:
    assert jsontext.looks_like_json(head) is expected


# ---- what a strict reader passes over


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a":1,"a":2}', TWICE),
        (b'{"a":{"b":1,"c":":","b":2}}', TWICE),
        (b'[{"a":1},\n{"a":1,"a":2}]', TWICE),
        (b'{\n "a": 1,\n "a": 2\n}\n', TWICE),
        (b'{"a":NaN}', NUMBERS),
        (b'{"a":[-Infinity]}', NUMBERS),
        (b'{"a":1e999}', NUMBERS),
        (b'{"a":"\xff"}', NO_UTF8),
        (b"[" * 130 + b"]" * 130, DEEP),
    ],
)
def test_what_is_ambiguous_or_damaged_has_a_flaw(data: bytes, why: str) -> None:
    (document,) = found(data)
    assert jsontext.flaw(document) == why


@given(json_documents, st.sampled_from([None, 2]))
def test_what_is_sound_has_none(value: Any, indent: int | None) -> None:
    (document,) = found(json.dumps(value, indent=indent).encode())
    assert jsontext.flaw(document) == ""


@pytest.mark.parametrize("data", [b'{"a":"\\ud83d"}', b'{"a":1}{"a":2}', b'{"a":"x:\\":y","b:":[{"a":1}]}'])
def test_what_is_only_unusual_has_none(data: bytes) -> None:
    assert {jsontext.flaw(document) for document in found(data)} == {""}


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_line_that_was_cut_in_a_prompt_full_of_quotes_takes_no_longer_than_it_is(end: bytes) -> None:
    """Each quote in it once began a search to its end: 300 kB took ten minutes, and these would take a day."""
    cut = b'{"value": "' + rb"{\"role\": \"user\"}, " * 200_000 + end

    assert problems(b'{"a": 1}\n' + cut) == [(2, 2, CUT)]
