"""Every snippet of the documentation holds, and every link leads somewhere.

``console`` shows commands behind ``$`` and what they print; ``bash`` shows commands only. Commands of this project are
run where their files exist, and else only parsed: a person's own dump is not here. The examples are run against a stub
of the providers. ``…`` stands for any lines that are left out. Python is run, each snippet for itself. A language that
is not in ``CHECKS`` fails: whatever is shown has to be checked in some way.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from otel_ctx.live.gateway.config import config_of
from otel_ctx.live.gateway.config_file import read_file
from otel_ctx_cli.main import main
from otel_ctx_cli.project import project
from tests.example_scripts import run_example

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "collector_config/**/*.md")
    for path in ROOT.glob(pattern)
)
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = frozenset(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
DEMO = "examples/support-agent.otlp.jsonl.gz"

# Other people's commands, which nothing here can check.
FOREIGN = frozenset(
    "cat cd curl eval docker export git grep node npm opentelemetry-instrument pytest zcat".split()
)
_LEFT_OUT = ("…", "...")


class Snippet(NamedTuple):
    page: str
    line: int
    language: str
    text: str


def snippets_of(page: str, text: str) -> Iterator[Snippet]:
    """The fenced blocks. An indented fence, as in a list, loses its indent."""
    fence = re.compile(
        r"^([ ]*)(`{3,}|~{3,})[ ]*([^\s`]*)[^\n]*\n(.*?)^[ ]*\2[ ]*$", re.MULTILINE | re.DOTALL
    )
    for match in fence.finditer(text):
        indent, _, language, body = match.groups()
        lines = (line.removeprefix(indent) for line in body.splitlines())
        yield Snippet(page, text.count("\n", 0, match.start()) + 1, language.lower(), "\n".join(lines))


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


SNIPPETS = [s for page in PAGES for s in snippets_of(page, read(page))]


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_of_a_page_is_a_snippets(page: str) -> None:
    fences = re.findall(r"^\s*(?:```|~~~)", read(page), re.MULTILINE)

    assert len(fences) == 2 * sum(s.page == page for s in SNIPPETS)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: f"{s.page}:{s.line}")
def test_snippet(snippet: Snippet, tmp_path: Path) -> None:
    check(snippet, tmp_path)


def check(snippet: Snippet, folder: Path) -> None:
    """Raises AssertionError where it does not hold. ``folder`` is empty: what is written goes there."""
    assert snippet.language in CHECKS, (
        f"nothing checks snippets in {snippet.language or 'no language'!r}: name one of {', '.join(CHECKS)}"
    )
    (folder / "examples").symlink_to(ROOT / "examples")
    CHECKS[snippet.language](snippet.text, folder)


# ---- snippets, by language


def _console(text: str, folder: Path) -> None:
    command, shown = "", list[str]()
    for line in [*text.splitlines(), "$ "]:
        if not line.startswith("$ "):
            assert command, f"output before any command: {line}"
            shown.append(line)
            continue
        if command:
            _command(command, folder, shown)
        command, shown = line.removeprefix("$ "), []


def _bash(text: str, folder: Path) -> None:
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            _command(line, folder, [])


def _python(text: str, folder: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli"))),
        "PYTHONWARNINGS": "error",
    }
    run = subprocess.run(
        [sys.executable, "-"],
        input=text,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def _json(text: str, _: Path) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        raise AssertionError(f"no JSON: {error}") from None


def _toml(text: str, folder: Path) -> None:
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise AssertionError(f"no TOML: {error}") from None
    if "otelctx" in document.get("tool", {}):
        (folder / "pyproject.toml").write_text(text)
        try:
            project(str(folder / "pyproject.toml")).with_flags({})
        except click.ClickException as error:
            raise AssertionError(error.format_message()) from None


def _text(_: str, __: Path) -> None:
    """A drawing or a list of files: nothing to run."""


def _yaml(text: str, folder: Path) -> None:
    assert yaml.safe_load(text)
    if "\nforward:" in text:  # settings of the gateway
        (folder / "gateway.yaml").write_text(re.sub(r"\$\{env:\w+\}", "x", text))
        config_of(read_file(str(folder / "gateway.yaml")), {})
    for step in (yaml.safe_load(text) or {}).get(
        "steps", []
    ):  # of a workflow that uses the action of this repository
        place, _, action = step.get("uses", "").partition("/.github/actions/")
        if place and action:
            about = yaml.safe_load(
                (ROOT / ".github/actions" / action.split("@")[0] / "action.yml").read_text("utf-8")
            )
            unknown = set(step["with"]) - set(about["inputs"])
            assert not unknown, f"the action has no input {', '.join(unknown)}"


CHECKS: dict[str, Callable[[str, Path], None]] = {
    "console": _console,
    "bash": _bash,
    "sh": _bash,
    "python": _python,
    "json": _json,
    "toml": _toml,
    "text": _text,
    "yaml": _yaml,
}


# ---- commands


def _command(line: str, folder: Path, shown: Sequence[str]) -> None:
    """A line of a shell. One with a pipe, a redirection or several commands is not run: they are only checked."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    alone, redirected = True, False
    for word in lexer:
        if set(word) <= set("|&;()"):
            commands.append([])
            alone = False
        elif set(word) <= set("<>&"):
            alone, redirected = False, True
        elif redirected:
            redirected = False  # a file
        elif commands[-1] or not re.fullmatch(r"[A-Za-z_]\w*=.*", word):  # not a variable before the command
            commands[-1].append(word)
    for words in filter(None, commands):
        _checked(words, folder, shown, runs=alone)


