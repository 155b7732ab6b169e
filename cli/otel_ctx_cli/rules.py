"""``otelctx rules [MODEL]``: what is known of a model's prompt cache, window and price, and where it is from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from otel_ctx_cli.reading import one_of, rules_option, rules_text
from otel_ctx_cli.terminal import write
from otel_ctx_cli.version import version_option

if TYPE_CHECKING:
    from otel_ctx.outputs.text import Line
    from otel_ctx.rules import Family, Price, Rules, Value


@click.command(short_help="What is known of a model: cache, window, price, and where it is from.")
@click.argument("model", required=False)
@click.option(
    "--platform",
    metavar="NAME",
    default="",
    help="Who serves it, where the name does not say: bedrock, azure, vertex …",
)
@rules_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@version_option
def command(model: str | None, platform: str, rules_path: str | None, as_json: bool) -> None:
    """What applies to MODEL: how its prompt cache works, its window and its list price; each value with its status, date
    and source. Without MODEL: all families.

    A file of your own has the same tables (docs/own-rules.md); its rows replace those of the same id and come before the
    others:

    \b
      [sources.mine]
      title = "our contract"
      date = "2026-11"
      kind = "contract"
      [[price]]
      id = "mine"
      provider = "openai"
      model = "gpt-4o"
      usd = { input = 2.0, output = 8.0, cache_read = 1.0 }
      from = "2026-07-01"
      source = ["mine"]
      status = "documented"

    A price holds from its day on (UTC), until one of a later day does; without a day it always did.
    """
    from otel_ctx.rules import load

    rules = load(rules_text(rules_path))
    if platform and not rules.platform_of(platform):
        one_of(platform, sorted(rules.platforms), "--platform")
    if model is None:
        _families(rules, as_json)
        return
    _model(rules, model, platform, as_json)


def _families(rules: Rules, as_json: bool) -> None:
    names = ("id", "engine", "min_cacheable_tokens", "read_multiplier", "lifetimes")
    rows = [
        (f.id, f.engine, f.min_cacheable_tokens, f.read_multiplier, ", ".join(f.ttl_seconds) or None)
        for f in rules.families
    ]
    if as_json:
        _json([dict(zip(names, row, strict=True)) for row in rows])
        return
    lines = [f"{'family':<30}{'engine':<22}{'minimum':>8}{'read':>8}  lifetimes"]
    for family, engine, minimum, read, lifetimes in rows:
        price = "?" if read is None else f"{read:g}x"
        least = "?" if minimum is None else f"{minimum:,}"
        lines.append(f"{family:<30}{engine:<22}{least:>8}{price:>8}  {lifetimes or '?'}")
    write("".join(f"{one}\n" for one in lines).encode())


def _json(value: Any) -> None:
    import json

    write(json.dumps(value, indent=2).encode() + b"\n")


class _Known(NamedTuple):
    """What the rules say of a model; ``prices``: first the one that applies now; ``times``: what they are multiplied with
    where it is served."""

    model: str
    platform: str
    family: Family | None
    window: Value | None
    prices: tuple[Price, ...]
    times: tuple[float, ...]


def _known_of(rules: Rules, model: str, platform: str) -> _Known:
    prices, times = _from_today_on(rules, model, platform)
    return _Known(
        model,
        rules.platform_of(platform, model),
        rules.model(model, platform),
        rules.window(model),
        prices,
        times,
    )


def _model(rules: Rules, model: str, platform: str, as_json: bool) -> None:
    from otel_ctx_cli.terminal import print_lines, width

    known = _known_of(rules, model, platform)
    if known.family is None and known.window is None and not known.prices:
        raise click.UsageError(
            f"nothing is known of {model!r}; otelctx rules lists the families, --platform says who serves it."
        )
    if as_json:
        _json(_plain(rules, known))
    else:
        print_lines(folded for line in _lines(rules, known) for folded in _folded(line, width()))


def _from_today_on(rules: Rules, model: str, platform: str) -> tuple[tuple[Price, ...], tuple[float, ...]]:
    """All prices of a model, and first the one that applies now; and what they are multiplied with where it is served."""
    from otel_ctx.cost.prices import package_prices
    from otel_ctx.rules.rows import AS_LISTED, day_of

    now = time.time_ns()
    today = rules.prices_on(model, platform, day_of(now))
    whole = [price for price in today if not price.hours]
    first = (*whole, *(price for price in today if price.hours))
    others = (price for price in rules.prices_on(model, platform) if price not in first)
    if listed := (*first, *others):
        return listed, rules.surcharge(listed[0], model, platform)
    found = package_prices(model, platform, now, rules)
    return found, AS_LISTED if found else ()


def _plain(rules: Rules, known: _Known) -> dict[str, Any]:
    from otel_ctx.rules import normalise_model_id

    family, window, prices = known.family, known.window, known.prices
    return {
        "model": known.model,
        "name": normalise_model_id(known.model),
        "platform": known.platform or None,
        "family": family.id if family else None,
        "engine": family.engine if family else None,
        "values": {n: _value(v) for n, v in family.values.items()} if family else {},
        "window": _value(window) if window else None,
        "price": _price(rules, prices[0]) if prices else None,
        "other_prices": [_price(rules, price) for price in prices[1:]],
        "times_where_served": list(known.times),
    }


def _price(rules: Rules, price: Price) -> dict[str, Any]:
    return {
        "id": price.id,
        "usd_per_mtok": dict(price.usd),
        "above": price.above,
        "tier": dict(price.tier),
        "from": price.since or None,
        "hours": _hours(price),
        "weekdays": price.weekdays,
        "some_days": price.some_days,
        "status": price.status,
        "date": price.date,
        "sources": _sources(rules, price),
    }


def _hours(price: Price) -> list[str]:
    return ["-".join(f"{at // 60:02}:{at % 60:02}" for at in hours) for hours in price.hours]


def _when(price: Price) -> str:
    """In which hours a price holds, empty if always."""
    days = " on weekdays" if price.weekdays else " on some days" if price.some_days else ""
    return f"{', '.join(_hours(price))} UTC{days}" if price.hours else ""


_NAME = 30


def _lines(rules: Rules, known: _Known) -> Iterator[Line]:
    from otel_ctx.outputs.text.layout import Run, line
    from otel_ctx.rules.rows import AS_LISTED

    def row(name: str, words: str, origin: str = "") -> Line:
        return line(
            Run(f"  {name:<{_NAME}}", "dim"), words, *((Run(f"  {origin}", "dim"),) if origin else ())
        )

    yield line(Run(known.model, "title"), f"  on {known.platform or 'an unknown platform'}")
    if (family := known.family) is None:
        yield row("family", "no rule of its prompt cache is known: nothing is predicted")
    else:
        yield row("family", f"{family.id}, engine {family.engine}")
        for name, value in family.values.items():
            yield row(name.replace("_", " "), _words(value.value), _origin(rules, value))
    if (window := known.window) is not None:
        yield row("window", f"{_words(window.value)} tokens", _origin(rules, window))
    if not known.prices:
        more = "W" if find_spec("genai_prices") else "More are in the extra prices; or w"
        yield row(
            "price",
            f"not known: no cost is given. {more}rite a [[price]] row of your own",
        )
        return
    for n, price in enumerate(known.prices):
        since = f"from {price.since}" if price.since else ""
        name = f"  {since or ('in some hours' if price.hours else 'before')}"
        yield row(
            name if n else "price, USD per million tokens",
            _words(price.usd),
            _price_origin(rules, price, since if not n else "", _when(price)),
        )
        if price.above is not None:
            yield row(f"  above {price.above:,} input tokens", _words(price.tier))
    if known.times != AS_LISTED:
        yield row("  where it is served", " or ".join(f"{n:g} times these" for n in known.times))


def _folded(one: Line, width: int) -> Iterator[Line]:
    """A row on as many lines as it takes: what stands behind its name stays there."""
    from otel_ctx.outputs.escape import cells
    from otel_ctx.outputs.text.layout import Run, line, wrap

    name, *rest = one
    if sum(cells(run.text) for run in one) <= width or len(name.text) < _NAME:
        yield one
        return
    room = max(width - cells(name.text), 20)
    parts = [(part, run.style) for run in rest for part in wrap(run.text.strip(), room)]
    for i, (part, style) in enumerate(parts):
        yield line(name if not i else " " * cells(name.text), Run(part, style))


_PACKAGE = "package"


def _sources(rules: Rules, price: Price) -> list[str]:
    """Ids of sources; of a price that is in no table, where it is from."""
    rows = (row["source"] for row in rules.rows("price") if row["id"] == price.id)
    return list(next(rows, [_PACKAGE]))


def _price_origin(rules: Rules, price: Price, *when: str) -> str:
    titles = [
        rules.sources[s].title if s in rules.sources else "the installed package genai-prices"
        for s in _sources(rules, price)
    ]
    whose = "the maker's, " if price.elsewhere else ""
    dated = ", ".join(filter(None, (f"{whose}{price.status}", price.date)))
    said = (f"{dated}: {'; '.join(titles)}", *when)
    return f"({'; '.join(filter(None, said))})"


def _words(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if hasattr(value, "items"):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items()) or "none"
    if isinstance(value, tuple):
        span = all(isinstance(v, int) for v in value)
        return ("–".join(map(_words, value)) if span else ", ".join(map(str, value))) or "none"
    return str(value)


def _origin(rules: Rules, value: Value) -> str:
    titles = "; ".join(rules.sources[s].title for s in value.sources)
    note = f". {value.note}" if value.note else ""
    return f"({value.status}, {value.date}: {titles}{note})"


def _value(value: Value) -> dict[str, Any]:
    import json

    plain = json.loads(json.dumps(value.value, default=lambda v: dict(v) if hasattr(v, "items") else list(v)))
    return {
        "value": plain,
        "status": value.status,
        "date": value.date,
        "sources": list(value.sources),
        "note": value.note or None,
    }
