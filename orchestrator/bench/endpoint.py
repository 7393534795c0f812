"""An endpoint's address, read from what a person or the inventory gives."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from orchestrator.errors import InputRefused


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where an OpenAI-compatible server listens. ``prefix`` stands before ``/v1`` and has no slash at its end."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""

    @property
    def url(self) -> str:
        """Without a slash at its end and without ``/v1``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"


def endpoint(url: str) -> Endpoint:
    """Read ``http://host:port``, with or without scheme and ``/v1``. Raises ``InputRefused``."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        host, port = parts.hostname, parts.port
    except ValueError as wrong:
        raise _refused(url, str(wrong)) from wrong
    if parts.scheme not in {"http", "https"}:
        raise _refused(url, f"scheme {parts.scheme!r}")
    if not host:
        raise _refused(url, "no host in it")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise _refused(url, "only scheme, host, port and path are accepted; an API key goes in by --api-key-env")
    prefix = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    if not (prefix.isascii() and prefix.isprintable() and " " not in prefix):
        raise _refused(url, "the path holds characters that must be percent-encoded")
    tls = parts.scheme == "https"
    return Endpoint(host=host, port=port or (443 if tls else 80), tls=tls, prefix=prefix)


def check_api_key(key: str | None) -> str | None:
    """The key, fit for a header; None for none or an empty one. Raises ``InputRefused``, which does not quote it."""
    if not key:
        return None
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputRefused(
            "the API key holds characters that cannot stand in a header",
            faults=["the API key holds blanks, line ends or characters outside ASCII"],
            remedy="look for a line end at the end of the file or variable it was read from",
        )
    return key


def _refused(url: str, why: str) -> InputRefused:
    return InputRefused(
        f"not the address of an endpoint: {url}",
        faults=[f"not the address of an endpoint: {url} ({why}); accepted: http://HOST:PORT or https://HOST[:PORT]"],
    )
