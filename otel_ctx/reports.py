"""Dumps in, a report out: the library's front door, and what every command does first.

    report = otel_ctx.analyze("dump.jsonl", agent="planner")
    for finding in report.findings: ...
    Path("report.json").write_text(report.to_json())

In a notebook a report shows itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from otel_ctx.context import Limits
from otel_ctx.engine import Engine, Settings
from otel_ctx.errors import OtelCtxError
from otel_ctx.inputs import Batch, Skipped, Store, read
from otel_ctx.model import Analysis, Conversation, Finding, NotChecked, Reading
from otel_ctx.outputs.report import Inputs, Source
from otel_ctx.outputs.views.gates import Verdict, gates_of, judge
from otel_ctx.outputs.views.names import held_back
from otel_ctx.outputs.views.selection import Selection, select
from otel_ctx.outputs.views.summary import Summary, summary

if TYPE_CHECKING:
    from otel_ctx.outputs.views.sides import Difference

Paths = str | Path | Iterable[str | Path]
Names = str | Iterable[str]
Through = Callable[[Iterator[Batch]], Iterable[Batch]]
_NO_LIMITS: Mapping[str, int] = {}
_NO_MODELS: Mapping[str, str] = {}


@dataclass(frozen=True, eq=False)
class Report:
    """What was found in some dumps. Nothing in it is computed anew but what it is asked for.

    Prompt texts are in it, and leave it only where ``include_text`` or ``show_text`` asks for them."""

    analysis: Analysis
    inputs: Inputs = field(default_factory=lambda: Inputs((), ()))

    @property
    def calls(self) -> tuple[Reading, ...]:
        """What is said of each request to a model, in the order of their starts."""
        return self.analysis.readings

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """In the order of their first calls."""
        return self.analysis.conversations

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The most severe first."""
        return self.analysis.findings

    @property
    def not_checked(self) -> tuple[NotChecked, ...]:
        """What no verdict is given on, and why."""
        return self.analysis.not_checked

    @cached_property
    def totals(self) -> Summary:
        """Tokens, cache and money over all calls."""
        return summary("", self.calls)

    def select(
        self,
        *,
        conversation: Names = (),
        agent: Names = (),
        turn: int | Names = (),
        trace: Names = (),
        service: Names = (),
        model: Names = (),
        since: str = "",
    ) -> Report:
        """The same, of some calls only. Raises SettingError where there are none."""
        turns = str(turn) if isinstance(turn, int) else turn
        selection = Selection(
            _names(conversation),
            _names(agent),
            _names(turns),
            _names(trace),
            _names(service),
            _names(model),
            since,
        )
        return replace(self, analysis=select(self.analysis, selection))

    def diff(self, old: str, new: str) -> Difference:
        """What became of one prompt in another: ``1:7`` (conversation:turn), ``:7`` where there is one conversation, or a
        whole conversation or agent, as `otelctx diff` takes them. Raises SettingError where there is no such side."""
        from otel_ctx.outputs.views.sides import difference, side

        return difference(side(self.analysis, old), side(self.analysis, new), self.text)

    def check(self, **gates: float | bool | None) -> tuple[Verdict, ...]:
        """A verdict for each of ``gates``, which are the fields of ``otel_ctx.outputs.views.gates.Gates``:
        ``report.check(max_context=60_000, stable_prefix=True)``. Raises SettingError for one that is not known."""
        return judge(self.analysis, self.analysis, gates_of(gates), len(self.inputs.skipped))

    def text(self, digest: str) -> str | None:
        """A segment's text by its digest; None where it is not kept."""
        return self.analysis.text(digest)

    def held_back(self) -> Report:
        """The same with a digest where a name of a service, an agent or a model has not the form of one, or is a piece of
        a prompt: what is shown wherever no prompt text may be."""
        return replace(self, analysis=held_back(self.analysis))

    # ---- as something to read

    def to_dict(self, *, include_text: bool = False) -> dict[str, Any]:
        """Schema ``otelctx.report/1``, as docs/report.md describes it."""
        from otel_ctx.outputs.report import build

        return build(self.analysis, self.inputs, include_text=include_text)

    def to_json(self, *, include_text: bool = False, pretty: bool = False) -> str:
        """The same as JSON."""
        from otel_ctx.outputs.report import dumps

        return dumps(self.to_dict(include_text=include_text), pretty=pretty).decode()

    def to_md(self, *, include_text: bool = False) -> str:
        """A summary in Markdown, short enough for a comment on a pull request."""
        from otel_ctx.outputs.markdown import render

        return render(self.analysis, self.inputs, include_text=include_text)

    def to_html(self, *, redact: bool = False, title: str = "") -> str:
        """The interactive report: one file that asks nothing of any server. Prompt texts are in it unless ``redact``."""
        page: bytes = _drawing("html", "render")(self.analysis, self.inputs, redact=redact, title=title)
        return page.decode()

    def to_svg(self) -> str:
        """A picture of the costliest conversation, without prompt text."""
        picture: bytes = _drawing("svg", "draw")(self.analysis)
        return picture.decode()

    def to_text(
        self, width: int = 80, colour: bool = False, *, verbose: int = 0, show_text: bool = True
    ) -> str:
        """What ``otelctx analyze`` prints; ``colour``: with the codes of a terminal."""
        from otel_ctx.outputs.text import plain, render
        from otel_ctx.outputs.text.ansi import coloured

        drawn = coloured if colour else plain
        lines = render(self.analysis, self.inputs, width=width, verbose=verbose, show_text=show_text)
        return "".join(drawn(line) + "\n" for line in lines)

    def __repr__(self) -> str:
        return f"<Report: {len(self.calls)} calls, {len(self.conversations)} conversations, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        from otel_ctx.outputs.notebook import render

        return render(self.analysis)


