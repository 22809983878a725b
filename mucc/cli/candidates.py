"""Shell completion: functions that list candidates for the values of parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mucc.cli.parameters import Complete


def files(*suffixes: str) -> Complete:
    """Complete folders, and files with one of the suffixes, or all files if none is given."""
    return _entries(lambda entry: entry.is_file() and (not suffixes or entry.name.endswith(suffixes)))


def folders() -> Complete:
    """Complete folders."""
    return _entries(lambda entry: False)


def _entries(wanted: Callable[[os.DirEntry[str]], bool]) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        folder, start = os.path.split(incomplete)
        prefix = incomplete[: len(incomplete) - len(start)]
        found: list[CompletionItem] = []
        for entry in _scanned(os.path.expanduser(folder) or "."):
            hidden = entry.name.startswith(".") and not start.startswith(".")
            if hidden or not entry.name.startswith(start) or not entry.name.isprintable():
                continue
            if entry.is_dir():
                found.append(CompletionItem(f"{prefix}{entry.name}/", "dir"))
            elif wanted(entry):
                found.append(CompletionItem(f"{prefix}{entry.name}", "file"))
        return sorted(found, key=lambda item: str(item.value))

    return complete


def _scanned(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def words(known: Callable[[], Iterable[str]]) -> Complete:
    """Complete words; `known` is called when candidates are needed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in known() if word.startswith(incomplete)]

    return complete


def target_names() -> list[str]:
    """List the names of targets."""
    from mucc.target import target_names

    return sorted(target_names())


def card_names() -> list[str]:
    """List the names of known cards."""
    from mucc.target.devices import cards

    return sorted(cards())


def pass_names() -> list[str]:
    """List the names of passes."""
    from mucc.passes import get_all_passes

    return sorted(get_all_passes())


def codes() -> list[str]:
    """List the codes of diagnostics."""
    from mucc.diagnostics.codes import CODES

    return list(CODES)
