"""Remove keys from texts before they are stored or shown."""

from __future__ import annotations

import os
import re

REDACTED = "[redacted]"

SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
"""Variables of the environment whose names hold one of these are secrets."""

SHORTEST = 8
"""Characters of a secret at the least: shorter values stand in texts by chance."""

_KEYS = re.compile(
    r"""
    \b(?:sk|pk|rk|xai|gsk|hf|r8|pplx|nvapi|glpat|github_pat|gh[oprsu])[-_][A-Za-z0-9_\-]{12,}
    | \bAIza[A-Za-z0-9_\-]{30,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bxox[a-z]-[A-Za-z0-9\-]{10,}
    | \beyJ[A-Za-z0-9_\-]{8,999}\.[A-Za-z0-9_\-]{8,9999}\.[A-Za-z0-9_\-]*
    | -----BEGIN[ A-Z]{0,40}PRIVATE[ ]KEY-----.*?(?:-----END[ A-Z]{0,40}PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(
    r"""
    (?P<name>\b(?:x-)?api[-_]?key\b|\bauthorization\b|\baccess[-_]token\b|\bbearer\b|\bpassword\b|\bsecret\b)
    (?P<between>["']?[ ]{0,4}[:=]?[ ]{0,4}["']?(?:(?:bearer|basic)[ ]{1,4})?)
    (?P<value>[A-Za-z0-9_\-\.+/=*]{8,})
    """,
    re.VERBOSE | re.IGNORECASE,
)
_USERINFO = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.\-]{0,20}://)[^/\s@\"']{1,999}@", re.IGNORECASE)


def redact(text: str, *known: str) -> str:
    """Return the text without anything that looks like a key, and without `known` secrets and those of the
    environment.
    """
    for secret in sorted({*known, *_secrets()}, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, REDACTED)
    text = _KEYS.sub(REDACTED, text)
    text = _USERINFO.sub(rf"\g<scheme>{REDACTED}@", text)
    return _NAMED.sub(_without_value, text)


def holds_key(text: str) -> bool:
    """Whether a text holds what looks like a key."""
    return redact(text) != text


def _without_value(found: re.Match[str]) -> str:
    if not any(c.isdigit() for c in found["value"]) or found["value"] == REDACTED:  # a word, not a key
        return found[0]
    return f"{found['name']}{found['between']}{REDACTED}"


def _secrets() -> set[str]:
    return {value for name, value in os.environ.items() if any(s in name.upper() for s in SECRET_NAMES)}
