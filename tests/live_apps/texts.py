"""What the agent of the live tests is told, and what its tools return."""

from __future__ import annotations

import json
from typing import Any

_RULES = (
    "Answer in the customer's language, and keep an answer under 120 words unless a list of steps is needed.",
    "Never promise a refund before the order and the policy that applies to its country were looked up.",
    "Quote prices with their currency code, and dates as YYYY-MM-DD; never invent a tracking number.",
    "If a tool fails, say so plainly, offer to try again once, then hand over to a colleague.",
    "For late parcels compare the promised date with the carrier's status before you apologise.",
)
SYSTEM = "You are the support agent of an outdoor shop. Be precise and kind.\n\n" + "\n".join(
    f"{n}. {_RULES[n % len(_RULES)]} (section {n}, revision {7 + n * 3})" for n in range(1, 46)
)
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> description, schema of the arguments
    "search_docs": (
        "Search the help centre and the policies. Returns the best passages with their headings.",
        {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
            "required": ["query"],
        },
    ),
    "get_order": (
        "Look up one order: its items, payments, shipments and state.",
        {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    ),
}
RESULTS = {
    "search_docs": json.dumps(
        [
            {
                "heading": f"Policy {n}",
                "text": f"Passage {n}: unworn items can be returned within 30 days. " * 3,
            }
            for n in range(4)
        ]
    ),
    "get_order": json.dumps(
        {"state": "in_transit", "items": [{"sku": f"JKT-{n}", "price": 189.0} for n in range(3)]}
    ),
}
USERS = (
    "Hi! What is your refund window for a jacket?",
    "Please check both the policy and my order A-1042: where is it now?",
    "The size is wrong. Can I exchange it, and who pays for the shipping? — merci 🙏",
    "Fine, please open the exchange for me.",
)


def system(n: int, volatile: bool) -> str:
    """The system prompt of the call ``n``; ``volatile``: with the time before all else, which breaks every cache."""
    return (f"Current time: 2026-11-30T09:{n:02d}:17Z\n" if volatile else "") + SYSTEM
