"""What only the whole of a dump can say: content sent several times, tools that nobody called, lifetimes paid for in vain.

Asked once, at the end of a dump; a process that lives on never knows that nothing more will come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise

from otel_ctx.findings.marking import marking_of
from otel_ctx.findings.step import named
from otel_ctx.model import SECOND, Call, Finding, Reading, Segment

Text = Callable[[str], str | None]
Longer = Callable[[Call], tuple[int, float, float] | None]
"""Seconds that the shorter lifetime lives, and USD per million written tokens by the shorter and by the longer one."""

_DUPLICATED = ("tool_result", "user", "assistant", "system")
_LONG = 200  # characters; shorter texts are alike by chance
_ALIKE = 0.85  # Jaccard over shingles of five words
_SHINGLE = 5
_MOST = 200  # segments of one request that are compared
FEW_CALLS = 3  # before a tool is dead, or a lifetime too long
_LISTED = 8


def hindsight(readings: Sequence[Reading], text: Text, longer: Longer) -> Iterator[Finding]:
    conversations: dict[str, list[Reading]] = defaultdict(list)
    for r in readings:
        conversations[r.conversation].append(r)
    yield from _duplicates(conversations, text)
    yield from _dead_tools(conversations, text)
    for calls in conversations.values():
        yield from _overpaid(calls, longer)


# ---- duplicates


def _duplicates(conversations: Mapping[str, Sequence[Reading]], text: Text) -> Iterator[Finding]:
    """In the last request of each conversation; the same group at the same places in several conversations is said once."""
    found: dict[object, tuple[list[Segment], list[str]]] = {}
    for calls in conversations.values():
        last = calls[-1].call
        for group in _groups(last, text):
            name = last.service, last.agent, *((s.digest, s.path, s.tokens) for s in group)
            found.setdefault(name, (group, []))[1].append(last.id)
    for group, ids in found.values():
        each = sum(s.tokens or 0 for s in group) / len(group)
        kind = group[0].kind.replace("_", " ")
        same = len({s.digest for s in group}) == 1
        paths = ", ".join(s.path for s in group[:_LISTED])
        more = f" and {len(group) - _LISTED} more" if len(group) > _LISTED else ""
        each_of = f", in the last request of each of {len(ids):,} conversations" if len(ids) > 1 else ""
        yield Finding(
            kind="duplicate_content",
            severity="info",
            title=f"The same {kind} stands in the prompt {len(group)} times"
            if same
            else f"{len(group)} parts of the prompt are nearly the same",
            detail=f"{paths}{more}{each_of}.",
            fix="Send it once: let later messages refer to it, or take the older copies out when the history is compacted.",
            calls=tuple(ids),
            path=group[1].path,
            tokens=round(each * (len(group) - 1)),
        )


def _groups(call: Call, text: Text) -> Iterator[list[Segment]]:
    if call.completeness.status not in ("full", "partial"):
        return
    long = [s for s in call.prompt if s.kind in _DUPLICATED and s.bytes >= _LONG and not s.inferred]
    long = sorted(long, key=lambda s: -s.bytes)[:_MOST]
    groups: list[list[Segment]] = []
    by_digest: dict[str, list[Segment]] = {}
    for s in long:
        if s.digest in by_digest:
            by_digest[s.digest].append(s)
        else:
            by_digest[s.digest] = group = [s]
            groups.append(group)
    for a, b in _alike(groups, text):
        a += b
        b.clear()
    for group in groups:
        if len(group) > 1:
            yield sorted(group, key=_order(call))


def _order(call: Call) -> Callable[[Segment], int]:
    places = {id(s): i for i, s in enumerate(call.prompt)}
    return lambda s: places[id(s)]


def _alike(groups: list[list[Segment]], text: Text) -> Iterator[tuple[list[Segment], list[Segment]]]:
    """Pairs of groups of nearly equal texts. Sets of words are compared far sooner than shingles, and only where the two
    share one of their rarest words: sets that are so much alike must (prefix filtering). A text of which too much stands in
    no other one is like none."""
    words = [tuple((text(g[0].digest) or "").split()) for g in groups]
    sets = [frozenset(w) for w in words]
    often = Counter(chain.from_iterable(sets))
    rank = {word: n * len(often) + i for i, (word, n) in enumerate(often.items())}
    known: dict[str, list[int]] = defaultdict(list)
    shingles = cache(lambda i: frozenset(zip(*(words[i][n:] for n in range(_SHINGLE)), strict=False)))
    for i, own in enumerate(sets):
        few = int((1 - _ALIKE) * len(own))
        if list(map(often.__getitem__, own)).count(1) > few:
            continue
        rarest = sorted(own, key=rank.__getitem__)[: few + 1]
        for j in sorted(set().union(*(known[word] for word in rarest))):
            if groups[j] and _are_alike(own, sets[j]) and _are_alike(shingles(i), shingles(j)):
                yield groups[j], groups[i]
                break
        else:
            for word in rarest:
                known[word].append(i)


def _are_alike(a: frozenset[object], b: frozenset[object]) -> bool:
    """By Jaccard: what both hold, of what either holds."""
    if not a or not _ALIKE <= len(b) / len(a) <= 1 / _ALIKE:
        return False
    both = len(a & b)
    return both >= _ALIKE * (len(a) + len(b) - both)


# ---- tools that nobody calls


def _dead_tools(conversations: Mapping[str, Sequence[Reading]], text: Text) -> Iterator[Finding]:
    """Definitions that an agent sent with every call, and no call, answer or result ever named."""
    agents: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for calls in conversations.values():
        for r in calls:
            agents[r.call.service, r.call.agent].append(r)
    for calls in agents.values():
        if any(r.call.completeness.status != "full" for r in calls):
            continue  # what was not seen may have called them
        served = (r for r in calls if r.call.status == "ok" or r.call.usage.input is not None)
        seen = [r for r in served if r.call.prompt.tools]  # what was refused is not billed
        if len(seen) < FEW_CALLS:
            continue
        sections = {id(r.call.prompt.tools): r.call.prompt.tools for r in seen}  # most are the very same one
        mentioned = _mentioned(calls, text)
        unused = {
            n
            for n in {tool.name for tools in sections.values() for tool in tools}
            if n and n not in mentioned and not any(n in t for t in mentioned)
        }
        if not unused:
            continue
        sent: dict[str, list[Segment]] = defaultdict(list)
        for r in seen:
            for tool in r.call.prompt.tools:
                if tool.name in unused:
                    sent[tool.name].append(tool)
        dead = {n: s for n, s in sent.items() if len(s) >= FEW_CALLS}
        if not dead:
            continue
        tokens = sum(t.tokens or 0 for tools in dead.values() for t in tools)
        names = sorted(dead, key=lambda n: -sum(t.tokens or 0 for t in dead[n]))
        ids = tuple(r.call.id for r in seen if any(t.name in dead for t in r.call.prompt.tools))
        each = round(tokens / len(ids))
        listed = ", ".join(_where(dead[n]) for n in names[:_LISTED])
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield Finding(
            kind="dead_tool_schema",
            severity="info",
            title="Tools were sent and never called" if len(dead) > 1 else "A tool was sent and never called",
            detail=f"{listed}{more}: about {each:,} tokens in each of {len(ids):,} calls.",
            fix="Leave out what the agent does not need, or put it behind a tool that searches for tools.",
            calls=ids,
            path=_one_place(dead[names[0]]),
            tokens=tokens,
        )


def _one_place(tools: Sequence[Segment]) -> str:
    """Where a definition stands, if that is the same in every call."""
    return tools[-1].path if len({t.path for t in tools}) == 1 else ""


def _where(tools: Sequence[Segment]) -> str:
    """``tools[2] (lookup)``; the name alone where the place is another one in other calls."""
    told, path = named(tools[-1]), tools[-1].path
    return told if _one_place(tools) or told == path else tools[-1].name


def _mentioned(calls: Sequence[Reading], text: Text) -> set[str]:
    """Names of called tools, and what the model and the tools said."""
    last = {r.conversation: r.call for r in calls}
    names: set[str] = set()
    digests: set[str] = set()
    for r in calls:
        for s in r.call.answer:
            if s.kind == "tool_call":
                names.add(s.name)
            else:
                digests.add(s.digest)
    for call in last.values():
        for s in call.prompt.messages:
            if s.kind == "tool_call":
                names.add(s.name)
            elif s.kind in ("assistant", "tool_result"):
                digests.add(s.digest)
    return names.union(text(digest) or "" for digest in digests)


# ---- a lifetime that was not needed


def _overpaid(calls: Sequence[Reading], longer: Longer) -> Iterator[Finding]:
    """The longer lifetime was paid for, and every pause was shorter than the shorter one lasts."""
    written = [r for r in calls if r.call.usage.cache_write_1h]
    if len(calls) < FEW_CALLS or not written:
        return
    known = longer(written[0].call)
    if known is None:
        return
    seconds, short, long = known
    starts = sorted(r.call.start_unix_nano for r in calls)
    if not starts[0] or any(b - a > seconds * SECOND for a, b in pairwise(starts)):
        return
    tokens = sum(r.call.usage.cache_write_1h or 0 for r in written)
    again = sum(map(_written_again, written))
    longest = max((b - a) / SECOND for a, b in pairwise(starts))
    yield Finding(
        kind="ttl_overpaid",
        severity="warning",
        title="A longer cache lifetime was paid for and not needed",
        detail=(
            f"{tokens:,} tokens were written for an hour, and no pause was longer than {longest:,.0f} s: the usual lifetime "
            f"of {seconds // 60} minutes, which every read renews, would have done."
            + (f" The price of {again:,} of them is told where they were billed again." if again else "")
        ),
        fix=f"{marking_of(written[0].call).shorter}; an hour is for longer pauses only.",
        calls=tuple(r.call.id for r in written),
        tokens=tokens,
        usd=(tokens - again) * (long - short) / 1_000_000 if long > short else None,
        evidence="reported",
    )


def _written_again(r: Reading) -> int:
    """Of the tokens that were written for an hour, those that another finding bills, with all that their write cost above a
    read."""
    usage = r.call.usage
    write = usage.cache_write or 0
    lost = min(write, sum(n for _, n in r.losses))
    return round(lost * (usage.cache_write_1h or 0) / write) if write else 0
