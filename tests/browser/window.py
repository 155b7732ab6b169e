"""A window of the browser, with a report in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from playwright.sync_api import Page


@dataclass
class Opened:
    """A page in the browser, and all that it did: requests, errors, what the policy refused, dialogs."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def at(self, place: str) -> Page:
        """The report at another place, as a link would open it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{place}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    @property
    def violations(self) -> list[str]:
        told: list[str] = self.page.evaluate("() => window.violations")
        return told

    def quiet(self) -> None:
        """Nothing was asked of anyone, refused or raised."""
        assert self.errors == []
        assert self.violations == []
        assert [r for r in self.requests if r.split("#")[0] not in (self.url, "about:blank")] == []


Open = Callable[..., Opened]
