"""Try one program: compile, build, run, compare. Runs in a worker process, which a wrong kernel may end."""

from __future__ import annotations

import importlib
import random
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.drafts import Program
from bench.gpu_fuzz.inputs import SCALED, SHIFTED, draw, draw_dims
from bench.gpu_fuzz.judge import judge
from bench.gpu_fuzz.programs import ALL_TARGETS, TARGETS, generate
from bench.gpu_fuzz.reference import Bounded
from bench.host.contractions import NotOnHost
from mucc.build.artefact import Request, build
from mucc.build.pool import Pool
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics.core import DiagnosticError, Severity, Source
from mucc.library.errors import MuccError
from mucc.library.signature import PACKED, KernelInfo, Manifest
from mucc.measure.verify import against, references
from mucc.runtime.torch_glue import DTYPES

torch: Any = importlib.import_module("torch")

Stage = Literal["interpret", "build", "prepare", "run", "host"]
"""How far a program is taken: compared on the CPU, built for any target, or run on a GPU.

`prepare` builds what a run takes from the cache. `host` runs the C++ of light kernels on the CPU, where
each access of memory is checked, and contractions are stand-ins.
"""

MOST_ON_HOST = 1 << 17
"""The most elements of all tensors on the host, where a million of them take seconds."""

GUARD = 256
"""Bytes around outputs that no kernel may write."""


@dataclass
class Outcome:
    """The outcome of a program.

    `kind` is good, refused (a coded error before the toolchain, in `code`), or a finding: rejected (by
    nvcc), wrong (on the GPU), refused_call (a call that the signature allows), false_alarm (right, and called
    wrong by the judge of `mucc run`), interpreter or lowered (wrong on the CPU), internal (an exception that
    is no coded error), crashed.
    """

    kind: str
    text: str = ""
    form: str = ""
    target: str = ""
    choices: Sequence[int] = ()
    code: str = ""
    detail: str = ""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    runs: int = 0
    seconds: float = 0.0

    @property
    def is_finding(self) -> bool:
        return self.kind not in ("good", "refused")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def attempt(choices: Choices, stage: Stage, runs: int, cores: int = 2) -> Outcome:
    """Draw a program and take it as far as `stage` says, with `runs` different calls."""
    began = time.monotonic()
    program = generate(choices, ALL_TARGETS if stage == "build" else TARGETS)
    outcome = Outcome("good", program.text, program.form, program.target, program.choices)
    try:
        _try(program, stage, runs, cores, outcome)
    except DiagnosticError as error:
        first = next(d for d in error.diagnostics if d.severity is Severity.ERROR)
        outcome.code, outcome.detail = first.code, str(error)[:2000]
        toolchain = first.code.startswith("MU5")
        outcome.kind = "rejected" if toolchain else "internal" if first.code.startswith("MU9") else "refused"
    except NotOnHost as error:
        outcome.kind, outcome.code, outcome.detail = "refused", "not on the host", str(error)
    except MuccError as error:
        # A driver that refuses anything does so because a kernel before has failed.
        kind = "wrong" if error.code == "MU6016" else "refused_call"
        outcome.kind, outcome.code, outcome.detail = kind, error.code, str(error)[:2000]
    except Exception as error:
        if "CUDA" in str(error) or "cuda" in str(error):
            raise  # this process is of no more use
        outcome.kind, outcome.detail = "internal", f"{type(error).__name__}: {error}"[:2000]
    outcome.seconds = round(time.monotonic() - began, 2)
    return outcome


def _try(program: Program, stage: Stage, runs: int, cores: int, outcome: Outcome) -> None:
    source = Source("f.mcu", program.text)
    compilation = compile_text(source, Options(program.target, dims=program.hints, tuned=False))
    compilation.sink.raise_if_errors()
    info = Manifest.parse(compilation.manifest).kernels[0]
    rng = random.Random(f"{program.choices}")
    varied = None in info.dims.values() or program.form in (*SHIFTED, *SCALED)
    most = MOST_ON_HOST if stage == "host" else None
    sizes = [draw_dims(program, info, rng, most) for _ in range(runs if varied else 1)]
    calls = [dims for dims in sizes if dims is not None]
    if not calls:
        outcome.kind, outcome.code = "refused", "no sizes keep the promises"
        return
    if stage == "interpret":
        compilation.emit("cu")
        for dims in calls:
            _interpreted(program, compilation, info, dims, rng, outcome)
            outcome.runs += 1
            if outcome.is_finding:
                return
        return
    if stage == "host":
        _run_on_host(program, compilation, calls, rng, outcome)
        return
    data = program.text.encode()
    request = Request(data, "f.mcu", "so", program.target, dims=program.hints, tuned=False, timeout=400)
    with Pool(cores, 16 << 30) as pool:
        built = build(request, pool=pool)
    if stage == "run":
        device = torch.device("cuda", torch.cuda.current_device())
        _run(program, compilation, _loaded(built.data), device, calls, rng, outcome)


def _interpreted(
    program: Program,
    compilation: Compilation,
    info: KernelInfo,
    dims: Mapping[str, int],
    rng: random.Random,
    outcome: Outcome,
) -> None:
    """Compare the interpreters of program and lowered program with the reference."""
    arguments, values = draw(program, info, dims, rng, "cpu")
    expected = program.expected(dims, values)
    arrays = [torch.tensor(a) if isinstance(a, float) else a for a in arguments]
    for kind, interpret in (
        ("interpreter", compilation.interpret),
        ("lowered", compilation.interpret_lowered),
    ):
        for output, found, wanted in zip(info.outputs, interpret(info.name, arrays), expected, strict=True):
            if finding := judge(output.name, output.dtype, torch.as_tensor(found), wanted):
                outcome.kind, outcome.detail, outcome.dims = kind, str(finding), dims
                return


