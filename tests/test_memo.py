"""A memory that is bounded and keeps what is used."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.memo import Memo

STEPS = st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.integers(0, 12)), max_size=200)


@given(st.integers(1, 12), STEPS)
def test_it_holds_what_was_used_of_late_and_never_more_than_its_size(
    size: int, steps: list[tuple[str, int]]
) -> None:
    memo: Memo[int, str] = Memo(size)
    used: OrderedDict[int, str | None] = OrderedDict()  # all that there was, what was used last at the end
    for n, (step, key) in enumerate(steps):
        if step == "put":
            memo.put(key, f"{n}")
            used[key] = f"{n}"
            used.move_to_end(key)
        elif step == "pop":
            assert memo.pop(key) in (used.get(key), None)
            if key in used:
                used[key] = None
        else:
            found = memo.get(key)
            assert found in (used.get(key), None)
            if found is not None:
                used.move_to_end(key)
        assert len(memo) <= size
        recent = list(used)[-max(1, size // 2) :]
        assert all(key in memo for key in recent if used[key] is not None)


def test_what_is_not_there() -> None:
    memo: Memo[int, str] = Memo(4)
    assert (memo.get(1), memo.pop(1), 1 in memo, len(memo)) == (None, None, False, 0)
