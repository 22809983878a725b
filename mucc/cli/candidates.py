"""What the values of parameters can be, for completion in shells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mucc.cli.parameters import Complete


def files(*suffixes: str) -> Complete:
    """Files whose names end in one of the suffixes, all files where there is none, and folders."""
    return _entries(lambda entry: entry.is_file() and (not suffixes or entry.name.endswith(suffixes)))


def folders() -> Complete:
    """Folders."""
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
    """The entries of a folder; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def words(known: Callable[[], Iterable[str]]) -> Complete:
    """Words that are known when they are asked for."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in known() if word.startswith(incomplete)]

    return complete


def target_names() -> list[str]:
    """The GPUs that can be compiled for."""
    from mucc.target import target_names

    return sorted(target_names())


def card_names() -> list[str]:
    """The cards that are known."""
    from mucc.target.devices import cards

    return sorted(cards())


def pass_names() -> list[str]:
    """The passes of the compiler."""
    from mucc.passes import get_all_passes

    return sorted(get_all_passes())


def codes() -> list[str]:
    """The codes of diagnostics."""
    from mucc.diagnostics.codes import CODES

    return list(CODES)
