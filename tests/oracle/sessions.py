"""Conversations made of a seed: what is sent, when, to whom. All content is generated, none of it repeats by accident."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

Engine = Literal["breakpoint", "rounded", "intervals", "endings", "prefix"]

WORDS = (
    "the order customer refund window policy applies only when items are returned within thirty days of delivery and "
    "agent must check each invoice before it promises anything while service desk keeps a record of every change that was "
    "made by hand please look up account history compare prices list open tickets summarize latest notes find missing "
    "parcel number update address send confirmation email schedule pickup tomorrow morning report error codes from server "
    "logs explain why test failed suggest fix for broken build inspect database schema rename column migrate rows carefully "
    "warehouse region shipment carrier weight limit customs form priority queue escalation manager approval budget quarter "
    "forecast margin discount bundle season winter jacket boots tent stove lantern rope harness helmet glove"
).split()


@dataclass(frozen=True, slots=True)
class Provider:
    """A model at a platform with its documented numbers; ``scale``: its tokens for one of o200k."""

    name: str
    span_name: str  # gen_ai.provider.name
    model: str
    engine: Engine
    minimum: int
    step: int = 1
    scale: tuple[float, float] = (1.0, 1.0)
    lifetime: tuple[float, float] = (300.0, 300.0)  # seconds since the last use; drawn once a session
    other_model: str = ""  # with the same rules
    runs: bool = True  # a run of tool calls, or of results, is one position of the lookback
    overhead: tuple[int, int] = (0, 0)  # hidden tokens where there are tools
    hidden: tuple[int, int] = (0, 0)  # hidden tokens that no count shows (GPT-5.5)
    keyed: bool = False  # caches only requests that carry a key
    forgets: tuple[str, ...] = ()  # models that take thinking out of the prompt when a user speaks again

    @property
    def explicit(self) -> bool:
        return self.engine == "breakpoint"

    @property
    def promised(self) -> bool:
        """Does a page say what is read? Of the others nothing can be called a miss."""
        return self.engine != "prefix"


_OLD, _NEW = (1.12, 1.25), (1.5, 1.65)
_MEMORY, _DAY = (300.0, 3600.0), (1800.0, 86_400.0)
PROVIDERS = (
    Provider("anthropic", "anthropic", "claude-sonnet-4-5-20250929", "breakpoint", 1024, scale=_OLD,
             other_model="claude-sonnet-4-20250514", overhead=(490, 500),
             forgets=("claude-sonnet-4-5-20250929", "claude-sonnet-4-20250514")),
    Provider("anthropic", "anthropic", "claude-opus-4-6", "breakpoint", 4096, scale=_OLD,
             other_model="claude-opus-4-5-20251101", overhead=(490, 500)),
    Provider("anthropic", "anthropic", "claude-opus-4-8", "breakpoint", 1024, scale=_NEW,
             other_model="claude-sonnet-5", overhead=(285, 295)),
    Provider("anthropic", "anthropic", "claude-opus-5-5", "breakpoint", 512, scale=_NEW,
             other_model="claude-sonnet-5-5", overhead=(280, 300)),
    Provider("bedrock", "aws.bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "breakpoint", 1024, scale=_OLD,
             other_model="us.anthropic.claude-sonnet-4-6", runs=False, overhead=(490, 500),
             forgets=("us.anthropic.claude-sonnet-4-5-20250929-v1:0",)),
    Provider("vertex", "gcp.vertex_ai", "claude-sonnet-4-6", "breakpoint", 1024, scale=_OLD,
             other_model="claude-sonnet-4-5@20250929", overhead=(490, 500), forgets=("claude-sonnet-4-5@20250929",)),
    Provider("openai", "openai", "gpt-4o-2024-08-06", "rounded", 1024, 128, lifetime=_MEMORY,
             other_model="gpt-4o-mini-2024-07-18"),
    Provider("openai", "openai", "gpt-4.1-2025-04-14", "rounded", 1024, 128, lifetime=_MEMORY,
             other_model="gpt-4.1-mini-2025-04-14"),
    Provider("azure", "azure.ai.openai", "gpt-4o", "rounded", 1024, 128, lifetime=_MEMORY, other_model="gpt-4.1"),
    Provider("openai-5.5", "openai", "gpt-5.5", "intervals", 0, 2048, lifetime=(86_400.0, 86_400.0),
             other_model="gpt-5.5-pro", hidden=(150, 900)),
    Provider("openai-5.6", "openai", "gpt-5.6-sol", "endings", 1024, lifetime=_DAY, other_model="gpt-5.6-luna"),
    Provider("openai-6", "openai", "gpt-6-sol", "endings", 1024, lifetime=_DAY, other_model="gpt-6-luna"),
    Provider("mistral", "mistral_ai", "mistral-large-4", "prefix", 64, 64, scale=(1.06, 1.07), lifetime=_MEMORY,
             other_model="mistral-medium-3.5", keyed=True),
    Provider("xai", "x_ai", "grok-4.7", "prefix", 128, 128, scale=(1.0, 1.15), lifetime=_MEMORY,
             other_model="grok-4.3"),
    Provider("gemini", "gcp.gemini", "gemini-2.5-flash", "prefix", 2048, 1, scale=(1.03, 1.04), lifetime=_MEMORY,
             other_model="gemini-2.5-pro"),
    Provider("deepseek", "deepseek", "deepseek-v4-pro", "prefix", 64, 64, scale=(1.005, 1.015), lifetime=(7200.0, 86_400.0),
             other_model="deepseek-v4-flash"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a request. ``uid`` stays the same where its content is changed: it is the same piece still."""

    uid: str
    section: Literal["tools", "system", "messages"]
    kind: Literal["tool", "text", "thinking", "image", "tool_use", "tool_result"]
    role: str
    message: int  # blocks of one message have one number; -1 outside the messages
    text: str  # a tool: its definition as JSON; a call: its arguments as JSON
    name: str = ""
    call_id: str = ""
    marker: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    conversation: int
    turn: int
    model: str
    blocks: tuple[Block, ...]
    answer: tuple[Block, ...]
    start: float
    first: float  # the first token of the answer
    end: float
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """Where an application puts its markers: ``places`` of "tools", "system", "previous", "tail"."""

    places: tuple[str, ...] = ()
    ttl: str = "5m"
    tail_ttl: str = "5m"


