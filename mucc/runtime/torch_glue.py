"""Torch's side of a kernel: output allocation, workspace, stream, operator. Importing this imports torch."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mucc.files.process_lock import ProcessLock
from mucc.library.errors import MuccTypeError, translated
from mucc.library.extents import Polynomial, Source, polynomial
from mucc.library.signature import ITEM_BYTES, PACKED, Arg
from mucc.runtime.foreign import advice
from mucc.runtime.lists import has_lists, is_list, problems

if TYPE_CHECKING:
    from mucc.runtime.kernel import Kernel

# Untyped, since mucc is also type-checked where there is no torch.
torch: Any = importlib.import_module("torch")
Tensor = Any

DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "s8": torch.int8,
    "u8": torch.uint8,
    "s32": torch.int32,
    "s4": torch.uint8,
    "u4": torch.uint8,
}
_PLAIN = {torch.Tensor, torch.nn.Parameter, float, int, bool}
_LIBRARY = torch.library.Library("mucc", "FRAGMENT")


def packed_strides(arg: Arg, shape: Sequence[Any]) -> list[Any]:
    """Return the strides, in elements, that an output of explicit strides is allocated with.

    Fixed strides stay; a free one, from the last axis outwards, is the smallest that neither overlaps nor
    is misaligned.
    """
    strides = list(arg.layout)
    unit = max(arg.align // ITEM_BYTES[arg.dtype], 1)
    span = 1
    for extent, stride in zip(shape, strides, strict=True):
        if stride is not None:
            span = max(span, stride * extent)
    for axis in reversed(range(len(shape))):
        if strides[axis] is None:
            strides[axis] = -(-span // unit) * unit
            span = strides[axis] * shape[axis]
    return strides


def _has_own_rules(value: Any) -> bool:
    """Whether a value is a tensor subclass, whose dispatch must see an operator, not a foreign call."""
    return isinstance(value, torch.Tensor) and type(value) not in _PLAIN


def _current_device() -> Any:
    """Return the device of kernels that read no tensor; without a GPU the CPU, which libraries refuse."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


