"""A kernel as a Python callable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mucc.library.errors import MuccRuntimeError, MuccTypeError, translated
from mucc.library.signature import KernelInfo
from mucc.runtime.foreign import advice, in_main_memory
from mucc.runtime.lists import flattened, has_lists, is_list

if TYPE_CHECKING:
    from mucc.runtime.torch_glue import TorchKernel


class Kernel:
    """One kernel of a loaded library.

    Five ways to call it, from the most convenient to the leanest:

    * `kernel(x, w, b)`: torch tensors by position or by name, outputs are allocated and returned;
    * `kernel.op(x, w, b)`: the torch operator, for `torch.compile` and `torch.export`;
    * `kernel.jax(x, w, b)`: JAX arrays, under `jax.jit` too;
    * `kernel.launch(x, w, b, y)`: any DLPack tensors, outputs included;
    * `kernel.ffi(x, w, b, y)`: the same without a Python layer; errors are plain TypeError and ValueError.

    All run on the tensors' device, on the framework's current stream of that device, asynchronously.
    Results are not differentiable. A `kernel each` also takes lists, of one item for each problem, and then
    returns lists; what is no list is the same for all problems. The leanest way takes all arguments of the
    first problem, then those of the second, and so on.
    """

    def __init__(
        self,
        info: KernelInfo,
        ffi: Callable[..., Any],
        ffi_workspace: Callable[..., Any],
        digest: str = "",
        ffi_entry: Callable[..., int] | None = None,
    ):
        self.info = info
        self.name = info.name
        self.ffi = ffi
        self.ffi_workspace = ffi_workspace
        self.digest = digest
        self._ffi_entry = ffi_entry
        self._names = [a.name for a in info.inputs]
        self._torch: TorchKernel | None = None
        # Bound now, where it can be: torch.compile would otherwise have to trace the registration of the
        # operator.
        if sys.modules.get("torch"):
            self._bind()

    def __call__(
        self, *tensors: Any, out: Any = None, workspace: Any = None, stream: Any = None, **named: Any
    ) -> Any:
        """Run the kernel over torch tensors and Python numbers; returns the output, or a tuple of outputs.

        `out` is a tensor, or one per output, to write into. `workspace` is a uint8 vector on the device,
        else one is kept per device and stream. `stream` is a torch stream or a raw stream handle, else
        torch's current one. Raises `MuccTypeError` and `MuccValueError` with the codes MU6001 to MU6019 and
        MU6040 to MU6042.
        """
        glue = self._torch or self._bind()
        if named:
            tensors = self._by_name(tensors, named)
        if glue.compiling():
            if any(map(is_list, tensors)):
                raise TypeError("MU6040: under torch.compile a kernel takes no lists")
            if out is None and workspace is None and stream is None:
                return glue.op(*tensors)
            # A plain exception: torch.compile cannot trace the constructor of a coded one.
            raise TypeError("MU6040: under torch.compile call a kernel without out, workspace and stream")
        return glue.call(tensors, out, workspace, stream)

    def launch(self, *args: Any) -> None:
        """Run the kernel over inputs, then outputs: DLPack tensors on one CUDA device, and Python numbers.

        One argument more is the workspace (a uint8 vector on the device); without it the library keeps one
        per device and stream. Raises as `__call__` does.
        """
        try:
            self.ffi(*(flattened(self.info, args) if has_lists(self.info, args) else args))
        except Exception as error:
            raise self._about_numpy(args) or translated(error) from None

    def workspace_bytes(self, *args: Any) -> int:
        """Return the bytes of workspace that `launch` needs with these arguments."""
        try:
            return self.ffi_workspace(*(flattened(self.info, args) if has_lists(self.info, args) else args))
        except Exception as error:
            raise translated(error) from None

    def entry(self, *args: Any) -> int:
        """Return the number of the schedule that `launch` takes with these arguments, in `info.entries`.

        0 of a kernel with one schedule. Raises as `launch` does for wrong arguments.
        """
        if self._ffi_entry is None:
            return 0
        try:
            return self._ffi_entry(*args)
        except Exception as error:
            raise translated(error) from None

    def _about_numpy(self, args: tuple[Any, ...]) -> MuccTypeError | None:
        """Return an error about the first NumPy array of a call; None without one."""
        if (place := in_main_memory(args)) is None:
            return None
        names = [a.name for a in self.info.args]
        which = f"argument '{names[place]}'" if place < len(names) else f"argument {place + 1}"
        return MuccTypeError("MU6041", f"{which} of {self.name}: {advice(args[place])}")

    @cached_property
    def jax(self) -> Callable[..., Any]:
        """A function of JAX arrays that runs the kernel. Raises MuccRuntimeError MU6045."""
        from mucc.runtime.jax_glue import jax_function

        return jax_function(self)

    @cached_property
    def op(self) -> Any:
        """The torch operator `torch.ops.mucc.<name>_<hash>.default`."""
        return (self._torch or self._bind()).op

    def _bind(self) -> TorchKernel:
        try:
            from mucc.runtime.torch_glue import TorchKernel
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MuccRuntimeError(
                "MU6042", f"{self.name}(...) needs torch; kernel.launch(...) does not"
            ) from None
        self._torch = TorchKernel(self)
        return self._torch

    def _by_name(self, given: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in calling order. Raises MU6040."""
        names = self._names
        args = list(given) + [named.pop(n) for n in names[len(given) :] if n in named]
        if not named and len(args) == len(names):
            return tuple(args)
        if twice := [n for n in named if n in names]:
            problem = (
                f"argument '{twice[0]}' came twice"
                if twice[0] in names[: len(given)]
                else "an argument is missing"
            )
        elif named:
            problem = f"there is no argument '{next(iter(named))}'"
        else:
            problem = f"{len(names)} arguments are needed, {len(args)} came"
        raise MuccTypeError("MU6040", f"{problem}; the signature is {self.info.signature}")

    def __repr__(self) -> str:
        return f"<mucc.Kernel {self.info.signature}>"
