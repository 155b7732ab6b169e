"""What can go wrong with an input, named so that a person can mend it."""

from __future__ import annotations


class OtelCtxError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(OtelCtxError):
    """An input cannot be used. ``where`` names file, line or span; ``hint`` says the way out."""

    def __init__(self, where: str, why: str, hint: str = "") -> None:
        self.where, self.why, self.hint = where, why, hint
        super().__init__(f"{where}: {why}" + (f" ({hint})" if hint else ""))


class RulesError(OtelCtxError):
    """A rule table is malformed: names the file, the row and the field."""


class SettingError(OtelCtxError):
    """A setting has a value that it cannot have: names the setting and what is allowed."""
