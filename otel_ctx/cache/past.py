"""What the last call of a conversation left to the next one."""

from __future__ import annotations

from dataclasses import replace

from otel_ctx.cache.path import PackedPath, Path
from otel_ctx.cache.resent import NOTHING, Resent, common_part, resent
from otel_ctx.cache.settings import Settings
from otel_ctx.cache.store import Entry
from otel_ctx.frozen import frozen
from otel_ctx.model import Break, Call


@frozen(frozen=True, slots=True, eq=False)
class Past:
    """``path`` is its prompt's until the next call walks on from there; at rest it is ``packed``. ``marker``: the place of its
    last marker in tokens (None: nothing tells; where it was ``unmarked``, of the entry that still stood in its prompt, 0
    without one), ``place`` in segments before it, ``position`` in positions of the lookback; ``moved``: it stood elsewhere
    before; ``ttl``: the lifetime that it asked for; ``refused``: it was marked, and the provider wrote nothing;
    ``ends``: where prompts ended that were not seen and that no call has gone on from, the last one last."""

    call_id: str
    scope: str
    total: int
    entry: Entry | None
    path: Path | None
    settings: Settings
    images: int
    marker: int | None
    place: int
    moved: bool
    position: int
    ttl: str | None
    unmarked: bool = False
    refused: bool = False
    ends: tuple[int, ...] = ()
    packed: PackedPath | None = None

    def at_rest(self) -> Past:
        return replace(self, path=None, packed=self.path.packed() if self.path is not None else None)

    def opened(self) -> Past:
        """To go on from, while the one at rest stays as it is."""
        return replace(
            self,
            entry=self.entry.copied() if self.entry is not None else None,
            path=self.packed.opened() if self.packed is not None else None,
            packed=None,
        )

    def common(self, old: Call | None, at: Break | None) -> int | None:
        """Tokens up to the break; None where nothing broke, or ``old`` was another call."""
        path = self.path
        if at is None or path is None or old is None or self.call_id != old.id:
            return None
        return path.ends[min(at.index, len(path))] + common_part(at, path)

    def again(self, old: Call | None, call: Call, at: Break | None) -> Resent:
        """Behind the break."""
        if old is None or at is None or self.path is None:
            return NOTHING
        return resent(old.prompt, call.prompt, self.path, self.total, at)
