"""Frozen dataclasses that are made for each call or each part of a prompt.

That nobody sets their fields is what the type checkers see to. Python's own check makes each of them two to three times as
dear to make, as every field goes through a call of ``object.__setattr__``; named tuples are dear to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["frozen"]

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen
else:
    from dataclasses import dataclass

    def frozen(*, eq: bool = True, **options: Any) -> Any:
        """As ``dataclass``; with ``eq`` equal ones have one hash, as those of Python have that are frozen."""
        return dataclass(**{**options, "frozen": False}, eq=eq, unsafe_hash=eq)
