"""What a layer of the benchmark is: its program, its tensors, and the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Input(NamedTuple):
    """A tensor of random elements: `draw` says of which.

    `normal` numbers; `weight`, normal ones over the root of the last extent; `filter`, normal ones over the
    root of all extents but the first; `positive`, uniform from 0.1 to 1.1; `shares` of 1 along the last axis;
    `signs`; `mask`, 0 and 1; `labels`, integers below `below`; `ends` of equal groups of `below` rows.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    draw: str = "normal"
    below: int = 0

    @property
    def parameter(self) -> str:
        """The parameter of the program, as source."""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Form:
    """A layer: the `body` of its kernel, the types of its `results`, and the same in PyTorch.

    `reference` is an expression over the inputs by name, `torch` and `F`, or statements that return.

    `moved` counts compulsory bytes where they are not those of all inputs and outputs. `rival` names the
    function of other libraries that computes the same. `condition` is by how much the result's relative error
    exceeds that of a rounding where the layer subtracts numbers that are larger than the result.
    """

    group: str
    name: str
    inputs: tuple[Input, ...]
    results: str
    body: str
    reference: str
    has_product: bool = False
    moved: int | None = None
    rival: str = ""
    condition: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def stem(self) -> str:
        return self.key

    @property
    def kernel(self) -> str:
        return self.name.replace("-", "_")

    @property
    def text(self) -> str:
        """The program."""
        parameters = ", ".join(i.parameter for i in self.inputs)
        return f"kernel {self.kernel}({parameters}) -> {self.results} {{\n    {self.body}\n}}\n"

    def in_pytorch(self, torch: Any) -> Callable[..., Any]:
        """Return the layer as a function of its inputs in PyTorch."""
        parameters = ", ".join(i.name for i in self.inputs)
        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(f"def {self.kernel}({parameters}): {statements(self.reference)}", names)
        return names[self.kernel]


def statements(reference: str) -> str:
    """Return an expression as a statement that returns it; statements as they are."""
    return reference if "return " in reference else f"return {reference}"


def tensor(dtype: str, *shape: int) -> str:
    """Return a type as source: `f32[4, 5]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