def _checked(words: Sequence[str], folder: Path, shown: Sequence[str], *, runs: bool) -> None:
    name, *arguments = words
    if name in ("python", "python3") and arguments[:1] == ["-m"]:
        name, arguments = arguments[1], arguments[2:]
        name = {"otel_ctx_cli": "otelctx"}.get(name, name)
    elif name == "uv" and arguments[:1] == ["run"]:
        name, arguments = "python", arguments[1:]
    elif name in ("uv", "pipx") and arguments:
        name, arguments = "pip", arguments[1:] if arguments[0] == "pip" else ["install", *arguments[1:]]
    if name == "otelctx":
        _otelctx(arguments, folder, shown, runs=runs)
    elif name == "make":
        _make(arguments, folder, shown)
    elif name == "pip":
        _pip(arguments)
    elif name in ("python", "python3"):
        _script(arguments, shown)
    elif name.startswith("tests."):
        assert (ROOT / name.replace(".", "/")).is_dir(), f"no package {name}"
    elif "/" in name:
        assert os.access(ROOT / name, os.X_OK), f"{name} is not here, or cannot be run"
    else:
        assert name in FOREIGN, f"nobody knows the command {name!r}"


def _script(arguments: Sequence[str], shown: Sequence[str]) -> None:
    """One of the examples is run, against a stub of the providers; others only have to be here."""
    scripts = [a for a in arguments if a.endswith(".py")]
    assert all((ROOT / s).exists() for s in scripts if "/" in s), f"not here: {scripts}"
    if shown:
        name = Path(arguments[0]).name
        assert list(arguments) == [f"examples/{name}"], f"{shlex.join(arguments)}: cannot be run here"
        same_output(shown, run_example(name).output)


def _otelctx(arguments: Sequence[str], folder: Path, shown: Sequence[str], *, runs: bool) -> None:
    files = [a for a in arguments if not a.startswith("-") and re.search(r"[./](?!.*:\d+$)", a)]
    written = {b for a, b in pairwise(arguments) if a in ("--json", "--html", "--svg", "--md", "--junit")}
    endless = arguments[:1] in (["watch"], ["gateway"]) and "--check" not in arguments
    if endless or not runs or not all((folder / f).exists() for f in files if f not in written):
        assert not shown, f"otelctx {shlex.join(arguments)}: shows output, and cannot be run here"
        _parsed(arguments)
        return
    before = Path.cwd()
    os.chdir(folder)
    try:
        environment = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None, "OTELCTX_DEBUG": None}
        result = CliRunner().invoke(main, list(arguments), env=environment, prog_name="otelctx")
    finally:
        os.chdir(before)
    gated = "--fail-on" in arguments or "check" in arguments
    assert result.exit_code in ((0, 1) if gated else (0,)), result.output
    if shown:
        same_output(shown, result.stdout.splitlines())


