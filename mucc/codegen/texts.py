"""Parts of kernels without CUTLASS: entry functions, host code, and local names of a launch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mucc.codegen.body import Body
from mucc.codegen.memory import Places

INDICES = (("", "uint32_t"), ("_wide", "uint64_t"))
"""The index types, narrow and wide, in the order of `Code`s."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry function: its name, its parameters, and the call that is its body.

    `bounds` are the most threads of a block, and where given the least blocks of a multiprocessor. `when` is
    a constant: where it is false no launch takes the function, and its body is empty.
    """

    name: str
    parameters: str
    call: str
    bounds: str = "Op::kThreads"
    when: str = ""

    @property
    def text(self) -> str:
        """Emit the definition."""
        condition = f"if constexpr ({self.when}) " if self.when else ""
        return (
            f'extern "C" __global__ void __launch_bounds__({self.bounds})\n'
            f"    {self.name}({self.parameters}) {{\n"
            f"  {condition}{self.call};\n}}"
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """The parts of a kernel without CUTLASS: `data` for host and device, `launch` for the host.

    `entries` are in the order in which `launch` numbers them; one kernel may have several numbers. Bodies
    whose names are in `spliced` are compiled apart, and their PTX is spliced into that of the rest, which
    kernels with other bodies share. With `straight`, all is compiled together if one of them has branches.
    With `alone`, each kernel has an image of its own, so that several processes assemble them.
    """

    data: str
    bodies: list[Body]
    work: str
    entries: list[Entry]
    launch: str
    spliced: frozenset[str] = frozenset()
    straight: bool = False
    alone: bool = False

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, without duplicates."""
        return tuple(dict.fromkeys(e.name for e in self.entries))

    @property
    def has_several_images(self) -> bool:
        """Whether there are several kernels, each in an image of its own."""
        return self.alone and len(self.kernels) > 1

    @property
    def device(self) -> str:
        """Emit the device code, including `data`."""
        return self._device([b.text for b in self.bodies])

    @property
    def skeleton(self) -> str:
        """Emit the device code with markers in place of the bodies that are spliced."""
        apart = self.apart
        return self._device([b.marker(i) if i in apart else b.text for i, b in enumerate(self.bodies)])

    @property
    def apart(self) -> dict[int, Body]:
        """The bodies that are spliced, by their numbers."""
        return {i: b for i, b in enumerate(self.bodies) if b.name in self.spliced}

    def _device(self, bodies: list[str]) -> str:
        return "\n\n".join([*bodies, self.data, self.work, *dict.fromkeys(e.text for e in self.entries)])

    def codes(self, image: str | None) -> str:
        """Emit the table of kernels: in an image with this C++ name, or an array of images, or linked in."""
        several = self.has_several_images
        places = {name: f"[{i}]" if several else "" for i, name in enumerate(self.kernels)}
        lines = [
            f'    {{"{e.name}", &{image}{places[e.name]}}},'
            if image
            else f"    {{nullptr, nullptr, reinterpret_cast<void const*>({e.name})}},"
            for e in self.entries
        ]
        return "\n".join(["mucc::Code codes[] = {", *lines, "};"])


def dim_locals(places: Places, used: set[str]) -> list[str]:
    """Emit `int64_t const M = c.dims[0], …;` for the used dims that are not bound."""
    free = [
        f"{places.dim_names[d]} = c.dims[{i}]"
        for i, d in enumerate(places.program.dim_names)
        if d in used and d not in places.bound
    ]
    return [f"  int64_t const {', '.join(free)};"] if free else []


def used_locals(places: Places, *texts: str) -> list[str]:
    """Emit declarations of the dims and workspace slots that C++ text uses."""
    code = re.sub(r'"(?:[^"\\]|\\.)*"', "", " ".join(texts))
    found = set(re.findall(r"[A-Za-z_]\w*", code))
    lines = dim_locals(places, {d for d, name in places.dim_names.items() if name in found})
    return [*lines, "  Workspace const offsets(c);"] if "offsets" in found else lines
