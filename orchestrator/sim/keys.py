"""Which routes want which key: SGLang's rules for --api-key and --admin-api-key, 0.5.23.

Health, readiness and metrics are open to probes. Routes that manage the engine want the admin key where there is one,
the ordinary key where there is only that. Everything else wants the ordinary key; with an admin key alone it is open.
"""

from __future__ import annotations

import secrets

_OPEN = ("/health", "/ready", "/metrics")  # and whatever begins like that
MANAGING = frozenset({"/flush_cache", "/abort_request", "/set_internal_state"})
"""Routes that manage the engine; a method that such a route does not take makes the call an ordinary one."""


def may(method: str, path: str, authorization: str, *, is_route: bool, key: str | None, admin: str | None) -> bool:
    """Whether a call with this ``Authorization`` header is let in; otherwise it is 401, on unknown routes too."""
    if method == "OPTIONS" or path.startswith(_OPEN):
        return True
    wanted = (admin or key) if is_route and path in MANAGING else key
    if not wanted:
        return True
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and secrets.compare_digest(given.encode(), wanted.encode())