def _parsed(arguments: Sequence[str]) -> None:
    """The command, its options and their values exist; the files need not."""
    name, *rest = arguments
    group = click.Context(main, info_name="otelctx")
    command = main.get_command(group, name)
    assert command is not None, f"otelctx has no command {name}"
    try:
        command.make_context(name, rest, parent=group)
    except click.ClickException as error:
        raise AssertionError(f"otelctx {shlex.join(arguments)}: {error.format_message()}") from None


def same_output(shown: Sequence[str], real: Sequence[str]) -> None:
    """``shown`` is ``real``, but that a line of ``…`` may stand for any number of lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line.strip() in _LEFT_OUT else re.escape(line.rstrip()) + r"\n" for line in shown
    )
    text = "".join(line.rstrip() + "\n" for line in real)
    assert re.fullmatch(pattern, text), f"shown:\n{chr(10).join(shown)}\n\nreal:\n{text}"


def _make(arguments: Sequence[str], folder: Path, shown: Sequence[str]) -> None:
    targets = [a for a in arguments if "=" not in a and not a.startswith("-")]
    unknown = [t for t in targets if t not in TARGETS]
    assert not unknown, f"the Makefile has no target {', '.join(unknown)}"
    if shown:
        assert targets == ["demo"], f"make {' '.join(targets)}: nothing checks what it prints"
        printed = [line for line in shown if not line.endswith(f"otelctx analyze {DEMO}")]
        _otelctx(["analyze", DEMO], folder, printed, runs=True)


def _pip(arguments: Sequence[str]) -> None:
    assert arguments[:1] == ["install"], f"pip {' '.join(arguments)}"
    extras = set(PROJECT["optional-dependencies"])
    for word in arguments[1:]:
        if word.startswith("-"):
            continue
        local = re.fullmatch(r"\.(?:\[(.*)\])?", word)
        try:
            wanted = Requirement(f"otel-ctx[{local[1] or ''}]" if local else word)
        except InvalidRequirement:
            raise AssertionError(f"pip cannot install {word!r}") from None
        if canonicalize_name(wanted.name) == PROJECT["name"]:
            assert wanted.extras <= extras, f"no extra {', '.join(wanted.extras - extras)}"


# ---- links

_LINKS = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|\b(?:src|srcset|href)=\"([^\"]+)\"")


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    assert not broken_links(page, read(page))


def broken_links(page: str, text: str) -> list[str]:
    prose = re.sub(r"^[ ]*(`{3,}).*?^[ ]*\1[ ]*$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [a or b for a, b in _LINKS.findall(prose)]
    return [link for link in found if not _leads_somewhere(page, text, link)]


def _leads_somewhere(page: str, text: str, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return link.startswith(("https://", "mailto:"))
    path, _, anchor = link.partition("#")
    if not path:
        return anchor in _anchors(text)
    target = (ROOT / page).parent / path
    if not target.resolve().is_relative_to(ROOT.resolve()) or not target.exists():
        return False
    if not anchor or target.suffix != ".md":
        return True
    return anchor in _anchors(target.read_text("utf-8"))


def _anchors(text: str) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


# ---- the checks see what is wrong


@pytest.mark.parametrize(
    ("language", "text", "why"),
    [
        ("", "x", "nothing checks"),
        ("perl", "print 1", "nothing checks"),
        ("console", "so it goes", "before any command"),
        ("console", "$ otelctx --version\nversion 0", "real:"),
        ("console", f"$ otelctx analyze {DEMO}\n2 files\n…", "real:"),
        ("console", "$ otelctx analyze dump.json\n1 file", "cannot be run here"),
        ("console", "$ make lock\nso it goes", "nothing checks what it prints"),
        ("console", "$ make demo\nso it goes", "real:"),
        ("bash", "otelctx analyse dump.json", "analyse"),
        ("bash", "otelctx analyze --jsn out.json dump.json", "--jsn"),
        ("bash", "otelctx analyze --fail-on never dump.json", "never"),
        ("bash", "cat dump.json | otelctx analyze --jsn -", "--jsn"),
        ("bash", "python -m otel_ctx_cli analyse", "analyse"),
        ("bash", "make dmo", "no target dmo"),
        ("bash", "pip install 'otel-ctx[fats]'", "no extra fats"),
        ("bash", "uv pip install -e '.[fats]'", "no extra fats"),
        ("bash", "pip install otel-ctx[", "cannot install"),
        ("bash", "otlectx analyze dump.json", "otlectx"),
        ("bash", ".ci/rum", "cannot be run"),
        ("bash", "python examples/nothing.py", "not here"),
        ("bash", "uv run examples/nothing.py", "not here"),
        ("bash", "python -m tests.nothing", "no package"),
        ("console", "$ uv run examples/collector_otlp.py\nso it goes", "real:"),
        ("console", "$ python app.py\nso it goes", "cannot be run here"),
        ("python", "import otel_ctx\notel_ctx.nothing", "nothing"),
        ("python", "import warnings\nwarnings.warn('old', DeprecationWarning)", "old"),
        ("json", "{", "no JSON"),
        ("toml", "=", "no TOML"),
        ("toml", "[tool.otelctx.check]\nmax-contxt = 1", "no gate: is max-context meant"),
        (
            "yaml",
            "steps:\n- uses: o/r/.github/actions/check@v1\n  with: {max-contxt: 1}",
            "no input max-contxt",
        ),
    ],
)
def test_a_wrong_snippet_is_seen(language: str, text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        check(Snippet("page.md", 1, language, text), tmp_path)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("console", "$ otelctx --version\n…\n$ make demo"),
        (
            "console",
            f"$ make demo\n.venv/bin/otelctx analyze {DEMO}\n1 file · 37 spans · 32 calls · 2 conversations\n…",
        ),
        ("bash", "# a person's own\notelctx analyze \\\n  dump.json logs.json --json report.json"),
        ("bash", f"otelctx analyze {DEMO} --fail-on error"),
        ("bash", "otelctx analyze - < dump.json"),
        (
            "bash",
            "curl -s example.org/dump | otelctx analyze - --json - > report.json && make test PYTEST_ARGS=-x",
        ),
        ("bash", "OTEL_SERVICE_NAME=a pip install otel-ctx[all] 'openai>=2'\n.ci/run"),
        ("python", "import otel_ctx"),
        ("json", "{}"),
        ("toml", "a = 1"),
        ("yaml", "a: 1"),
        ("bash", "otelctx watch --otlp"),
        ("text", "a -> b"),
    ],
)
def test_a_right_snippet_passes(language: str, text: str, tmp_path: Path) -> None:
    check(Snippet("page.md", 1, language, text), tmp_path)


def test_what_a_command_writes_stays_out_of_the_repository(tmp_path: Path) -> None:
    check(Snippet("page.md", 1, "bash", f"otelctx analyze {DEMO} --json report.json"), tmp_path)

    assert json.loads((tmp_path / "report.json").read_bytes())["schema"] == "otelctx.report/1"


def test_fences_are_found() -> None:
    text = "a\n```bash\nb\n```\n- c\n  ```python\n  d\n    e\n  ```\n~~~\nf\n~~~\n"

    assert [s[1:] for s in snippets_of("page.md", text)] == [
        (2, "bash", "b"),
        (6, "python", "d\n  e"),
        (10, "", "f"),
    ]


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("AGENTS.md", False),
        ("AGENTS.md#adding", False),
        ("#here-it-is", False),
        ("examples/", False),
        ("https://opentelemetry.io/", False),
        ("AGENTS.md#nowhere", True),
        ("#nowhere", True),
        ("nowhere.md", True),
        ("../outside.md", True),
        ("http://opentelemetry.io/", True),
    ],
)
def test_broken_links_are_seen(link: str, broken: bool) -> None:
    text = f"# Here: it is\n[a]({link}) and `[b](code.md)`\n```text\n[c](code.md)\n```\n"

    assert bool(broken_links("page.md", text)) == broken
    assert bool(broken_links("page.md", f'# Here: it is\n<img src="{link}">')) == broken
