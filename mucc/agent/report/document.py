"""An HTML page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from mucc.agent.report.markup import Markup, h
from mucc.agent.report.style import SCRIPT, STYLE


def document(title: str, body: Sequence[Markup]) -> str:
    """Return a page with the style and the script of reports."""
    script = Markup(SCRIPT)
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    # Should a text slip through unescaped after all, the page may still load and run nothing.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="generator", content="mucc-agent report"),
        h("title", title),
        h("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{h('html', head, h('body', *body, h('script', script)), lang='en')}\n"
