"""Rules as a user writes them: one row, and the source that it is from."""

from __future__ import annotations

SOURCE = """
[sources.mine]
title = "our contract"
date = "2026-11"
kind = "contract"
"""


def own_row(table: str, fields: str, row: str = "mine") -> str:
    return f"""{SOURCE}
[[{table}]]
id = "{row}"
{fields}
source = ["mine"]
status = "documented"
"""


def own_price(model: str, fields: str, provider: str = "openai", row: str = "mine") -> str:
    return own_row("price", f'provider = "{provider}"\nmodel = "{model}"\n{fields}', row)
