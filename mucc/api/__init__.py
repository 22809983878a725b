"""The public surface of mucc, for programs that use more of it than `mucc.compile` and `mucc.load`.

| module | for |
|---|---|
| `language` | parse, format and print programs; the reference card and the grammar |
| `compiler` | compile a program to any level; explain its schedules |
| `build` | build libraries, side by side; find the toolchain; read machine code |
| `library` | the signatures that a library carries; complete the dims of a call |
| `schedules` | the settings of schedules; every legal schedule with its estimated time |
| `measure` | plan, build and measure schedules; time calls; compare results with a reference |
| `bounds` | the bounds of programs and PyTorch modules on a card |
| `importer` | run a PyTorch module in a limited child process, and import it |
| `machine` | this machine: its GPU, cores and memory; exclusive use of the GPU |
| `sandbox` | confine processes that run untrusted code |
| `processes` | child processes that end with all that they started |
| `files` | read sources; write files whole or not at all |
| `json_types` | types of the JSON that commands print and libraries carry |
| `diagnostics` | errors and warnings as values, and their texts |
| `progress` | show progress on a terminal |
| `commands` | a command line like that of `mucc` |

    from mucc.api.compiler import compile_text
    from mucc.api.diagnostics import Source

    print(compile_text(Source("f.mcu", text)).emit("cu"))

Names of these modules are imported on first use, so that importing a module loads nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def names_from(module: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """Make the `__getattr__` of `module`, whose names other modules define, by the names of each.

    A name may be a module of a package. Raises AttributeError for any other name.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        if (home := home_of.get(name)) is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from importlib import import_module

        defining = import_module(home)
        try:
            return getattr(defining, name)
        except AttributeError:
            return import_module(f"{home}.{name}")

    return find
