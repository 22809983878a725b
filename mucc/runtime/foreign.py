"""Advice for arrays of other frameworks than torch in a call of a kernel."""

from __future__ import annotations


def advice(value: object) -> str:
    """Say how an array that is not torch's reaches a kernel, by the framework that it is of."""
    match type(value).__module__.partition(".")[0]:
        case "numpy":
            return (
                "NumPy's arrays lie in main memory and kernels read the GPU's: copy it there, by "
                "torch.from_numpy(a).cuda() for this call, or by cupy.asarray(a) for kernel.launch(...)"
            )
        case "jax" | "jaxlib":
            return "kernel.jax is the function for JAX's arrays"
        case _:
            return "kernel.launch(...) takes any DLPack tensor"


def in_main_memory(values: tuple[object, ...]) -> int | None:
    """Return the position of the first NumPy array of a call; None where there is none."""
    return next(
        (i for i, v in enumerate(values) if type(v).__module__ == "numpy" and hasattr(v, "shape")), None
    )