@dataclass(frozen=True, slots=True)
class World:
    """What is drawn once a session of the provider's side."""

    provider: Provider
    scale: float
    lifetime: float
    overhead: int
    hidden: int
    per_message: int
    # GPT-5.6+: is an entry written at the end of the first developer block? No page says.
    developer_end: bool
    thinking_keeps_head: bool  # a change of thinking keeps tools and system: "model-specific"
    drops: frozenset[int] = frozenset()  # calls that are served without the cache, for no reason


@dataclass(frozen=True, slots=True)
class Session:
    seed: int
    world: World
    policy: Policy
    calls: tuple[Call, ...]  # in the order of their starts

    @property
    def provider(self) -> Provider:
        return self.world.provider


class Maker:
    """Texts, tools and messages of one session."""

    def __init__(self, rng: Random, provider: Provider) -> None:
        self.rng = rng
        self.provider = provider
        self.serial = 0
        self.messages = 0
        self.thinks = False
        self.shows = 0.0  # how often a user sends an image

    def uid(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}{self.serial}"

    def text(self, words: int) -> str:
        draw, of = self.rng.random, len(WORDS)
        parts = []
        while words > 0:
            n = min(words, self.rng.randint(6, 18))
            said = " ".join([WORDS[int(draw() * of)] for _ in range(n)])
            parts.append(said.capitalize() + self.rng.choice((".", ".", f" ({self.rng.randint(2, 9999)}).")))
            words -= n
        return " ".join(parts)

    def tool(self, name: str) -> Block:
        properties = {
            f"{self.rng.choice(WORDS)}_{i}": {
                "type": self.rng.choice(("string", "integer", "boolean")),
                "description": self.text(self.rng.randint(5, 20)),
            }
            for i in range(self.rng.randint(1, 5))
        }
        definition = {
            "name": name,
            "description": self.text(self.rng.randint(10, 80)),
            "parameters": {"type": "object", "properties": properties, "required": [next(iter(properties))]},
        }
        return Block(self.uid("tool"), "tools", "tool", "", -1, json.dumps(definition), name)

    def system(self, words: int) -> Block:
        role = "system"
        return Block(self.uid("system"), "system", "text", role, -1, self.text(words))

    def next_message(self) -> int:
        self.messages += 1
        return self.messages

    def user(self, words: int, message: int | None = None) -> Block:
        number = self.next_message() if message is None else message
        return Block(self.uid("user"), "messages", "text", "user", number, self.text(words))

    def image(self, message: int) -> Block:
        """``text``: its data."""
        return Block(
            self.uid("image"), "messages", "image", "user", message, f"{self.rng.getrandbits(800):0200x}"
        )

    def said(self, words: int) -> tuple[Block, ...]:
        """A user's message."""
        text = self.user(words)
        return (self.image(text.message), text) if self.rng.random() < self.shows else (text,)

    def answer(self, tools: tuple[Block, ...], calls: int) -> tuple[Block, ...]:
        number = self.next_message()
        blocks = []
        if self.thinks:
            thought = self.text(self.rng.randint(15, 250))
            blocks.append(Block(self.uid("thought"), "messages", "thinking", "assistant", number, thought))
        if not calls or self.rng.random() < 0.5:
            words = self.rng.randint(8, 25 if calls else 150)
            blocks.append(Block(self.uid("said"), "messages", "text", "assistant", number, self.text(words)))
        for _ in range(calls):
            tool = self.rng.choice(tools)
            arguments = json.dumps(
                {"query": self.text(self.rng.randint(3, 12)), "limit": self.rng.randint(1, 50)}
            )
            call_id = f"call_{self.rng.getrandbits(48):012x}"
            blocks.append(
                Block(
                    self.uid("call"),
                    "messages",
                    "tool_use",
                    "assistant",
                    number,
                    arguments,
                    tool.name,
                    call_id,
                )
            )
        return tuple(blocks)

    def results(self, answer: tuple[Block, ...], words: tuple[int, int]) -> tuple[Block, ...]:
        """What the tools gave back: one message each, of Anthropic's one message for all."""
        number = 0
        blocks = []
        for call in answer:
            if call.kind == "tool_use":
                number = number if number and self.provider.explicit else self.next_message()
                text = self.text(self.rng.randint(*words))
                uid = self.uid("result")
                blocks.append(
                    Block(uid, "messages", "tool_result", "user", number, text, call.name, call.call_id)
                )
        return tuple(blocks)