def _loaded(library: bytes) -> Any:
    """Load the kernel of a library."""
    from mucc.runtime.module import load

    with tempfile.TemporaryDirectory(prefix="mucc-fuzz-") as folder:
        path = Path(folder, "f.so")
        path.write_bytes(library)
        return load(path)["f"]


def _run_on_host(
    program: Program,
    compilation: Compilation,
    calls: Sequence[Mapping[str, int]],
    rng: random.Random,
    outcome: Outcome,
) -> None:
    """Call the C++ of the kernels on the CPU, compare."""
    from bench.host.calls import PROCESSORS, HostKernel

    with tempfile.TemporaryDirectory(prefix="mucc-fuzz-") as folder:
        kernel = HostKernel(compilation, Path(folder), rng.choice(PROCESSORS))
        _run(program, compilation, kernel, torch.device("cpu"), calls, rng, outcome)


def _run(
    program: Program,
    compilation: Compilation,
    kernel: Any,
    device: Any,
    calls: Sequence[Mapping[str, int]],
    rng: random.Random,
    outcome: Outcome,
) -> None:
    """Call a kernel, compare."""
    info = kernel.info
    if detail := _taken_without_elements(kernel, calls[0], device):
        outcome.kind, outcome.detail = "wrong", detail
        return
    lists = [list(calls)] if program.each and len(calls) > 1 else []
    for problems in [*([c] for c in calls), *lists]:
        drawn = [draw(program, info, dims, rng, device) for dims in problems]
        outputs = [[_Guarded(a.extents(dims), a.dtype, device) for a in info.outputs] for dims in problems]
        given = [[*d[0], *(o.tensor for o in own)] for d, own in zip(drawn, outputs, strict=True)]
        outcome.dims = dict(problems[0])
        kernel.launch(*(given[0] if len(given) == 1 else map(list, zip(*given, strict=True))))
        if device.type == "cuda":
            torch.cuda.synchronize()
        for dims, (arguments, values), own in zip(problems, drawn, outputs, strict=True):
            outcome.runs += 1
            _compare(program, compilation, info, dims, arguments, values, own, outcome)
            if outcome.is_finding:
                outcome.dims = dict(dims)
                return


def _taken_without_elements(kernel: Any, dims: Mapping[str, int], device: Any) -> str:
    """Call a kernel with an open dim of 0, which must be refused; return what is wrong with that."""
    info: KernelInfo = kernel.info
    if not (open_dims := [name for name, value in info.dims.items() if value is None]) or info.each:
        return ""
    dims = {**dims, open_dims[0]: 0}
    arguments: list[Any] = []
    for arg in (*info.inputs, *info.outputs):
        if arg.role == "scalar":
            arguments.append(1.0)
            continue
        shape = arg.extents(dims)
        if min(shape, default=0) < 0 or arg.layout == "sparse" or arg.dtype in PACKED:
            return ""
        arguments.append(torch.zeros(shape, dtype=DTYPES[arg.dtype], device=device))
    try:
        kernel.launch(*arguments)
    except MuccError:
        return ""
    return f"a call with {open_dims[0]} = 0 was taken"


def _compare(
    program: Program,
    compilation: Compilation,
    info: KernelInfo,
    dims: Mapping[str, int],
    arguments: Sequence[Any],
    values: Mapping[str, Bounded],
    outputs: Sequence[_Guarded],
    outcome: Outcome,
) -> None:
    """Judge by the reference, and by what `mucc run` does."""
    expected = program.expected(dims, values)
    for arg, output, wanted in zip(info.outputs, outputs, expected, strict=True):
        finding = judge(arg.name, arg.dtype, output.tensor, wanted)
        if finding or output.is_overrun:
            outcome.kind = "wrong"
            outcome.detail = str(finding) if finding else f"{arg.name}: memory around it was written"
            return
    device = outputs[0].tensor.device
    arrays = [torch.tensor(a, device=device) if isinstance(a, float) else a for a in arguments]
    judged = references(compilation, info, arrays)
    for arg, output, value in zip(info.outputs, outputs, judged, strict=True):
        verdict = against(arg.name, arg.dtype, output.tensor.to(torch.float64), value, torch)
        if not verdict.good:
            outcome.kind, outcome.detail = "false_alarm", str(verdict)
            return


class _Guarded:
    """An output full of what no kernel writes, between bytes that none may write."""

    def __init__(self, shape: Sequence[int], dtype: str, device: Any):
        from mucc.measure.run_gpu import poison

        kind = DTYPES[dtype]
        size = torch.empty(0, dtype=kind).element_size()
        count = 1
        for extent in shape:
            count *= extent
        self._bytes = torch.full((2 * GUARD + count * size,), 0xA5, dtype=torch.uint8, device=device)
        self._end = GUARD + count * size
        self.tensor: Any = self._bytes[GUARD : self._end].view(kind).view(tuple(shape))
        poison(self.tensor)

    @property
    def is_overrun(self) -> bool:
        outside = torch.cat((self._bytes[:GUARD], self._bytes[self._end :]))
        return bool((outside != 0xA5).any())


def settle() -> None:
    """Keep warnings of libraries out of a worker's output, and its arithmetic on one core."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