def _drawing(module: str, function: str) -> Callable[..., Any]:
    name = f"otel_ctx.outputs.{module}"
    try:
        found: Callable[..., Any] = getattr(import_module(name), function)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise OtelCtxError(f"this build of otel_ctx cannot write {module.upper()}") from None
    return found


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def analyze(
    paths: Paths,
    *,
    format: str | None = None,  # noqa: A002  (the word of the command's option)
    contents: Sequence[str | Path] = (),
    limits: Mapping[str, int] = _NO_LIMITS,
    models: Mapping[str, str] = _NO_MODELS,
    ignore: Iterable[str] = (),
    rules: str | None = None,
    conversation: Names = (),
    agent: Names = (),
    turn: int | Names = (),
    trace: Names = (),
    service: Names = (),
    model: Names = (),
    since: str = "",
) -> Report:
    """Read dumps (files, folders, "-") and say what fills the window, how soon it is full and why the cache missed.

    ``format``: of all paths, else told by the content; ``contents``: folders of what records only refer to;
    ``limits``: model -> window in tokens; ``models``: deployment -> model; ``ignore``: finding kinds; ``rules``: TOML over
    the tables. The others narrow the report, as ``Report.select`` does. Raises InputError, RulesError, SettingError."""
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    settings = Settings(
        limits=Limits(windows=limits, models=models), ignore=frozenset(ignore), rules_override=rules
    )
    whole = report_of(listed, settings, format_=format, contents=contents)
    return whole.select(
        conversation=conversation,
        agent=agent,
        turn=turn,
        trace=trace,
        service=service,
        model=model,
        since=since,
    )


def report_of(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    format_: str | None = None,
    contents: Sequence[str | Path] = (),
    stdin: BinaryIO | None = None,
    through: Through = lambda batches: batches,
) -> Report:
    """What ``paths`` hold. References are followed into their folders and into those of ``contents``; ``through`` sees
    the batches go by."""
    store = Store([*contents, *_folders(paths)])
    engine = Engine(replace(settings, contents=store.fetch))
    sources: dict[str, Source] = {}
    skipped: list[tuple[str, Skipped]] = []
    for batch in through(read(paths, format=format_, stdin=stdin or sys.stdin.buffer)):
        engine.feed(batch.spans, batch.logs)
        skipped += [(batch.source, s) for s in batch.skipped]
        known = sources.get(batch.source)
        sources[batch.source] = Source(
            batch.source,
            batch.format or (known.format if known else ""),
            len(batch.spans) + (known.spans if known else 0),
            len(batch.logs) + (known.log_records if known else 0),
        )
    # no telemetry of its own, but read all the same: a record referred to it
    referred = {source for source in sources if _is_used(source, store.used)}
    engine.forget(referred)
    left = [(source, s) for source, s in skipped if source not in referred]
    damaged = {source for source, s in left if not s.foreign or _holds_records(sources[source])}
    inputs = Inputs(
        tuple(s for s in sources.values() if s.path not in referred),
        tuple((s.where, s.why) for source, s in left if source in damaged),
        tuple({source: s.why for source, s in reversed(left) if source not in damaged}.items())[::-1],
    )
    return Report(engine.close(), inputs)


def _holds_records(source: Source) -> bool:
    return bool(source.spans or source.log_records)


def _is_used(source: str, used: set[Path]) -> bool:
    return bool(used) and Path(source).resolve() in used


def _folders(paths: Iterable[str | Path]) -> Iterator[Path]:
    for path in paths:
        if str(path) not in ("", "-"):
            yield Path(path) if Path(path).is_dir() else Path(path).parent
