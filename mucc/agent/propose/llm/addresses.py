"""Addresses of endpoints: what a base URL may be, and that it holds no secret."""

from __future__ import annotations

from urllib.parse import urlsplit

from mucc.agent.propose.llm.redaction import redact
from mucc.api.diagnostics import Diagnostic, DiagnosticError


def checked_address(url: str) -> str:
    """Return a base URL as it is. Raises MU7239 where it is none, or may hold a secret."""
    shown = redact(url)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _bad_address(f"'{shown}' is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _bad_address(f"'{shown}' is no URL of an endpoint", "it begins with https:// or http://")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        helps = ("keep the key in a variable of the environment: --key-env NAME",)
        raise _bad_address("a base URL must hold neither a user, a password nor parameters", *helps)
    return url


def _bad_address(message: str, *helps: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("MU7239", message, helps=helps))
