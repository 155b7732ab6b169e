"""URLs as they may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

HIDDEN = "***"


def without_secrets(url: str) -> str:
    """Without user, password and query; all hidden where it cannot be told what is what."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return HIDDEN
    if not parts.scheme or ("@" in url and "@" not in parts.netloc):
        return HIDDEN
    host = f"{parts.hostname or ''}{f':{port}' if port else ''}"
    kept = f"{HIDDEN}@{host}" if "@" in parts.netloc else parts.netloc
    return urlunsplit((parts.scheme, kept, parts.path, HIDDEN if parts.query else "", ""))
