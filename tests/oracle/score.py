"""What the report says of sessions whose truth is known: ``python -m tests.oracle.score --sessions 2000 --seed 1``.

A session is right where every call that lost names a right cause, no other call names one, and the tokens agree.
``--show N MUTATION`` prints one session call by call, ``--dump N MUTATION FILE`` writes its spans as OTLP/JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from otel_ctx.engine import Engine
from otel_ctx.outputs.report import Inputs, build
from tests.oracle import mutations
from tests.oracle.provider import Layouts, Unit, Usage, layouts, simulate
from tests.oracle.sessions import LONGEST, Call, Session
from tests.oracle.spans import Clothes, clothes_of, otlp, spans

FEW, SHARE = 64, 0.02  # tokens that may be missed, or of what was lost
EFFORT = 0.25  # of the prompt, where nothing is promised and only an upper bound can be told
_TEXT_CAUSES = frozenset({
    "volatile_prefix", "prefix_changed", "tools_changed", "tools_reordered", "tool_schema_key_order", "moved_segment",
    "compaction", "evicted_content", "provider_side_miss", "breakpoint_before_change", "lookback_exceeded",
})  # fmt: skip
_TAIL = frozenset({"missing_tail_breakpoint", "frozen_breakpoint"})
_TOO_SHORT = frozenset({"below_minimum", "no_cache_control"})
_UNSURE = frozenset({None, "unknown"})


@dataclass(frozen=True, slots=True)
class Truth:
    """Of one call: what it lost, and the names that are right for it. ``optional``: to say nothing is right too."""

    lost: int
    causes: frozenset[str | None]
    usage: Usage
    optional: bool = False


def truths(case: mutations.Case, clothes: Clothes) -> list[Truth]:
    """What each call lost: the same call in the session without the fault, and where nothing is a matter of time, read more.

    A loss that time alone explains is time's, one that the fault alone explains is the fault's, else either is right."""
    provider = case.sent.provider
    sent = layouts(case.sent)
    ideal = sent if case.ideal is case.sent else layouts(case.ideal)
    actual = simulate(case.sent, sent)
    timeless = simulate(case.sent, sent, no_expiry=True, at_once=True)
    faultless = simulate(case.ideal, ideal, no_drops=True)
    whole = layouts(case.ideal, remembers=True) if provider.forgets else ideal
    best = simulate(case.ideal, whole, no_expiry=True, at_once=True, no_drops=True, blind=True)
    told, remembered = sent, actual
    if provider.forgets:
        told = layouts(case.sent, remembers=True)
        remembered = simulate(case.sent, told)
    blind = simulate(case.sent, sent, blind=True) if provider.explicit else actual
    kept = cache(lambda: simulate(case.sent, sent, no_expiry=True))
    hurried = cache(lambda: simulate(case.sent, sent, at_once=True))
    first = {c.conversation: i for i, c in reversed(list(enumerate(case.sent.calls)))}
    said = []
    for i, call in enumerate(case.sent.calls):
        read = actual[i].read
        total = _resent(sent[i], read, whole[i], best[i].read)
        by_fault = _resent(sent[i], read, ideal[i], faultless[i].read)
        by_time = _resent(sent[i], read, sent[i], timeless[i].read)
        causes: set[str | None] = set()
        by_rule = set[str | None]()
        by_thinking = _resent(sent[i], read, told[i], remembered[i].read)
        by_image = _resent(sent[i], read, sent[i], blind[i].read)
        if by_thinking > FEW:
            by_rule.add("server_side_rewrite_suspected")
        if by_image > FEW:
            by_rule.add("parameters_changed")
        total = max(total, by_time, by_thinking, by_image)  # what came with the fault is sent again, too
        rest = total - max(by_thinking, by_image)
        if by_fault > FEW or (total > FEW and by_time <= FEW and (not by_rule or rest > FEW)):
            causes |= case.causes
            if by_fault <= FEW and not by_rule:
                also = _jointly(case.sent, sent, told, i) | _jointly(case.ideal, ideal, whole, i)
                causes = causes - {None} | also or causes
        causes |= by_rule
        if causes and not actual[i].minimum_met:
            causes |= _too_short(case, clothes)  # what is marked has become too short
        if by_time > FEW and case.causes != {"ttl_lost"}:
            expired, parallel = kept()[i].read, hurried()[i].read
            causes |= {"ttl_expired"} if expired >= parallel else set()
            causes |= {"parallel_miss"} if parallel >= expired else set()
        optional = first[call.conversation] == i and not _fanned_out(case, clothes)
        optional = optional or _untold(case.sent, i, clothes)
        timely = bool(causes) and causes <= {"ttl_expired", "parallel_miss", "provider_side_miss"}
        if timely and not provider.promised:
            optional = True
            causes.add("provider_side_miss")  # evicted at any time
        if causes == {"parallel_miss"} and not provider.explicit:
            optional = True  # when an entry can be read is not said
        said.append(Truth(total, frozenset(causes), actual[i], optional))
    return said


def _too_short(case: mutations.Case, clothes: Clothes) -> frozenset[str]:
    """Where a marker is on the span, nobody has left it out."""
    seen = clothes.dialect in ("marked", "openinference") and bool(case.spans.policy.places)
    return frozenset({"below_minimum"}) if seen else _TOO_SHORT


def _untold(session: Session, number: int, clothes: Clothes) -> bool:
    """Does nothing on the spans say what the call goes on from: no name of a conversation, and either no message of the one
    before it, or another call has gone on from there already?"""
    call = session.calls[number]
    before = [c for c in session.calls[:number] if c.conversation == call.conversation]
    if clothes.named or not before:
        return False
    last = _messages(before[-1])
    if not set(last) & set(_messages(call)):
        return True
    since = session.calls[session.calls.index(before[-1]) + 1 : number]
    return any(c.conversation != call.conversation and _messages(c)[: len(last)] == last for c in since)


def _messages(call: Call) -> list[tuple[str, str]]:
    return [(b.kind, b.text) for b in call.blocks if b.section == "messages"]


def _fanned_out(case: mutations.Case, clothes: Clothes) -> bool:
    """Is what new conversations lose to each other seen? Where markers are not shown, usage tells of the last one only."""
    shown = not case.sent.provider.explicit or clothes.dialect in ("marked", "openinference")
    return case.mutation == "parallel_miss" and shown


def _jointly(session: Session, sent: Layouts, told: Layouts, call: int) -> set[str | None]:
    """Two reasons at once, of which each alone would have cost it: to take one away gives nothing back."""
    perfect = simulate(session, told, no_expiry=True, at_once=True, no_drops=True, blind=True)[call].read
    alone = (
        ("ttl_expired", told, simulate(session, told, at_once=True, no_drops=True, blind=True)),
        ("parallel_miss", told, simulate(session, told, no_expiry=True, no_drops=True, blind=True)),
        ("parameters_changed", told, simulate(session, told, no_expiry=True, at_once=True, no_drops=True)),
        (
            "server_side_rewrite_suspected",
            sent,
            simulate(session, sent, no_expiry=True, at_once=True, no_drops=True, blind=True),
        ),
    )
    return {
        name
        for name, laid, usage in alone
        if _resent(laid[call], usage[call].read, told[call], perfect) > FEW
    }


def _resent(sent: list[Unit], read: int, ideal: list[Unit], ideal_read: int) -> int:
    """Tokens that were sent and not read, and that would have been in ``ideal``."""
    if ideal is sent:
        return max(ideal_read - read, 0)
    unread = sent[bisect_right(sent, read, key=lambda u: u.end) :]
    named = {u.uid for u in unread}
    would = {u.uid: min(ideal_read, u.end) - u.start for u in ideal if u.uid in named}
    lost = 0
    for unit in unread:
        could = min(would.get(unit.uid, 0), unit.end - unit.start)
        lost += max(could - max(read - unit.start, 0), 0)
    return lost


# ---- the report


@dataclass(slots=True)
class Result:
    seed: int
    mutation: str
    provider: str
    dialect: str
    lost: int
    said: int
    named: str  # the cause of most of the waste that the report names
    problems: list[str] = field(default_factory=list)

    @property
    def right_cause(self) -> bool:
        return not any(p.startswith(("cause", "claim")) for p in self.problems)

    @property
    def right_tokens(self) -> bool:
        return not any(p.startswith("tokens") for p in self.problems)

    @property
    def sound(self) -> bool:
        return not any(p.startswith("sum") for p in self.problems)


def run(case: mutations.Case, clothes: Clothes) -> tuple[list[dict[str, Any]], list[Truth]]:
    """The report's calls in the order of the session's, and the truth of each."""
    truth = truths(case, clothes)
    told = spans(case.spans, [t.usage for t in truth], clothes)
    engine = Engine()
    engine.feed(told)
    report = build(engine.close(), Inputs((), ()))
    by_id = {c["id"]: c for c in report["calls"]}
    return [by_id[f"{s.trace_id}:{s.span_id}"] for s in told if s.attributes], truth


def result(seed: int, mutation: str, longest: int = LONGEST) -> Result:
    case = mutations.case(seed, mutation, longest)
    clothes = clothes_of(case.spans)
    dialect = clothes.dialect
    case = replace(case, causes=case.causes | _unseen(case, clothes))
    calls, truth = run(case, clothes)
    waste: Counter[str] = Counter()
    said = 0
    for call in calls:
        for cause, lost in ((call["waste"] or {}).get("by_cause") or {}).items():
            waste[cause] += lost["tokens"]
        said += (call["waste"] or {}).get("tokens") or 0
    causes = Counter(c["cache"]["cause"] for c in calls if c["cache"]["cause"])
    named = waste.most_common(1)[0][0] if waste else causes.most_common(1)[0][0] if causes else "-"
    provider = case.spans.provider
    out = Result(
        seed, mutation, f"{provider.name}/{provider.model}", dialect, sum(t.lost for t in truth), said, named
    )
    for i, (call, true) in enumerate(zip(calls, truth, strict=True)):
        out.problems += [f"{kind}: call {i}: {text}" for kind, text in _sums(call)]
        out.problems += [
            f"{kind}: call {i}: {text}"
            for kind, text in (
                _textless(case, i, call) if dialect == "textless" else _compare(case, call, true)
            )
        ]
    return out


def _unseen(case: mutations.Case, clothes: Clothes) -> mutations.Cause:
    """Names that are right too, because nothing on the spans tells the fault from another."""
    if case.mutation == "ttl_lost" and not clothes.shows_lifetimes:
        return frozenset({"ttl_expired"})
    if case.mutation == "parameters_changed" and clothes.dialect != "openinference":
        return frozenset({"provider_side_miss", "unknown"})
    return frozenset()


def _tolerance(case: mutations.Case, lost: int, total: int) -> float:
    """What is read in steps is known to a step; where nothing is promised, to a bound. What a provider took out of the
    prompt is a difference of two large numbers, one of them counted with another tokenizer."""
    provider = case.sent.provider
    if case.mutation == "server_side_rewrite":
        return max(256, 0.15 * lost)
    if not provider.promised:
        return max(256, EFFORT * total)
    return max(FEW, provider.step if provider.step > 1 else 0, SHARE * lost)


def _marks_tail(case: mutations.Case) -> bool:
    return not case.spans.provider.explicit or "tail" in case.spans.policy.places


def _sums(call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    waste, cache = call["waste"], call["cache"]
    if waste is not None:
        if waste["tokens"] is not None and waste["tokens"] < 0:
            yield "sum", "waste below 0"
        parts = sum(c["tokens"] for c in waste["by_cause"].values())
        if parts != (waste["tokens"] or 0):
            yield "sum", f"by cause {parts}, waste {waste['tokens']}"
    best, told = cache["optimal"], cache["reported"]
    if best and told and not cache["cause"] and best["read"] < told["read"]:
        yield "sum", f"optimal {best['read']}, reported {told['read']}"


def _compare(case: mutations.Case, call: dict[str, Any], true: Truth) -> Iterator[tuple[str, str]]:
    cause, waste = call["cache"]["cause"], (call["waste"] or {}).get("tokens") or 0
    if cause in _TAIL and not case.causes & _TAIL and not _marks_tail(case):
        cause = None  # what the application never marked is a loss beside the fault's
    if not case.causes & _TAIL and not _marks_tail(case):
        by_cause = (call["waste"] or {}).get("by_cause") or {}
        waste -= sum(by_cause[c]["tokens"] for c in _TAIL if c in by_cause)
    may_miss = _tolerance(case, true.lost, true.usage.total)
    allowed = case.causes | true.causes | {None}
    if not true.usage.minimum_met:
        allowed |= _TOO_SHORT
    if true.optional:
        allowed |= {"unknown"}
    if true.lost > may_miss and not (true.optional and cause in _UNSURE):
        if cause not in true.causes:
            yield "cause", f"{cause}, right is {_names(true.causes)} ({waste} of {true.lost} tokens)"
        if cause in _TOO_SHORT and not _marks_tail(case):
            return  # what was never marked is lost beside it
        if abs(waste - true.lost) > may_miss:
            yield "tokens", f"{waste}, lost were {true.lost} ({cause})"
        return
    if waste > true.lost + may_miss and not (cause in _TOO_SHORT and not _marks_tail(case)):
        yield "tokens", f"{waste}, lost were {true.lost} ({cause})"
    if cause not in allowed and not (cause in _TAIL and not _marks_tail(case)):
        yield "claim", f"{cause} where {true.lost} were lost"


def _textless(case: mutations.Case, number: int, call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Without text only times and usage prove something."""
    cause = call["cache"]["cause"]
    own = case.spans.calls[number]
    if cause in _TEXT_CAUSES:
        yield "claim", f"{cause} without text"
    if cause == "model_switch" and not any(
        c.model != own.model for c in case.spans.calls if c.conversation == own.conversation
    ):
        yield "claim", "model_switch where no model changed"
    before = case.spans.calls[:number]
    if cause == "ttl_expired" and before and min(own.start - c.start for c in before) > 0:
        same = [c.start for c in before if c.conversation == own.conversation]
        if same and own.start - max(same) < 300:
            yield "claim", f"ttl_expired after {own.start - max(same):.0f} s"
    if cause == "parallel_miss" and not any(c.end > own.start for c in before):
        yield "claim", "parallel_miss where nothing ran beside it"


