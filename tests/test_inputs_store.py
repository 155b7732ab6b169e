"""Contents in files of their own: found beside the dump under any former path, and never anything else."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.inputs import Store, store

MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A folder with ``uploads/a_inputs.json`` in it, and a secret beside the folder."""
    folder = tmp_path / "dump"
    put(folder / "uploads" / "a_inputs.json", MESSAGES)
    put(tmp_path / "secret.json", MESSAGES)
    return folder


def put(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


@pytest.mark.parametrize(
    "reference",
    [
        "file:///captures/run-7/uploads/a_inputs.json",  # where it lay on the machine that wrote it
        "file://localhost/captures/uploads/a_inputs.json",
        "file:///captures/up%6Coads/a_inputs.json",
        "/captures/uploads/a_inputs.json",
        "uploads/a_inputs.json",
        "./uploads/a_inputs.json",
        "C:\\captures\\uploads\\a_inputs.json",
        "/captures/other-name/a_inputs.json",  # its folder was renamed
        "a_inputs.json",
    ],
)
def test_a_file_is_found_by_the_end_of_its_path_or_by_its_name(dump: Path, reference: str) -> None:
    there = Store([dump])

    assert there.fetch(reference) == MESSAGES
    assert there.used == {dump / "uploads" / "a_inputs.json"}


@pytest.mark.parametrize(
    "reference",
    [
        "s3://bucket/uploads/a_inputs.json",
        "gs://bucket/uploads/a_inputs.json",
        "http://127.0.0.1/uploads/a_inputs.json",
        "https://example.com/uploads/a_inputs.json",
        "file://fileserver/share/uploads/a_inputs.json",
        "data:application/json,[]",
        "file://[broken/uploads/a_inputs.json",
    ],
)
def test_nothing_that_lies_elsewhere_is_looked_for_here(dump: Path, reference: str) -> None:
    assert Store([dump]).fetch(reference) is None


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.json",
        "uploads/../../secret.json",
        "file:///../secret.json",
        "file:///x/%2e%2e/%2e%2e/secret.json",
        "{parent}/secret.json",
        "file://{parent}/secret.json",
        "uploads/a_inputs.json\0.json",
        "",
        "/",
        "x" * 10_000,
    ],
)
def test_no_path_leads_out_of_the_folder(dump: Path, reference: str) -> None:
    there = Store([dump])

    assert there.fetch(reference.format(parent=dump.parent)) is None
    assert not there.used


def test_no_link_leads_out_of_the_folder(dump: Path) -> None:
    (dump / "uploads" / "link.json").symlink_to(dump.parent / "secret.json")
    (dump / "linked").symlink_to(dump.parent, target_is_directory=True)
    (dump / "uploads" / "inner.json").symlink_to(dump / "uploads" / "a_inputs.json")

    assert Store([dump]).fetch("uploads/link.json") is None
    assert Store([dump]).fetch("linked/secret.json") is None
    assert Store([dump]).fetch("secret.json") is None  # by its name, in the linked folder
    assert Store([dump]).fetch("uploads/inner.json") == MESSAGES


@pytest.mark.parametrize(
    "name", ["uploads/.hidden.json", ".config/a.json", "uploads/notes.txt", "uploads/passwd"]
)
def test_neither_hidden_files_nor_other_kinds_are_read(dump: Path, name: str) -> None:
    put(dump / name, MESSAGES)

    assert Store([dump]).fetch(name) is None


def test_only_regular_files_are_read(dump: Path) -> None:
    os.mkfifo(dump / "uploads" / "pipe.json")
    (dump / "uploads" / "folder.json").mkdir()

    assert Store([dump]).fetch("uploads/pipe.json") is None
    assert Store([dump]).fetch("uploads/folder.json") is None


def test_the_root_of_the_file_system_is_no_folder_of_contents(dump: Path) -> None:
    assert Store(["/"]).fetch(str(dump / "uploads" / "a_inputs.json")) is None


def test_size_is_bounded_packed_or_not(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MAX_BYTES", 100)
    put(dump / "fits.json", ["x" * 90])
    put(dump / "long.json", ["x" * 100])
    (dump / "bomb.json.gz").write_bytes(gzip.compress(json.dumps(["x" * 1_000_000]).encode()))

    assert Store([dump]).fetch("fits.json") == ["x" * 90]
    assert Store([dump]).fetch("long.json") is None
    assert Store([dump]).fetch("bomb.json") is None


def test_gzip_and_json_lines_are_read(dump: Path) -> None:
    lines = "".join(json.dumps(m) + "\n" for m in MESSAGES * 2)
    (dump / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (dump / "c.jsonl").write_text(lines, "utf-8")
    (dump / "d.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(MESSAGES).encode())

    assert Store([dump]).fetch("b.jsonl") == MESSAGES * 2
    assert Store([dump]).fetch("c.jsonl") == MESSAGES * 2
    assert Store([dump]).fetch("d.json") == MESSAGES


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe[", b"\x1f\x8b\x08broken", b"[" * 100_000])
def test_damage_is_as_good_as_nothing(dump: Path, data: bytes) -> None:
    (dump / "a.json").write_bytes(data)
    (dump / "b.json.gz").write_bytes(data)

    assert Store([dump]).fetch("a.json") is None
    assert Store([dump]).fetch("b.json") is None


def test_the_longest_end_of_the_path_is_the_right_one(dump: Path) -> None:
    put(dump / "a_inputs.json", ["another"])

    assert Store([dump]).fetch("/captures/uploads/a_inputs.json") == MESSAGES


def test_several_folders_are_looked_into_in_their_order(dump: Path, tmp_path: Path) -> None:
    put(tmp_path / "more" / "b.json", MESSAGES)

    assert Store([tmp_path / "absent", dump, tmp_path / "more"]).fetch("b.json") == MESSAGES
    assert Store([]).fetch("b.json") is None