class TorchKernel:
    """What `Kernel.__call__` does with torch tensors."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.compiling: Callable[[], bool] = torch.compiler.is_compiling
        info = kernel.info
        self.ffi = kernel.ffi
        self.n_inputs = len(info.inputs)
        self.n_outputs = len(info.outputs)
        self.needs_workspace = info.workspace
        self.first_tensor = next((i for i, a in enumerate(info.inputs) if a.role == "input"), None)
        self._workspaces: dict[tuple[int, int], Tensor] = {}
        self._sources = info.sources
        # Per output, per axis: a number, or (argument, axis, factor) to read it from, or a polynomial.
        self._plans = [(a, DTYPES[a.dtype], [self._place(e) for e in a.shape]) for a in info.outputs]
        self._derives = any(isinstance(p, Polynomial) for _, _, plan in self._plans for p in plan)
        self._simple = all(a.layout == "row_major" for a in info.outputs)
        self.op: Any = self._register()

    def _place(self, extent: str | int) -> int | tuple[int, int, int] | Polynomial:
        if isinstance(extent, int):
            return extent
        info = self.kernel.info
        bound = {name: value for name, value in info.dims.items() if value is not None}
        form = polynomial(extent).with_values(bound)
        if (number := form.constant) is not None:
            return number
        source = self._sources.get(extent)
        if source is None or not source.is_plain:
            return form
        return source.array, source.axis, self._packing(source)

    def _packing(self, source: Source) -> int:
        """Return how many elements each entry of an input's axis holds."""
        arg = self.kernel.info.inputs[source.array]
        return 2 if arg.dtype in PACKED and source.axis == len(arg.shape) - 1 else 1

    def _dims(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Return the value of every open dim, which may be symbolic."""
        dims: dict[str, Any] = {}
        for name, source in self._sources.items():
            extent = tensors[source.array].shape[source.axis] * self._packing(source)
            dims[name] = source.at(dims, extent)
        return dims

    def _extent(
        self, place: int | tuple[int, int, int] | Polynomial, tensors: Sequence[Any], dims: dict[str, Any]
    ) -> Any:
        match place:
            case int():
                return place
            case Polynomial():
                return place.at(dims)
            case (argument, axis, factor):
                return tensors[argument].shape[axis] * factor

    def allocate(self, tensors: Sequence[Any]) -> list[Tensor]:
        """Empty outputs for these inputs, on the device of the call. Extents may be symbolic."""
        first = self.first_tensor
        device = _current_device() if first is None else tensors[first].device
        outs: list[Tensor] = []
        dims = self._dims(tensors) if self._derives else {}
        for arg, dtype, plan in self._plans:
            shape = [self._extent(p, tensors, dims) for p in plan]
            if self._simple or arg.layout == "row_major":
                outs.append(torch.empty(shape, dtype=dtype, device=device))
            elif arg.layout == "col_major":
                shape[-2:] = reversed(shape[-2:])
                out = torch.empty(shape, dtype=dtype, device=device)
                outs.append(out.transpose(-1, -2) if len(shape) > 1 else out)
            else:
                outs.append(
                    torch.empty_strided(shape, packed_strides(arg, shape), dtype=dtype, device=device)
                )
        return outs

    def call(self, tensors: Sequence[Any], out: Any, workspace: Any, stream: Any) -> Any:
        """Call a kernel as `Kernel.__call__` does. Fake tensors go through the operator."""
        if stream is not None:
            with torch.cuda.stream(self._stream(stream, tensors)):
                return self.call(tensors, out, workspace, None)
        if not _PLAIN.issuperset(map(type, tensors)):
            if has_lists(self.kernel.info, tensors):
                return self.run_lists(tensors, out, workspace)
            if any(map(_has_own_rules, tensors)):
                return self.op(*tensors)
        return self.run(tensors, out, workspace)

    def run(self, tensors: Sequence[Any], out: Any = None, workspace: Any = None) -> Any:
        """Allocate what is missing, and launch."""
        if len(tensors) != self.n_inputs:
            raise self._blame(tensors) or AssertionError
        if out is None:
            try:
                outs = self.allocate(tensors)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                raise self._blame(tensors) or error from None
            if outs[0].is_meta:
                return outs[0] if self.n_outputs == 1 else tuple(outs)
        else:
            outs = [*out] if type(out) in (list, tuple) else [out]
        try:
            if self.needs_workspace and workspace is None:
                workspace = self._workspace(tensors, outs)
            if workspace is None:
                self.ffi(*tensors, *outs)
            else:
                self.ffi(*tensors, *outs, workspace)
        except Exception as error:
            raise self._blame(tensors, outs) or translated(error) from None
        return outs[0] if self.n_outputs == 1 else tuple(outs)

    def run_apart(self, tensors: Sequence[Any]) -> list[Tensor]:
        """Launch with outputs and a workspace that belong to this call alone; returns the outputs.

        All memory is torch's, taken and given back in stream order, as the memory pools of CUDA graphs need.
        """
        try:
            outs = self.allocate(tensors)
            size = self.kernel.ffi_workspace(*tensors, *outs) if self.needs_workspace else 0
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise self._blame(tensors) or translated(error) from None
        workspace = torch.empty(size, dtype=torch.uint8, device=outs[0].device) if size else None
        try:
            self.ffi(*tensors, *outs, *([] if workspace is None else [workspace]))
        except Exception as error:
            raise self._blame(tensors, outs) or translated(error) from None
        return outs

    def run_lists(self, tensors: Sequence[Any], out: Any, workspace: Any) -> Any:
        """As `run`, for lists of problems: each output is a list. Of no problems, an empty one."""
        info = self.kernel.info
        if len(tensors) != self.n_inputs:
            raise self._blame(tensors) or AssertionError
        given = problems(info, [a.name for a in info.inputs], tensors)
        if out is None:
            outs = [self.allocate(problem) for problem in given]
        else:
            lists = [out] if self.n_outputs == 1 else list(out)
            if len(lists) != self.n_outputs or any(not is_list(o) or len(o) != len(given) for o in lists):
                what = f"out= is a list of {len(given)} tensors for each of {self.n_outputs} outputs"
                raise MuccTypeError("MU6044", f"{info.name}: {what}")
            outs = [list(of_problem) for of_problem in zip(*lists, strict=True)]
        if given:
            *first, last = [[*problem, *own] for problem, own in zip(given, outs, strict=True)]
            flat = [value for problem in first for value in problem] + last
            try:
                if self.needs_workspace and workspace is None:
                    workspace = self._workspace(flat[: -self.n_outputs], outs[-1])
                self.ffi(*flat, *([] if workspace is None else [workspace]))
            except Exception as error:
                raise translated(error) from None
        found = [[own[i] for own in outs] for i in range(self.n_outputs)]
        return found[0] if self.n_outputs == 1 else tuple(found)

    def _stream(self, stream: Any, tensors: Sequence[Any]) -> Any:
        if isinstance(stream, torch.cuda.Stream):
            return stream
        if isinstance(stream, int):
            if self.first_tensor is None:
                return torch.cuda.ExternalStream(stream, device=_current_device())
            first = tensors[self.first_tensor]
            return torch.cuda.ExternalStream(stream, device=(first[0] if is_list(first) else first).device)
        raise MuccTypeError(
            "MU6040", f"{self.kernel.name}: stream must be a torch stream or a handle, got {stream!r}"
        )

    def _workspace(self, tensors: Sequence[Any], outs: Sequence[Tensor]) -> Tensor:
        """Return the workspace of this call: one for each device and stream, a new one for a graph."""
        if not (size := self.kernel.ffi_workspace(*tensors, *outs)):
            return None
        device = outs[0].device
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                return torch.empty(size, dtype=torch.uint8, device=device)
            key = (outs[0].get_device(), torch.cuda.current_stream().cuda_stream)
            found = self._workspaces.get(key)
            if found is None or found.numel() < size:
                found = self._workspaces[key] = torch.empty(size, dtype=torch.uint8, device=device)
            return found

    def _blame(self, tensors: Sequence[Any], outs: Sequence[Any] | None = None) -> BaseException | None:
        """Return an error about the arguments that the library cannot detect itself."""
        name, inputs = self.kernel.name, self.kernel.info.inputs
        if len(tensors) != self.n_inputs:
            came = f"{len(inputs)} arguments are needed, {len(tensors)} came"
            return MuccTypeError("MU6040", f"{came}; the signature is {self.kernel.info.signature}")
        for arg, value in zip(inputs, tensors, strict=True):
            if arg.role == "input" and hasattr(value, "__dlpack__") and not isinstance(value, torch.Tensor):
                what = f"expected a torch tensor, got {type(value).__module__}.{type(value).__name__}"
                return MuccTypeError("MU6041", f"argument '{arg.name}' of {name}: {what}; {advice(value)}")
        if outs is not None:
            if len(outs) == self.n_outputs:
                return None
            return MuccTypeError("MU6040", f"{name} has {self.n_outputs} outputs, out= holds {len(outs)}")
        try:
            # The library goes through the inputs first, and says what is wrong with them.
            self.ffi(*tensors, *[None] * self.n_outputs)
        except Exception as error:
            return translated(error)
        return None

    def _register(self) -> Any:
        """Define the operator, with what it does and what it would return.

        The name holds a hash of program and signature, since an operator lives as long as the process: two
        libraries of the same program share one, which launches the library that was loaded last.
        """
        info = self.kernel.info
        digest = hashlib.sha256(f"{self.kernel.digest}{info}".encode()).hexdigest()[:12]
        name = f"{info.name}_{digest}"
        with _registering.held():  # threads that load one library find an operator that is complete
            _IMPLEMENTATIONS[name] = self
            self._define(name)
        return getattr(torch.ops.mucc, name).default

    def _define(self, name: str) -> None:
        """Define the operator, if no library has yet."""
        info = self.kernel.info
        if not hasattr(torch.ops.mucc, name):
            params = ", ".join(
                f"{'float' if a.role == 'scalar' else 'Tensor'} a{i}" for i, a in enumerate(info.inputs)
            )
            result = "Tensor" if self.n_outputs == 1 else f"({', '.join(['Tensor'] * self.n_outputs)})"
            _LIBRARY.define(f"{name}({params}) -> {result}")

            def run(*tensors: Any) -> Any:
                return _IMPLEMENTATIONS[name].run(tensors)

            def fake(*tensors: Any) -> Any:
                outs = _IMPLEMENTATIONS[name].allocate(tensors)
                return outs[0] if len(outs) == 1 else tuple(outs)

            # For every backend: a tensor on the CPU is then refused by name, like everything else that does
            # not fit.
            _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
            torch.library.register_fake(f"mucc::{name}", fake, lib=_LIBRARY)


_registering = ProcessLock()

_IMPLEMENTATIONS: dict[str, TorchKernel] = {}
