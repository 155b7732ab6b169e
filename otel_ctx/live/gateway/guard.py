"""Who may send: whoever has the token, told in a time that does not depend on how much of it was right."""

from __future__ import annotations

import hmac

NO = "a bearer token is needed"


def allowed(authorization: str, token: str) -> bool:
    """``authorization``: the header; ``token``: the one that is asked for, "" where none is."""
    if not token:
        return True
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