LONGEST = 60  # turns


class Unfit(Exception):
    """This session has no place for this fault."""


Fits = Callable[[Maker], bool]


def anyone(_: Maker) -> bool:
    return True


def make(
    seed: int, *, calm: bool, longest: int = LONGEST, fits: Fits = anyone
) -> tuple[Session, Random, Maker]:
    """A session without a fault. ``calm``: nothing of time comes between its calls, neither gaps nor fan-outs. Unfit
    where its maker does not fit: before there is any text."""
    rng = Random(seed)
    provider = PROVIDERS[rng.randrange(len(PROVIDERS))]
    world = World(
        provider=provider,
        scale=rng.uniform(*provider.scale),
        lifetime=rng.uniform(*provider.lifetime),
        overhead=rng.randint(*provider.overhead),
        hidden=rng.randint(*provider.hidden),
        per_message=rng.choice((3, 4)),
        developer_end=rng.random() < 0.5,
        thinking_keeps_head=rng.random() < 0.5,
    )
    maker = Maker(rng, provider)
    maker.thinks = provider.explicit and rng.random() < 0.3
    maker.shows = rng.choice((0.05, 0.3)) if rng.random() < 0.15 else 0.0
    if not fits(maker):
        raise Unfit
    names = [f"{rng.choice(WORDS)}_{rng.choice(WORDS)}_{i}" for i in range(rng.randint(3, 10))]
    tools = tuple(maker.tool(name) for name in names)
    least = 3600 if provider.minimum > 2000 or provider.engine == "intervals" else 900
    system = tuple(
        maker.system(rng.randint(least // 2, least))
        for _ in range(rng.choice((1, 2, 3)) if provider.explicit else 1)
    )
    calls: list[Call] = []
    start = 1_796_000_000.0 + rng.uniform(0, 1e6)
    turns = rng.choice((rng.randint(3, 10), rng.randint(3, 14), rng.randint(8, 24), rng.randint(24, 60)))
    turns = min(turns, longest)
    main, start = _conversation(maker, 0, tools + system, tools, turns, start, calm)
    calls += main
    number = 1
    if rng.random() < 0.35:  # another user of the same application
        other_start = rng.choice(main).end + rng.uniform(0.5, 100.0)
        other, _ = _conversation(maker, number, tools + system, tools, rng.randint(2, 5), other_start, calm)
        calls += other
        number += 1
    if rng.random() < 0.3:  # a sub-agent with a prompt of its own
        own_tools = tuple(maker.tool(f"sub_{name}") for name in names[:3])
        head = (*own_tools, maker.system(rng.randint(least // 2, least)))
        after = rng.choice(main).end
        sub, _ = _conversation(maker, number, head, own_tools, rng.randint(2, 5), after + 0.2, calm)
        calls += sub
        number += 1
    if not calm and rng.random() < 0.4:
        calls += fan_out(maker, main, number)
    return (
        Session(seed, world, _policy(rng, provider), tuple(sorted(calls, key=lambda c: c.start))),
        rng,
        maker,
    )


def _policy(rng: Random, provider: Provider) -> Policy:
    if not provider.explicit:
        return Policy()
    places = rng.choice(
        (("system", "tail"), ("tail",), ("tools", "system", "tail"), ("system", "previous", "tail"))
    )
    if rng.random() < 0.08:
        places = ("system",)
    ttl, tail = rng.choice((("5m", "5m"), ("5m", "5m"), ("1h", "1h"), ("1h", "5m")))
    return Policy(places, tail if places == ("tail",) else ttl, tail)


def _conversation(
    maker: Maker,
    number: int,
    head: tuple[Block, ...],
    tools: tuple[Block, ...],
    turns: int,
    start: float,
    calm: bool,
) -> tuple[list[Call], float]:
    rng = maker.rng
    said = maker.said(rng.randint(8, 120))
    calls = []
    for turn in range(turns):
        uses = rng.choice((0, 1, 1, 2, 3))
        answer = maker.answer(tools, uses)
        first = start + rng.uniform(0.3, 3.0)
        end = first + rng.uniform(0.1, 15.0)
        calls.append(Call(number, turn, maker.provider.model, head + said, answer, start, first, end))
        if uses:
            said += answer + maker.results(answer, (10, 350))
            start = end + rng.uniform(0.1, 6.0)
        else:
            said += (*answer, *maker.said(rng.randint(5, 120)))
            start = end + rng.uniform(3.0, 150.0)
        if not calm and rng.random() < 0.06:
            start += rng.choice((rng.uniform(330, 3000), rng.uniform(4000, 30_000)))
    return calls, start


def fan_out(maker: Maker, main: list[Call], number: int) -> list[Call]:
    """Three to six requests at once: questions about one state of a conversation, one request several times, or workers
    that share a prompt of their own."""
    rng = maker.rng
    base = rng.choice(main[1:] or main)
    kind = rng.choice(("same", "workers") if maker.provider.explicit else ("questions", "workers"))
    common = (*base.blocks, *base.answer)
    common += maker.results(base.answer, (10, 60)) or (maker.user(rng.randint(100, 900)),)
    if kind == "workers":
        tools = tuple(maker.tool(f"worker_{i}") for i in range(3))
        size = 4200 if maker.provider.minimum > 2000 or maker.provider.engine == "intervals" else 1600
        common = (*tools, maker.system(size))
    calls = []
    for i in range(rng.randint(3, 6)):
        begun = base.end + 0.3 + i * rng.uniform(0.001, 0.04)
        first = begun + rng.uniform(0.8, 3.0)
        end = first + rng.uniform(0.1, 5.0)
        asked = common if kind == "same" else (*common, maker.user(rng.randint(8, 40)))
        calls.append(Call(number + i, 0, base.model, asked, maker.answer((), 0), begun, first, end))
    return calls


def mark(session: Session) -> Session:
    """The session with its markers set as its policy says."""
    return replace(
        session, calls=tuple(replace(c, blocks=marked(c.blocks, session.policy)) for c in session.calls)
    )


def marked(blocks: tuple[Block, ...], policy: Policy) -> tuple[Block, ...]:
    at: dict[int, str] = {}
    for place in policy.places:
        section = [i for i, b in enumerate(blocks) if b.section == place]
        if section:
            at[section[-1]] = policy.ttl
    if "previous" in policy.places:
        users = sorted({b.message for b in blocks if b.role == "user"})
        if len(users) > 1:
            at[max(i for i, b in enumerate(blocks) if b.message == users[-2])] = policy.tail_ttl
    if "tail" in policy.places:
        at[len(blocks) - 1] = policy.tail_ttl
    out = list(blocks)
    for i in at.keys() | {i for i, b in enumerate(blocks) if b.marker}:
        if out[i].marker != at.get(i, ""):
            out[i] = replace(out[i], marker=at.get(i, ""))
    return tuple(out)
