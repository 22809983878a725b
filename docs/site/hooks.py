"""Hooks of the documentation site: its navigation, pages that are generated, and links to what is no page.

The navigation is that of docs/README.md, so that readers of the files and of the site find the same order.
Pages beside the folder (the README, what changed, benchmarks) and the references of commands and Python names
are generated; links to other files of the project become their names.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

BESIDE = {
    "README.md": "project/overview.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/README.md": "project/benchmarks.md",
}
"""Pages that lie beside the folder of documentation, with their places on the site."""

COMMANDS = "reference/commands.md"
API = "reference/api"

_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_ROW = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def on_config(config: Any) -> Any:
    """Make the navigation."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    nav: list[Any] = [
        {"Home": ["README.md", {"Overview": BESIDE["README.md"]}, {"Changes": BESIDE["CHANGELOG.md"]}]}
    ]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title = re.split(r"[:\n]", section)[0].strip()
        rows: list[Any] = [
            {name[0].upper() + name[1:]: _place(path)}
            for name, path in _ROW.findall(section)
            if "decisions/" not in path
        ]
        if title == "Reference":
            rows.append({"Commands": COMMANDS})
            rows.append({"Python names": [f"{API}/index.md", *(f"{API}/{name}.md" for name in _modules())]})
        nav.append({title: rows})
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    nav.append({"Decisions": ["decisions/README.md", *(f"decisions/{name}" for name in decisions)]})
    config["nav"] = nav
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    for path, place in BESIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, COMMANDS, content=_commands()))
    files.append(File.generated(config, f"{API}/index.md", content=_index()))
    for name in _modules():
        files.append(File.generated(config, f"{API}/{name}.md", content=_api(name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Have links lead to pages of the site, and name other files of the project."""
    here = page.file.src_uri
    original = {place: path for path, place in BESIDE.items()}.get(here, f"docs/{here}")
    parts = _CODE.split(markdown)
    # Code may be part of the text of a link: links are found with marks in the place of code.
    kept = {f"\x00{i}\x00": part for i, part in enumerate(parts) if i % 2}
    text = "".join(f"\x00{i}\x00" if i % 2 else part for i, part in enumerate(parts))
    text = _LINK.sub(lambda link: _linked(link, original, here), text)
    for mark, code in kept.items():
        text = text.replace(mark, code)
    return text


def _linked(link: re.Match[str], original: str, here: str) -> str:
    words, target = link.groups()
    if re.match(r"\w+:|#", target):
        return link[0]
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(original), path))
    if path in BESIDE:
        place = BESIDE[path]
    elif path.startswith("docs/") and path.endswith((".md", ".svg", ".png")):
        place = path.removeprefix("docs/")
    else:
        return words if posixpath.basename(path) in words or "\x00" in words else f"{words} (`{path}`)"
    relative = posixpath.relpath(place, posixpath.dirname(here) or ".")
    return f"{'!' * link[0].startswith('!')}[{words}]({relative}{'#' if anchor else ''}{anchor})"


def _place(path: str) -> str:
    """Return where a page that the index names is on the site."""
    path = posixpath.normpath(posixpath.join("docs", path))
    return BESIDE.get(path, path.removeprefix("docs/"))


# References


def _commands() -> str:
    """Print the help of every command."""
    import click

    from mucc.cli.registry import MUCC

    parts = [
        "# Commands\n\nWhat `mucc COMMAND --help` prints; `mucc docs --man FOLDER` writes manual pages.\n"
    ]
    parts.append(f"```text\n{MUCC.help_text()}```\n")
    for name, entry in MUCC.commands.items():
        command = import_module(entry.module).main
        called = MUCC.name if name == MUCC.default else f"{MUCC.name} {name}"
        help = click.Context(command, info_name=called, max_content_width=110, terminal_width=110).get_help()
        parts.append(f"## {called if name != MUCC.default else 'mucc build'}\n\n```text\n{help}\n```\n")
    return "\n".join(parts)


def _modules() -> list[str]:
    """Name the modules of the public surface, after `mucc` itself."""
    names = sorted(path.stem for path in (ROOT / "mucc" / "api").glob("[a-z]*.py"))
    return ["mucc", *names]


def _index() -> str:
    rows = [
        f"| [`{_full(name)}`]({name}.md) | {', '.join(f'`{n}`' for n in _names(name))} |"
        for name in _modules()
    ]
    table = "\n".join(["| module | names |", "|---|---|", *rows])
    return (
        f"# Python names\n\nWhat each module is for is told in [the Python API](../../api.md).\n\n{table}\n"
    )


def _full(name: str) -> str:
    return "mucc" if name == "mucc" else f"mucc.api.{name}"


def _names(name: str) -> list[str]:
    module = import_module(_full(name))
    return sorted(getattr(module, "__all__", ()))


def _api(name: str) -> str:
    """Print a page with the docstrings of a module's names."""
    module = import_module(_full(name))
    parts = [f"# {_full(name)}\n\n{_first(module)}\n"]
    for member in _names(name):
        parts.append(_told(module, member))
    return "\n".join(parts)


def _told(module: Any, member: str) -> str:
    """Print what is known of a name: its docstring by mkdocstrings, or the kind of value that it is."""
    try:
        value = getattr(module, member)
    except ImportError:
        return f"## {member}\n\nNeeds packages that are not installed here.\n"
    home = getattr(value, "__module__", "")
    if (inspect.isclass(value) or inspect.isfunction(value)) and str(home).startswith("mucc."):
        return f"::: {home}.{value.__qualname__}\n"
    if inspect.ismodule(value):
        return f"## {member}\n\nThe module `{value.__name__}`. {_first(value)}\n"
    return f"## {member}\n\nA value of type `{type(value).__name__}`.\n"


def _first(value: Any) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
