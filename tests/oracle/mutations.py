"""One fault a session, at a known place. Each gives the session as it was sent and the same session without the fault.

The two differ in the fault alone, call by call, so what the fault cost is what the caches of ``provider`` say of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.oracle.sessions import (
    LONGEST,
    Block,
    Call,
    Fits,
    Maker,
    Policy,
    Session,
    Unfit,
    anyone,
    fan_out,
    make,
    mark,
)

Cause = frozenset[str | None]


@dataclass(frozen=True, slots=True)
class Case:
    """``spans``: what the application sent; ``sent``: what stood before the model (the same, unless the provider changed
    it); ``ideal``: without the fault. ``causes``: the names that are right for what the fault cost."""

    mutation: str
    spans: Session
    sent: Session
    ideal: Session
    causes: Cause


Mutate = Callable[[Session, Random, Maker], Case]
_MUTATIONS: dict[str, tuple[Mutate, bool, Fits]] = {}


def _mutation(name: str, *, calm: bool = True, fits: Fits = anyone) -> Callable[[Mutate], Mutate]:
    def known(mutate: Mutate) -> Mutate:
        _MUTATIONS[name] = (mutate, calm, fits)
        return mutate

    return known


def names() -> tuple[str, ...]:
    return tuple(_MUTATIONS)


def case(seed: int, mutation: str, longest: int = LONGEST) -> Case:
    """The case of ``seed``: where its first session has no place for the fault, the next one that has."""
    for attempt in range(2_000):
        mutate, calm, fits = _MUTATIONS[mutation]
        try:
            session, rng, maker = make(seed * 1000 + attempt, calm=calm, longest=longest, fits=fits)
            made = mutate(replace(session, seed=seed), rng, maker)
        except Unfit:
            continue
        return replace(made, mutation=mutation)
    raise AssertionError(f"{mutation}: no session fits")


# ---- helpers


Change = Callable[[Block, Call], Block]


def _case(spans: Session, ideal: Session, *causes: str | None, sent: Session | None = None) -> Case:
    marked = mark(spans)
    best = marked if ideal is spans else mark(ideal)
    return Case("", marked, mark(sent) if sent is not None else marked, best, frozenset(causes))


def _main(session: Session) -> list[Call]:
    return [c for c in session.calls if c.conversation == 0]


def _place(session: Session, rng: Random, least: int = 1) -> int:
    """A turn of the first conversation that is not its first."""
    turns = len(_main(session))
    if turns <= least:
        raise Unfit
    return rng.randint(least, turns - 1)


def _of_main(session: Session, change: Callable[[Call], Call]) -> Session:
    return replace(session, calls=tuple(change(c) if c.conversation == 0 else c for c in session.calls))


def _blocks(session: Session, change: Callable[[Call], tuple[Block, ...]]) -> Session:
    return _of_main(session, lambda c: replace(c, blocks=change(c)))


def _swap(call: Call, uid: str, text: str) -> tuple[Block, ...]:
    return tuple(replace(b, text=text) if b.uid == uid else b for b in call.blocks)


def _insert(text: str, said: str, rng: Random, place: str) -> str:
    if place == "start":
        return f"{said}\n{text}"
    if place == "end":
        return f"{text}\n{said}"
    cut = text.find(". ", rng.randrange(max(len(text) - 200, 1)))
    return f"{text[: cut + 1]} {said} {text[cut + 1 :]}" if cut > 0 else f"{text}\n{said}"


def _system(session: Session, rng: Random) -> Block:
    return rng.choice([b for b in _main(session)[0].blocks if b.section == "system"])


def _tools(session: Session) -> list[Block]:
    return [b for b in _main(session)[0].blocks if b.section == "tools"]


def _marks(maker: Maker) -> bool:
    return maker.provider.explicit


# ---- nothing


@_mutation("none", calm=False)
def _none(session: Session, rng: Random, maker: Maker) -> Case:
    return _case(session, session, None)


# ---- content that changes


def _volatile(kind: str) -> Callable[[int, Call, Random], str]:
    def say(turn: int, call: Call, rng: Random) -> str:
        if kind == "time":
            second = int(call.start) % 86_400
            return f"Current time: 2026-11-30T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
        if kind == "uuid":
            h = f"{rng.getrandbits(128):032x}"
            return f"Request id: {h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
        if kind == "counter":
            return f"Requests so far in this session: {turn + 17}"
        return f"Build fingerprint {rng.getrandbits(160):040x}"

    return say


def _volatile_in(kind: str, section: str) -> Mutate:
    def mutate(session: Session, rng: Random, maker: Maker) -> Case:
        if section == "system":
            block = _system(session, rng)
        else:
            block = rng.choice(_tools(session))
        place = rng.choice(("start", "middle", "end"))
        say, cut = _volatile(kind), rng.getrandbits(32)
        main = _main(session)
        if len({int(c.start) for c in main}) < len(main):
            raise Unfit  # two calls within one second: the time would not have changed
        lines = [say(c.turn, c, rng) for c in main]

        def text(line: str) -> str:
            if section == "system":
                return _insert(block.text, line, Random(cut), place)
            definition = json.loads(block.text)
            definition["description"] = _insert(definition["description"], line, Random(cut), place)
            return json.dumps(definition)

        spans = _blocks(session, lambda c: _swap(c, block.uid, text(lines[c.turn])))
        ideal = _blocks(session, lambda c: _swap(c, block.uid, text(lines[0])))
        return _case(spans, ideal, "volatile_prefix")

    return mutate


for _kind in ("time", "uuid", "counter", "hash"):
    _mutation(f"volatile_{_kind}_system")(_volatile_in(_kind, "system"))
    _mutation(f"volatile_{_kind}_tool")(_volatile_in(_kind, "tools"))


@_mutation("system_edit")
def _system_edit(session: Session, rng: Random, maker: Maker) -> Case:
    at, block = _place(session, rng), _system(session, rng)
    text = _insert(block.text, maker.text(rng.randint(4, 30)), rng, rng.choice(("start", "middle", "end")))
    spans = _blocks(session, lambda c: _swap(c, block.uid, text) if c.turn >= at else c.blocks)
    return _case(spans, session, "prefix_changed")


@_mutation("message_edit")
def _message_edit(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng, 2)
    old = [
        b
        for b in _main(session)[at - 1].blocks
        if b.section == "messages" and b.kind in ("text", "tool_result")
    ]
    block = rng.choice(old[: max(len(old) // 2, 1)])
    text = _insert(block.text, maker.text(rng.randint(4, 12)), rng, rng.choice(("start", "middle", "end")))
    spans = _blocks(session, lambda c: _swap(c, block.uid, text) if c.turn >= at else c.blocks)
    return _case(spans, session, "prefix_changed")


@_mutation("tools_reordered")
def _tools_reordered(session: Session, rng: Random, maker: Maker) -> Case:
    tools = _tools(session)
    at, often = _place(session, rng), rng.random() < 0.4
    orders = {t: rng.sample(tools, len(tools)) for t in range(len(_main(session)))}
    if orders[at] == tools:
        raise Unfit

    def blocks(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        return (*orders[call.turn if often else at], *(b for b in call.blocks if b.section != "tools"))

    return _case(_blocks(session, blocks), session, "tools_reordered")


@_mutation("schema_key_order")
def _schema_key_order(session: Session, rng: Random, maker: Maker) -> Case:
    at, block = _place(session, rng), rng.choice(_tools(session))
    definition = json.loads(block.text)
    parameters = definition["parameters"]
    if rng.random() < 0.5 and len(parameters["properties"]) > 1:
        parameters["properties"] = dict(reversed(parameters["properties"].items()))
    else:
        definition["parameters"] = dict(reversed(parameters.items()))
    text = json.dumps(definition)
    spans = _blocks(session, lambda c: _swap(c, block.uid, text) if c.turn >= at else c.blocks)
    return _case(spans, session, "tool_schema_key_order")


@_mutation("tools_added")
def _tools_added(session: Session, rng: Random, maker: Maker) -> Case:
    at, new = _place(session, rng), maker.tool("added_tool")
    where = rng.randint(0, len(_tools(session)))
    spans = _blocks(
        session, lambda c: (*c.blocks[:where], new, *c.blocks[where:]) if c.turn >= at else c.blocks
    )
    return _case(spans, session, "tools_changed")


@_mutation("tools_removed")
def _tools_removed(session: Session, rng: Random, maker: Maker) -> Case:
    at, gone = _place(session, rng), rng.choice(_tools(session))
    spans = _blocks(
        session, lambda c: tuple(b for b in c.blocks if b.uid != gone.uid) if c.turn >= at else c.blocks
    )
    return _case(spans, session, "tools_changed")


@_mutation("tool_edited")
def _tool_edited(session: Session, rng: Random, maker: Maker) -> Case:
    at, block = _place(session, rng), rng.choice(_tools(session))
    definition = json.loads(block.text)
    definition["description"] = _insert(definition["description"], maker.text(rng.randint(4, 12)), rng, "end")
    text = json.dumps(definition)
    spans = _blocks(session, lambda c: _swap(c, block.uid, text) if c.turn >= at else c.blocks)
    return _case(spans, session, "tools_changed")


@_mutation("tools_and_system")
def _tools_and_system(session: Session, rng: Random, maker: Maker) -> Case:
    """Both at once: tools in another order or one more of them, and a clock in the system prompt or a change of it."""
    at, block, tools = _place(session, rng), _system(session, rng), _tools(session)
    often = rng.random() < 0.5
    adds, new = not often and rng.random() < 0.5, maker.tool("added_tool")
    orders = {t: rng.sample(tools, len(tools)) for t in range(len(_main(session)))}
    if not adds and orders[at] == tools:
        raise Unfit
    say = _volatile("time") if often else lambda turn, call, rng: "From now on answer in one sentence."
    place, cut = rng.choice(("start", "middle", "end")), rng.getrandbits(32)

    def blocks(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        own = (*tools, new) if adds else orders[call.turn if often else at]
        text = _insert(block.text, say(call.turn, call, rng), Random(cut), place)
        return (*own, *(b for b in _swap(call, block.uid, text) if b.section != "tools"))

    return _case(
        _blocks(session, blocks),
        session,
        *("tools_changed" if adds else "tools_reordered", "volatile_prefix", "prefix_changed"),
    )


@_mutation("moved_reminder")
def _moved_reminder(session: Session, rng: Random, maker: Maker) -> Case:
    """A reminder that stood in the first message stands in the newest one from some call on."""
    at = _place(session, rng, 2)
    first = next(b for b in _main(session)[0].blocks if b.section == "messages")
    reminder = replace(maker.user(rng.randint(20, 200)), message=first.message)

    def home(call: Call) -> tuple[Block, ...]:
        i = call.blocks.index(first)
        return (*call.blocks[: i + 1], reminder, *call.blocks[i + 1 :])

    newest: dict[int, int] = {}
    for call in _main(session):
        newest[call.turn] = call.blocks[-1].message

    def moved(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return home(call)
        i = next(i for i, b in enumerate(call.blocks) if b.message == newest[at])
        end = next(
            (j for j in range(i, len(call.blocks)) if call.blocks[j].message != newest[at]), len(call.blocks)
        )
        own = replace(reminder, message=newest[at])
        return (*call.blocks[:end], own, *call.blocks[end:])

    if any(b.kind == "tool_result" and not session.provider.explicit for b in _at(session, at).blocks[-1:]):
        raise Unfit  # a text in a tool's message is no message of these providers
    return _case(_blocks(session, moved), _blocks(session, home), "moved_segment")


def _at(session: Session, turn: int) -> Call:
    return next(c for c in _main(session) if c.turn == turn)


@_mutation("evicted_front")
def _evicted_front(session: Session, rng: Random, maker: Maker) -> Case:
    """A window over the history that keeps some messages, from a user's words on."""
    at = _place(session, rng, 4)
    rolling, keep = rng.random() < 0.4, rng.randint(3, 9)
    starts: dict[int, int] = {}
    for call in _main(session):
        own = [b for b in call.blocks if b.section == "messages"]
        users = sorted({b.message for b in own if b.role == "user" and b.kind == "text"})
        numbers = sorted({b.message for b in own})
        wanted = numbers[max(len(numbers) - keep, 0)]
        starts[call.turn] = next((m for m in users if m >= wanted), users[-1])
    if starts[at] == min(b.message for b in _at(session, at).blocks if b.section == "messages"):
        raise Unfit
    for turn in range(at, len(starts) if rolling else at + 1):
        sent = [b for b in _at(session, turn - 1).blocks if b.section == "messages"]
        if sum(b.message >= starts[turn] for b in sent) < 2:
            raise Unfit  # nothing of the history is left: that is another conversation

    def kept(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        start = starts[call.turn] if rolling else starts[at]
        return tuple(b for b in call.blocks if b.section != "messages" or b.message >= start)

    return _case(_blocks(session, kept), session, "prefix_changed", "evicted_content")


@_mutation("compaction")
def _compaction(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng, 4)
    call = _at(session, at)
    users = sorted({b.message for b in call.blocks if b.role == "user" and b.kind == "text"})
    start = users[-1] if rng.random() < 0.5 or len(users) < 3 else users[-2]
    if start == users[0]:
        raise Unfit
    summary = replace(
        maker.user(rng.randint(60, 200)),
        message=users[0],
        text="This session is being continued from a previous conversation. Summary: "
        + maker.text(rng.randint(60, 200)),
    )
    reply = Block(
        maker.uid("said"), "messages", "text", "assistant", users[0] + 1, "Understood. I continue from here."
    )

    def compacted(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        head = tuple(b for b in call.blocks if b.section != "messages")
        return (
            *head,
            summary,
            reply,
            *(b for b in call.blocks if b.section == "messages" and b.message >= start),
        )

    return _case(_blocks(session, compacted), session, "compaction")


# ---- the request's other parts


@_mutation("model_switch")
def _model_switch(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng)
    other = session.provider.other_model
    spans = _of_main(session, lambda c: replace(c, model=other) if c.turn >= at else c)
    return _case(spans, session, "model_switch")


@_mutation("parameters_changed")
def _parameters_changed(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng)
    if session.provider.explicit:
        if session.provider.name == "bedrock":
            raise Unfit  # Converse's spans name none of them
        new: dict[str, Any] = rng.choice(
            ({"tool_choice": {"type": "any"}}, {"thinking": {"type": "enabled", "budget_tokens": 2048}})
        )
    elif session.provider.span_name == "openai":
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
        new = rng.choice((
            {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}},
            {"reasoning_effort": "high"},
        ))  # fmt: skip
        if "reasoning_effort" in new and session.provider.model.startswith("gpt-4"):
            raise Unfit
    else:
        raise Unfit
    spans = _of_main(session, lambda c: replace(c, params=new) if c.turn >= at else c)
    return _case(spans, session, "parameters_changed")


@_mutation("image_added", fits=_marks)
def _image_added(session: Session, rng: Random, maker: Maker) -> Case:
    """An image in the newest message. On the providers with markers the messages before it are lost."""
    if any(b.kind == "image" for c in session.calls for b in c.blocks):
        raise Unfit
    at = _place(session, rng)
    host = _at(session, at).blocks[-1]
    if host.kind != "text":
        raise Unfit
    image = maker.image(host.message)

    def shown(call: Call) -> tuple[Block, ...]:
        if host not in call.blocks:
            return call.blocks
        i = call.blocks.index(host)
        return (*call.blocks[:i], image, *call.blocks[i:])

    return _case(_blocks(session, shown), session, "parameters_changed")


@_mutation("thinking_taken_out", fits=lambda maker: maker.thinks)
def _thinking_taken_out(session: Session, rng: Random, maker: Maker) -> Case:
    """Nothing but what some models do to every conversation with thinking when the user speaks again."""
    if session.calls[0].model not in session.provider.forgets:
        raise Unfit
    main = _main(session)
    if not any(b.kind == "thinking" for c in main for b in c.blocks) or any(
        b.kind == "image" for c in session.calls for b in c.blocks
    ):
        raise Unfit
    return _case(session, session, "server_side_rewrite_suspected")


# ---- markers


@_mutation("no_cache_control", fits=_marks)
def _no_cache_control(session: Session, rng: Random, maker: Maker) -> Case:
    ideal = replace(session, policy=Policy(("system", "tail"), "5m", "5m"))
    return _case(replace(session, policy=Policy()), ideal, "no_cache_control")


@_mutation("below_minimum", fits=_marks)
def _below_minimum(session: Session, rng: Random, maker: Maker) -> Case:
    """Marked, and shorter than what is cached."""
    most = max(sum(len(b.text) for b in c.blocks) for c in session.calls) / 4 * session.world.scale
    calls = tuple(c for c in _main(session)[:6])
    small = session.provider.minimum * 0.7
    if most <= small:
        raise Unfit
    words = max(int(small / session.world.scale / 6), 30)
    system = maker.system(words)

    def shrunk(call: Call) -> tuple[Block, ...]:
        told = [
            replace(b, text=b.text[:60]) for b in call.blocks if b.section == "messages" and b.kind == "text"
        ]
        return (system, *told)

    cut = replace(session, calls=calls)
    cut = replace(_blocks(cut, shrunk), policy=Policy(("system", "tail"), "5m", "5m"))
    return _case(cut, cut, "below_minimum", None)


@_mutation("breakpoint_before_change", fits=_marks)
def _breakpoint_before_change(session: Session, rng: Random, maker: Maker) -> Case:
    """The last marker stands on something that is said in this request only."""
    extras = {c.turn: maker.user(rng.randint(20, 150)) for c in _main(session)}

    def with_extra(call: Call) -> tuple[Block, ...]:
        return (*call.blocks, replace(extras[call.turn], message=call.blocks[-1].message))

    policy = Policy(("system", "tail"), "5m", "5m")
    spans = replace(_blocks(session, with_extra), policy=policy)
    ideal = mark(replace(session, policy=policy))
    appended = _blocks(ideal, with_extra)
    return Case("", mark(spans), mark(spans), appended, frozenset({"breakpoint_before_change"}))


@_mutation("frozen_breakpoint", fits=_marks)
def _frozen_breakpoint(session: Session, rng: Random, maker: Maker) -> Case:
    """The marker of the tail stays where it stood at some call."""
    at = rng.randint(0, max(len(_main(session)) // 2, 1))
    if len(_main(session)) < at + 3:
        raise Unfit
    policy = Policy(("system", "tail"), "5m", "5m")
    ideal = mark(replace(session, policy=policy))
    last = _at(session, at).blocks[-1].uid

    def frozen(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        return tuple(
            b if b.section != "messages" else replace(b, marker="5m" if b.uid == last else "")
            for b in call.blocks
        )

    spans = _blocks(ideal, frozen)
    return Case("", spans, spans, ideal, frozenset({"frozen_breakpoint"}))


@_mutation("lookback_exceeded", fits=_marks)
def _lookback_exceeded(session: Session, rng: Random, maker: Maker) -> Case:
    """One turn says more pieces than a marker looks back over."""
    at = _place(session, rng)
    many = tuple(maker.user(rng.randint(5, 30)) for _ in range(rng.randint(22, 40)))
    host = _at(session, at).blocks[-1]

    def longer(call: Call) -> tuple[Block, ...]:
        if host not in call.blocks:
            return call.blocks
        i = call.blocks.index(host)
        return (
            *call.blocks[: i + 1],
            *(replace(b, message=host.message) for b in many),
            *call.blocks[i + 1 :],
        )

    policy = Policy(("system", "tail"), "5m", "5m")
    spans = mark(replace(_blocks(session, longer), policy=policy))

    def helped(call: Call) -> tuple[Block, ...]:
        if call.turn != at:
            return call.blocks
        i = next(i for i, b in enumerate(call.blocks) if b.uid == host.uid)
        return tuple(replace(b, marker="5m") if j == i - 1 else b for j, b in enumerate(call.blocks))

    return Case("", spans, spans, _blocks(spans, helped), frozenset({"lookback_exceeded"}))


@_mutation("missing_tail_breakpoint", fits=_marks)
def _missing_tail_breakpoint(session: Session, rng: Random, maker: Maker) -> Case:
    if len(_main(session)) < 4:
        raise Unfit
    ideal = replace(session, policy=Policy(("system", "tail"), "5m", "5m"))
    return _case(replace(session, policy=Policy(("system",), "5m", "5m")), ideal, "missing_tail_breakpoint")


# ---- time


def _delayed(session: Session, after: float, by: float) -> Session:
    return replace(
        session,
        calls=tuple(
            replace(c, start=c.start + by, first=c.first + by, end=c.end + by) if c.start >= after else c
            for c in session.calls
        ),
    )


@_mutation("ttl_expired")
def _ttl_expired(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng)
    provider = session.provider
    if provider.explicit:
        ttl = 3600.0 if "1h" in (session.policy.ttl, session.policy.tail_ttl) else 300.0
    elif provider.engine == "intervals":
        raise Unfit  # a day
    else:
        ttl = session.world.lifetime
    call = _at(session, at)
    if any(c.conversation == 0 and c.start < call.start < c.end for c in session.calls):
        raise Unfit
    spans = _delayed(session, call.start, ttl * rng.uniform(1.1, 3.0))
    return _case(spans, spans, "ttl_expired")


@_mutation("ttl_lost", fits=_marks)
def _ttl_lost(session: Session, rng: Random, maker: Maker) -> Case:
    """The longer lifetime is no longer asked for, and then somebody pauses."""
    main = _main(session)
    if len(main) < 5:
        raise Unfit
    at = rng.randint(1, len(main) - 3)
    back = rng.randint(at + 2, len(main) - 1)
    slow = _delayed(session, main[back].start, rng.uniform(400, 1500))
    ideal = mark(replace(slow, policy=Policy(("system", "tail"), "1h", "1h")))

    def shorter(call: Call) -> tuple[Block, ...]:
        return (
            tuple(replace(b, marker="5m" if b.marker else "") for b in call.blocks)
            if call.turn >= at
            else call.blocks
        )

    spans = _blocks(ideal, shorter)
    return Case("", spans, spans, ideal, frozenset({"ttl_lost"}))


@_mutation("parallel_miss")
def _parallel_miss(session: Session, rng: Random, maker: Maker) -> Case:
    fan = fan_out(maker, _main(session), 100)
    calls = tuple(sorted((*session.calls, *fan), key=lambda c: c.start))
    spans = replace(session, calls=calls)
    return _case(spans, spans, "parallel_miss")


# ---- the provider


@_mutation("provider_side_miss")
def _provider_side_miss(session: Session, rng: Random, maker: Maker) -> Case:
    at = _place(session, rng)
    number = next(i for i, c in enumerate(session.calls) if c.conversation == 0 and c.turn == at)
    spans = replace(session, world=replace(session.world, drops=frozenset({number})))
    return _case(spans, session, "provider_side_miss")


@_mutation("server_side_rewrite", fits=_marks)
def _server_side_rewrite(session: Session, rng: Random, maker: Maker) -> Case:
    """The provider clears old tool results; the application sends them all the same."""
    if session.provider.name == "bedrock":
        raise Unfit
    at = _place(session, rng, 4)
    if any(b.kind == "image" for c in session.calls for b in c.blocks):
        raise Unfit  # what an image weighs is told nowhere, and so what was cleared beside one is not
    results = [b for b in _at(session, at).blocks if b.kind == "tool_result"]
    cleared = {b.uid for b in results[:-2]}
    if sum(len(b.text.split()) for b in results[:-2]) < 700:
        raise Unfit

    def rewritten(call: Call) -> tuple[Block, ...]:
        if call.turn < at:
            return call.blocks
        return tuple(replace(b, text="[cleared]") if b.uid in cleared else b for b in call.blocks)

    return _case(session, session, "server_side_rewrite_suspected", sent=_blocks(session, rewritten))
