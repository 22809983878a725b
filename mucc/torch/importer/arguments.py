"""The arguments of a captured call, as leaves by parameter."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.runtime import arguments as runtime

torch: Any = importlib.import_module("torch")


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, in the order of the parameters of `forward`."""

    bound: inspect.BoundArguments

    @staticmethod
    def of(module: Any, args: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Arguments:
        """Bind arguments to parameters. Raises TypeError for arguments that the module does not take."""
        return Arguments(runtime.bound(module, args, keywords or {}))

    @property
    def by_path(self) -> dict[str, Any]:
        """List the leaves of the arguments by parameter and path, in the order of the graph's inputs."""
        return runtime.leaves(self.bound.arguments)

    @property
    def leaves(self) -> list[Any]:
        return list(self.by_path.values())

    @property
    def is_plain(self) -> bool:
        """Whether all values are positional leaves."""
        names = list(self.bound.signature.parameters)[: len(self.bound.arguments)]
        return not self.bound.kwargs and list(self.by_path) == names

    def with_leaves(self, leaves: Sequence[Any]) -> Arguments:
        """Copy the call with other leaves."""
        spec = torch.utils._pytree.tree_structure(dict(self.bound.arguments))
        return Arguments(inspect.BoundArguments(self.bound.signature, spec.unflatten(list(leaves))))

    def apart(self, module: Any) -> Arguments:
        """Copy the call with tensors that share no memory: torch distinguishes inputs by identity.

        Values of those that shared memory are not kept.
        """
        seen = {storage_of(t) for t in tensors_of(module)}
        made: list[Any] = []
        for leaf in self.leaves:
            if isinstance(leaf, torch.Tensor) and (storage := storage_of(leaf)) is not None:
                alone = (
                    leaf.detach()
                    if storage not in seen
                    else leaf.new_empty_strided(leaf.shape, leaf.stride())
                )
                seen.add(storage)
                leaf = alone.requires_grad_(leaf.requires_grad)
            made.append(leaf)
        return self.with_leaves(made)


def tensors_of(module: Any) -> Iterator[Any]:
    """List the parameters, buffers and tensor attributes of a module and its submodules."""
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():
        own: dict[str, Any] = part.__dict__
        yield from (value for value in own.values() if isinstance(value, torch.Tensor))


def storage_of(tensor: Any) -> int | None:
    """Identify the storage of a tensor; None for tensors without ordinary storage."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None
