"""The base of the drivers that `mucc import` writes. Importing this imports torch."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from mucc.library.errors import MuccTypeError, MuccValueError
from mucc.runtime.arguments import overlap, taken
from mucc.runtime.prepared import Prepared
from mucc.runtime.views import call_anyhow

torch: Any = importlib.import_module("torch")


class Imported(torch.nn.Module):
    """A module whose forward pass runs compiled kernels, and PyTorch for the rest.

    It keeps the module that it was imported from, whose weights and buffers it uses. Made from the
    constructor's arguments of the problem's `Model`, or by `of(module)` from a module that there is. Results
    have no gradients.
    """

    PROBLEM: str | None = None
    KERNELS: str = ""
    TRAINING: bool = True
    INPUTS: Sequence[tuple[Any, ...]] = ()
    PATHS: Sequence[str] = ()

    def __init__(self, *args: Any, **options: Any):
        torch.nn.Module.__init__(self)
        self._home = _problem(self)
        self._setup(self._home.Model(*args, **options), None, {})

    @classmethod
    def of(cls, module: Any, kernels: Any = None, constants: dict[str, Any] | None = None) -> Imported:
        """Build the driver of a module; `kernels` has its kernels as attributes, None loads them."""
        driver = cls.__new__(cls)
        torch.nn.Module.__init__(driver)
        driver._home = None
        driver._setup(module, kernels, constants or {})
        return driver

    def _setup(self, module: Any, kernels: Any, constants: dict[str, Any]) -> None:
        self.module = module
        self._kernels = kernels
        self._constants = constants
        self._prepared = Prepared()

    @property
    def device(self) -> Any:
        """The device that tensors are made on: that of the arguments of the call."""
        return self._device

    def constant(self, name: str) -> Any:
        """Return a tensor that the module created itself, on the device of the call."""
        return self._constants[name].to(self._device)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        tensors = self._checked(self._leaves(args, keywords))
        self._device = next((t.device for t in tensors if isinstance(t, torch.Tensor)), torch.device("cpu"))
        if self._kernels is None:
            self._kernels = contiguous(load_kernels(_folder(self), self.KERNELS))
        with torch.no_grad():
            return self.run(self._kernels, self.module, *tensors)

    def run(self, kernels: Any, module: Any, *args: Any) -> Any:
        """Run the forward pass; each driver has its own."""
        raise NotImplementedError

    def prepare(self, module: Any) -> Any:
        """Compute what follows from the module's state alone; drivers that need such have their own."""
        raise NotImplementedError

    def prepared(self, state: Sequence[Any]) -> Any:
        """Return what `prepare` computes of these tensors of the module, anew when one has changed."""
        return self._prepared.get(state, lambda: self.prepare(self.module))

    def forget(self) -> None:
        """Drop what was computed of weights: call it after a write to one that torch does not count.

        torch counts changes in place and assignments, but no writes through `.data` and none by a pointer.
        """
        self._prepared.clear()

    def demand(self, holds: bool, condition: str) -> None:
        """Raise MU7050 if the module was not imported for these open extents."""
        if not holds:
            raise MuccValueError("MU7050", f"the program was imported for arguments with {condition}")

    def named(self, home: str, name: str) -> Any:
        """Return a class by its module and name, for results other than plain tuples and dicts."""
        found: Any = self._home
        if found is None or found.__name__ != home:
            found = importlib.import_module(home)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def apart(self, name: str, changed: Any, others: Mapping[str, Any]) -> None:
        """Raise MU7053 if a tensor that the program changes shares memory with another argument."""
        for other, value in others.items():
            if overlap(changed, value):
                raise MuccValueError(
                    "MU7053", f"the module changes '{name}', which shares memory with '{other}'"
                )

    def _leaves(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Any]:
        """Return the arguments as they were imported. Raises MU7050 if others are given."""
        if not self.PATHS and not keywords and len(args) == len(self.INPUTS):
            return args
        names = self.PATHS or list(signature(self.module.forward).parameters)[: len(self.INPUTS)]
        try:
            came = taken(self.module, args, keywords, names)
        except TypeError as error:
            raise MuccTypeError("MU7050", f"the module does not take these arguments: {error}") from None
        if set(came) != set(names):
            raise MuccTypeError(
                "MU7050", f"the arguments {_listed(names)} were imported, {_listed(came)} came"
            )
        return [came[name] for name in names]

    def _checked(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the arguments that the graph takes. Raises MU7050 if one differs from what was imported."""
        dims: dict[str, int] = {}
        if self.module.training != self.TRAINING:
            mode = "train" if self.TRAINING else "eval"
            raise MuccValueError("MU7051", f"the module was imported in another mode: call {mode}() on it")
        found: list[Any] = []
        for value, (name, expected, *shape) in zip(leaves, self.INPUTS, strict=True):
            if name is None:
                if value is not expected and (type(value) is not type(expected) or value != expected):
                    came = "a tensor" if isinstance(value, torch.Tensor) else repr(value)
                    raise MuccValueError(
                        "MU7050", f"an argument was {expected!r} at the import and is {came}"
                    )
                continue
            if expected is float:
                if not isinstance(value, int | float):
                    raise MuccTypeError("MU7050", f"'{name}' must be a number, not {type(value).__name__}")
                found.append(float(value))
                continue
            _check_tensor(name, value, expected, shape[0], dims)
            found.append(value)
        return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def contiguous(library: Any) -> Any:
    """Return the kernels of a library in a form that takes tensors with any strides."""
    return _Contiguous(library)


class _Contiguous:
    """The kernels of a library, called with tensors as they lie in memory by then."""

    def __init__(self, library: Any):
        self.library = library

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self.library, name)

        def call(*args: Any) -> Any:
            return call_anyhow(kernel, args)

        setattr(self, name, call)
        return call


def _check_tensor(
    name: str, value: Any, dtype: Any, shape: Sequence[int | str], dims: dict[str, int]
) -> None:
    """Raise MU7050 for a tensor of another shape. Open extents are bound in `dims`, once for all tensors."""
    if not isinstance(value, torch.Tensor):
        raise MuccTypeError("MU7050", f"'{name}' must be a tensor, not {type(value).__name__}")
    fits = len(shape) == value.dim() and all(
        (dims.setdefault(e, n) if isinstance(e, str) else e) == n
        for e, n in zip(shape, value.shape, strict=False)
    )
    if value.dtype != dtype or not fits:
        extents = ", ".join(f"{e}={dims[e]}" if e in dims else str(e) for e in shape)
        expected = f"{str(dtype).removeprefix('torch.')}[{extents}]"
        came = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        raise MuccValueError("MU7050", f"'{name}' was imported as {expected}, and is {came}")


def _folder(driver: Imported) -> Path:
    # Not by inspect.getfile, which wants the module of the class to be registered.
    run: Any = type(driver).run
    return Path(run.__code__.co_filename).resolve().parent


def _problem(driver: Imported) -> Any:
    """Load the problem file of a driver as a module."""
    if driver.PROBLEM is None:
        raise MuccTypeError("MU7052", "this driver has no problem file: make it by `ModelNew.of(module)`")
    path = _folder(driver) / driver.PROBLEM
    spec = importlib.util.spec_from_file_location("mucc_problem", path)
    if spec is None or spec.loader is None or not path.exists():
        raise MuccTypeError("MU7052", f"the problem file {path} is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_kernels(folder: Path, name: str) -> Any:
    """Load the kernels of a program: the library beside it if that is newer, else compile the program now."""
    if not name:
        return None
    source = folder / name
    library = source.with_suffix(".so")
    if library.exists() and library.stat().st_mtime >= source.stat().st_mtime:
        from mucc.runtime.module import load

        return load(library)
    from mucc.runtime.build import compile

    return compile(source.read_text(), name=str(source))
