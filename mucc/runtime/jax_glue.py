"""A kernel as a function of JAX arrays, through jax-tvm-ffi. Importing this imports JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mucc.library.errors import MuccRuntimeError, MuccTypeError, MuccValueError
from mucc.library.signature import PACKED, Arg, KernelInfo

if TYPE_CHECKING:
    from mucc.runtime.kernel import Kernel

DTYPES = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
    "s4": "uint8",
    "u4": "uint8",
}
"""JAX's names of dtypes."""

INSTALL = "pip install jax-tvm-ffi"


def jax_function(kernel: Kernel) -> Callable[..., Any]:
    """Return a function of JAX arrays that launches a kernel, under `jax.jit` too.

    Shapes are those of the call, and outputs are allocated by XLA. Not differentiable. Raises
    MuccRuntimeError MU6045 where JAX or jax-tvm-ffi is missing, and for kernels that JAX cannot call.
    """
    info = kernel.info
    jax, bridge = _module("jax", kernel), _module("jax_tvm_ffi", kernel)
    for arg in info.args:
        if arg.role == "scalar":
            raise _unsupported(info, arg, "is a number by value, and XLA passes arrays: declare it f32[]")
        if arg.layout != "row_major":
            raise _unsupported(info, arg, "is not contiguous row by row, as arrays of XLA are")
    target = f"mucc_{info.ffi}_{kernel.digest[:16]}"
    # A library allocates its own workspace, which it cannot while a graph is captured.
    bridge.register_ffi_target(
        target, kernel.ffi, ["args", "rets"], platform="gpu", allow_cuda_graph=not info.workspace
    )

    def call(*arrays: Any) -> Any:
        dims = _dims(info, arrays)
        shapes = [
            jax.ShapeDtypeStruct(a.stored(dims) if a.shape else (), DTYPES[a.dtype]) for a in info.outputs
        ]
        found = jax.ffi.ffi_call(target, shapes[0] if len(shapes) == 1 else tuple(shapes))(*arrays)
        return found if len(shapes) == 1 else tuple(found)

    call.__name__ = call.__qualname__ = info.name
    call.__doc__ = info.signature
    return call


def _module(name: str, kernel: Kernel) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{kernel.name}.jax needs {name}, which is not installed ({INSTALL})"
        raise MuccRuntimeError("MU6045", message) from None


def _unsupported(info: KernelInfo, arg: Arg, why: str) -> MuccRuntimeError:
    return MuccRuntimeError("MU6045", f"JAX cannot call {info.name}: its argument '{arg.name}' {why}")


def _dims(info: KernelInfo, arrays: Sequence[Any]) -> dict[str, int]:
    """Read the open dims off the arrays, and check dtypes and ranks, since XLA allocates before the call."""
    if len(arrays) != len(info.inputs):
        message = (
            f"{len(info.inputs)} arguments are needed, {len(arrays)} came; the signature is {info.signature}"
        )
        raise MuccTypeError("MU6040", message)
    for arg, array in zip(info.inputs, arrays, strict=True):
        if str(array.dtype) != DTYPES[arg.dtype]:
            message = f"argument '{arg.name}' of {info.name}: expected {arg.dtype}, got {array.dtype}"
            raise MuccTypeError("MU6003", message)
        if len(array.shape) != len(arg.shape):
            what = f"expected rank {len(arg.shape)}, got shape {array.shape}"
            message = f"argument '{arg.name}' of {info.name}: {what}"
            raise MuccValueError("MU6004", message)
    dims = {name: value for name, value in info.dims.items() if value is not None}
    for name, source in info.sources.items():
        arg = info.inputs[source.array]
        packed = arg.dtype in PACKED and source.axis == len(arg.shape) - 1
        dims[name] = source.at(dims, int(arrays[source.array].shape[source.axis]) * (2 if packed else 1))
    return dims