def _names(causes: frozenset[str | None]) -> str:
    return "|".join(sorted(str(c) for c in causes))


# ---- the table


def plan(sessions: int, seed: int) -> list[tuple[int, str]]:
    """Every fifth session has no fault; the others take the faults in turn."""
    faults = [n for n in mutations.names() if n != "none"]
    return [
        (seed * 1_000_000 + i, "none" if i % 5 == 0 else faults[(i - i // 5) % len(faults)])
        for i in range(sessions)
    ]


def _one(job: tuple[int, str], longest: int = LONGEST) -> Result:
    try:
        return result(*job, longest)
    except Exception as error:
        error.add_note("--show {} {}".format(*job))
        raise


def table(results: Sequence[Result]) -> str:
    lines = [
        f"{'mutation':28}{'n':>6}{'right':>7}{'wrong':>7}{'%':>7}{'tok ok':>8}{'error':>8}  named (wrong ones)"
    ]
    for mutation in sorted({r.mutation for r in results}):
        own = [r for r in results if r.mutation == mutation]
        right = sum(r.right_cause for r in own)
        tokens = sum(r.right_tokens for r in own)
        lost = sum(r.lost for r in own if r.dialect != "textless")
        error = sum(abs(r.said - r.lost) for r in own if r.dialect != "textless") / lost if lost else 0.0
        wrong = Counter(r.named for r in own if not r.right_cause)
        confusion = ", ".join(f"{name} {n}" for name, n in wrong.most_common(5))
        lines.append(
            f"{mutation:28}{len(own):6}{right:7}{len(own) - right:7}{100 * right / len(own):7.1f}"
            f"{100 * tokens / len(own):8.1f}{100 * error:7.1f}%  {confusion}"
        )
    n = len(results)
    right, tokens = sum(r.right_cause for r in results), sum(r.right_tokens for r in results)
    lines.append(f"{'all':28}{n:6}{right:7}{n - right:7}{100 * right / n:7.1f}{100 * tokens / n:8.1f}")
    lines.append(f"sums that do not hold: {sum(not r.sound for r in results)}")
    return "\n".join(lines)


def _say(text: object, *more: object) -> None:
    sys.stdout.write(" ".join(map(str, (text, *more))) + "\n")


def show(seed: int, mutation: str, longest: int = LONGEST) -> None:
    case = mutations.case(seed, mutation, longest)
    clothes = clothes_of(case.spans)
    provider = case.spans.provider
    _say(
        f"{mutation} {provider.name} {provider.model} {clothes} {case.spans.policy} scale {case.spans.world.scale:.3f}"
    )
    calls, truth = run(case, clothes)
    start = case.spans.calls[0].start
    for i, (sent, call, true) in enumerate(zip(case.spans.calls, calls, truth, strict=True)):
        cache, waste = call["cache"], call["waste"] or {}
        marks = [f"{n}{b.marker}" for n, b in enumerate(sent.blocks) if b.marker]
        _say(
            f"{i:3} c{sent.conversation}t{sent.turn} +{sent.start - start:8.1f}s blocks {len(sent.blocks)} {marks}\n"
            f"     sent {true.usage.total} read {true.usage.read} write {true.usage.write} "
            f"LOST {true.lost} {_names(true.causes)}{' (optional)' if true.optional else ''}\n"
            f"     said {call['relation']} {cache['outcome']} cause={cache['cause']} waste={waste.get('tokens')} "
            f"{ {k: v['tokens'] for k, v in (waste.get('by_cause') or {}).items()} } predicted={cache['predicted']} "
            f"optimal={cache['optimal']} break={cache['break']} {cache['evidence']} model={call['model']}"
        )
    for problem in result(seed, mutation, longest).problems:
        _say("  !", problem)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.score", description=__doc__)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--failing", type=int, default=15, help="how many failing sessions to name")
    parser.add_argument("--longest", type=int, default=LONGEST, help="turns of a conversation")
    parser.add_argument("--only", help="a mutation")
    parser.add_argument("--show", nargs=2, metavar=("SEED", "MUTATION"))
    parser.add_argument("--dump", nargs=3, metavar=("SEED", "MUTATION", "FILE"))
    options = parser.parse_args(arguments)
    if options.show:
        show(int(options.show[0]), options.show[1], options.longest)
        return 0
    if options.dump:
        seed, mutation = int(options.dump[0]), options.dump[1]
        case = mutations.case(seed, mutation, options.longest)
        told = spans(case.spans, simulate(case.sent, layouts(case.sent)), clothes_of(case.spans))
        Path(options.dump[2]).write_text(json.dumps(otlp(told)) + "\n", "utf-8")
        return 0
    jobs = plan(options.sessions, options.seed)
    if options.only:
        jobs = [(seed, options.only) for seed, _ in jobs]
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            results = list(pool.map(partial(_one, longest=options.longest), jobs, chunksize=20))
    else:
        results = [_one(job, options.longest) for job in jobs]
    _say(table(results))
    failing = [r for r in results if r.problems]
    for r in failing[: options.failing]:
        _say(f"--show {r.seed} {r.mutation}  ({r.provider}, {r.dialect}): {'; '.join(r.problems[:3])}")
    return int(any(r.problems for r in results))


if __name__ == "__main__":
    sys.exit(main())
