"""Build a library from separately compiled parts, each cached.

    program --(g++)--> object -------------------------------------------+
    skeleton --(g++)--> object ------------------------------------------+--(link)--> .so
    skeleton --(nvcc)--> PTX --+                                         |
    bodies --(NVRTC)--> PTX ---+--(splice)--> PTX --(ptxas)--> cubin ----+

Most skeletons include CUTLASS: they take most of a minute to compile, and many programs share them. Those
without CUTLASS are compiled by NVRTC in about a second. All other parts take a fraction of a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mucc.build import messages
from mucc.build.cache import Cache, Entry
from mucc.build.cache.keys import content_key
from mucc.build.jobs import Job, Kind, Result
from mucc.build.pool import Cancelled, Pool, awaited
from mucc.build.toolchain.discover import INCLUDE_FLAGS, Toolchain
from mucc.build.toolchain.flags import SPLIT, ambient_flags, flags, is_portable
from mucc.build.toolchain.kernels_apart import divide
from mucc.build.toolchain.nvcc import Built
from mucc.build.toolchain.reservation import MANIFEST, filled, reservation
from mucc.build.toolchain.splice import SpliceError, read_bodies, splice
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.files.digest import Part, tree_contents
from mucc.files.package import HEADERS, INCLUDES, included

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import Skeleton
    from mucc.compiler.emit import Divided, Image, Parts

OBJECT_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden")
"""Flags of g++ for code without CUTLASS; argument checks take a fifth longer at -O2."""

HOST_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w", "-fpermissive")
"""Flags of g++ for the host code of a skeleton; -O0 compiles slower, because it emits more code."""

PRELUDE = "prelude.hpp"
"""The header that the host code of every skeleton includes first; it can be precompiled."""

LIBRARIES = ("-lcudart_static", "-lrt", "-lpthread", "-ldl")

_DeviceCode = tuple[bytes, tuple[Diagnostic, ...]]
"""Device code, and warnings of ptxas."""

IMAGE_ROOM, MANIFEST_STEP = 128 << 10, 4 << 10
"""The bytes reserved for each image, and the step of the bytes reserved for the manifest.

A library is linked with reserved space before its images are assembled; if only bodies change, it is not
linked again.
"""

MAX_THREADS = 64
"""The most threads that wait for steps of one build; the pool limits what runs in parallel."""


@contextlib.contextmanager
def _threads(most: int) -> Generator[ThreadPoolExecutor]:
    """Yield an executor for the parts of one build, and wait for its threads at the end.

    It waits after an error too, because results of other parts are cached; but not if the pool was cancelled
    or a signal interrupted this thread.
    """
    threads = ThreadPoolExecutor(most, "mucc-part")
    waits = True
    try:
        yield threads
    except BaseException as error:
        waits = isinstance(error, Exception) and not isinstance(error, Cancelled)
        raise
    finally:
        threads.shutdown(waits, cancel_futures=not waits)


class Unspliceable(Exception):
    """The parts cannot be combined, for the reason in the text; nvcc can build the program in one piece."""


def host_flags(toolchain: Toolchain) -> tuple[str, ...]:
    """Return the flags of g++ for the host code of a skeleton, which emulate nvcc (see `support/shim`)."""
    # CUTLASS's types, and with them the layout of kernel parameters, depend on nvcc's version.
    major, minor, *_ = [*re.findall(r"\d+", toolchain.versions()[0]), "0", "0"]
    macros = (f"-D__CUDACC_VER_MAJOR__={major}", f"-D__CUDACC_VER_MINOR__={minor}")
    includes = ("-I{support}/shim", *INCLUDE_FLAGS, "-I{cutlass}", "-I{cuda}", "-I{cuda}/cccl")
    return (*HOST_FLAGS, *macros, *includes)


@dataclass(frozen=True)
class Assembly:
    """Builder of a library from parts. `program` is the program's name in messages.

    `keep` is a directory for the files of all steps, which then all run. `timeout` is in seconds for each
    step. With `ahead`, more builds will follow, and a header is precompiled for them.
    """

    toolchain: Toolchain
    target: str
    program: str
    pool: Pool
    cache: Cache | None
    timeout: float | None = None
    keep: str | None = None
    ahead: bool = False
    notes: list[Diagnostic] = field(default_factory=list[Diagnostic], init=False)

    def build(self, parts: Parts) -> Built:
        """Build the `.so`. Raises DiagnosticError as jobs do, and Unspliceable."""
        with _threads(MAX_THREADS) as threads:
            # The slowest parts start first; images depend on them.
            devices = {s.symbol: threads.submit(self._device, s) for s in parts.skeletons}
            objects = {f"{s.symbol}.o": threads.submit(self._host, s) for s in parts.skeletons}
            images = [threads.submit(self._device_codes, i, devices, threads) for i in parts.images]
            objects["program.o"] = threads.submit(self._program, parts.program)
            objects["runtime.o"] = threads.submit(self._runtime)
            if self.ahead:
                threads.submit(self._work_ahead, list(objects.values()), list(devices.values()))
            manifest = parts.manifest.encode() + b"\0"
            room = {MANIFEST: _round_up(len(manifest), MANIFEST_STEP)}
            for image in parts.images:
                is_large = image.skeleton or image.kernels
                room |= dict.fromkeys(image.symbols, IMAGE_ROOM if is_large else IMAGE_ROOM // 2)
            shell = threads.submit(self._linked, objects, room)
            contents = {MANIFEST: manifest}
            warnings: list[Diagnostic] = []
            for codes in images:
                for symbol, future in awaited(codes).items():
                    contents[symbol], image_warnings = awaited(future)
                    warnings += image_warnings
            if any(len(data) > room[name] for name, data in contents.items()):
                room = {name: max(n, _round_up(len(contents[name]), IMAGE_ROOM)) for name, n in room.items()}
                library = self._linked(objects, room)
            else:
                library = awaited(shell)
        return Built(filled(library, room, contents), (*dict.fromkeys(self.notes), *warnings))

    def image(self, image: Image, *, ptx: bool) -> Built:
        """Build the PTX or the cubin of one image. Raises as `build` does."""
        with _threads(1) as threads:
            devices = (
                {image.skeleton.symbol: threads.submit(self._device, image.skeleton)}
                if image.skeleton
                else {}
            )
            if ptx:
                return Built(self._ptx(image, devices).encode(), ())
            return Built(*self._assembled(image, image.symbol, self._ptx(image, devices)))

    def _work_ahead(self, objects: Sequence[Future[bytes]], devices: Sequence[Future[bytes]]) -> None:
        """Precompile the header for later builds, on an idle core while device code is compiled."""
        wait(objects)
        if self.pool.cores > 1 and not all(d.done() for d in devices) and not self._find_prelude():
            self._make_prelude()

    # Device

    def _device_codes(
        self, image: Image, devices: Mapping[str, Future[bytes]], threads: ThreadPoolExecutor
    ) -> dict[str, Future[_DeviceCode]]:
        """Begin to assemble the device code of an image, for each symbol; the largest first."""
        ptx = self._ptx(image, devices)
        if not image.kernels:
            return {image.symbol: threads.submit(self._device_code, image, image.symbol, ptx)}
        try:
            modules = divide(ptx, image.kernels)
        except SpliceError as error:
            raise Unspliceable(f"stage {image.title}: {error}") from error
        largest = sorted(image.symbols.items(), key=lambda item: -len(modules[item[1]]))
        return {s: threads.submit(self._device_code, image, s, modules[kernel]) for s, kernel in largest}

    def _device_code(self, image: Image, name: str, ptx: str) -> _DeviceCode:
        """Build device code of an image: a cubin, or a fat binary with PTX for portable targets.

        `name` is the symbol.
        """
        cubin, warnings = self._assembled(image, name, ptx)
        if not is_portable(self.target):
            return cubin, warnings
        number = self.target.removeprefix("sm_")
        result = self._run(
            f"assembling stage {image.title}",
            Kind.OBJECT,
            (
                "{fatbinary}",
                "-64",
                f"--image3=kind=elf,sm={number},file={name}.cubin",
                f"--image3=kind=ptx,sm={number},file={name}.ptx",
                f"--create={name}.fatbin",
            ),
            {f"{name}.cubin": cubin, f"{name}.ptx": ptx.encode()},
            f"{name}.fatbin",
        )
        return result.files[f"{name}.fatbin"], warnings

    def _assembled(self, image: Image, name: str, ptx: str) -> _DeviceCode:
        """Assemble PTX of an image by ptxas; returns the cubin and warnings."""
        result = self._run(
            f"assembling stage {image.title}",
            Kind.PTXAS,
            (
                "{ptxas}",
                f"-arch={self.target}",
                "-m64",
                "-v",
                *(() if image.skeleton else (SPLIT,)),
                f"{name}.ptx",
                "-o",
                f"{name}.cubin",
            ),
            {f"{name}.ptx": ptx.encode()},
            f"{name}.cubin",
        )
        return result.files[f"{name}.cubin"], tuple(messages.warnings(result.log))

    def _ptx(self, image: Image, devices: Mapping[str, Future[bytes]]) -> str:
        """Build the PTX of an image, with bodies spliced into the skeleton."""
        from mucc.codegen.kernel_code import ENTRY

        if image.skeleton is None:
            return self._light_ptx(image)
        own = self._small_ptx(image, image.source) if image.source else ""
        skeleton = devices[image.skeleton.symbol].result().decode().replace(ENTRY, image.entry)
        try:
            return splice(skeleton, read_bodies(own) if own else {})
        except SpliceError as error:
            raise Unspliceable(f"stage {image.title}: {error}") from error

    def _light_ptx(self, image: Image) -> str:
        """Build the PTX of an image without CUTLASS: spliced where it is divided, or else in one piece."""
        if image.divided:
            with contextlib.suppress(SpliceError):
                return self._divided_ptx(image, image.divided)
        return self._small_ptx(image, image.source, has_kernels=True)

    def _divided_ptx(self, image: Image, divided: Divided) -> str:
        """Splice bodies into a skeleton without CUTLASS. Raises SpliceError where they cannot be spliced."""
        from mucc.codegen.kernel_code import ENTRY

        bodies = read_bodies(self._small_ptx(image, divided.bodies))
        if divided.straight and any(body.has_branches for body in bodies.values()):
            raise SpliceError("a body has branches")
        skeleton = self._light_skeleton(image, divided.skeleton).decode()
        return splice(skeleton.replace(ENTRY, image.entry), bodies)

    def _light_skeleton(self, image: Image, source: str) -> bytes:
        """Compile a skeleton without CUTLASS to PTX, which names no program, or take it from the cache."""
        given = (*flags("ptx", self.target), SPLIT, *ambient_flags())
        key = (_COMMENT.sub("", source), given, self._versions[:1], included(source))

        def make() -> Entry:
            return Entry(self._small_ptx(image, source, "skeleton", has_kernels=True).encode())

        return self._cached("device", key, f"device code of stage {image.title}", make)

    def _small_ptx(
        self, image: Image, source: str, name: str | None = None, *, has_kernels: bool = False
    ) -> str:
        """Compile a source without CUTLASS to PTX by NVRTC, or by nvcc where NVRTC cannot be used.

        `name`, by default that of the image, names the source file in messages and in symbols of PTX.
        """
        from mucc.build.toolchain import nvrtc, nvrtc_worker

        if reason := nvrtc_worker.shared.why_unusable(self._versions[0]):
            self.notes.append(nvrtc.fallback(reason))
            file = name or image.symbol
            command = ("{nvcc}", *flags("ptx", self.target), *INCLUDE_FLAGS)
            result = self._run(
                f"pointwise work of stage {image.title}",
                Kind.OBJECT,
                (*command, f"{file}.cu", "-o", f"{file}.ptx"),
                {f"{file}.cu": source.encode()},
                f"{file}.ptx",
            )
            return result.files[f"{file}.ptx"].decode()
        made = nvrtc_worker.shared.compile_ptx(
            source, self.target, INCLUDES, f"{name or image.title}.cu", self.timeout, has_kernels=has_kernels
        )
        return made.ptx

    def _device(self, skeleton: Skeleton) -> bytes:
        """Compile the device code of a skeleton to PTX.

        The key has neither the host compiler nor mucc's headers that the code does not include, so that a
        machine with another host compiler takes PTX from a cache that is carried there.
        """
        given = tuple(flags("ptx", self.target))
        name = skeleton.symbol
        command = ("{nvcc}", *given, *INCLUDE_FLAGS, "-I{cutlass}", f"{name}.cu", "-o", f"{name}.ptx")
        return self._step(
            "device",
            (skeleton.device, given, self._versions[:2], included(skeleton.device)),
            Job(
                self.program,
                "device code",
                Kind.DEVICE,
                command,
                {f"{name}.cu": skeleton.device.encode()},
                (f"{name}.ptx",),
            ),
        )

    # Host

    def _host(self, skeleton: Skeleton) -> bytes:
        """Compile the host code of a skeleton to an object."""
        name = skeleton.symbol

        def compile(prelude: str | None) -> Result:
            command = (
                "{cxx}",
                *self._host_flags,
                "-include",
                "{prelude}",
                "-c",
                f"{name}.cpp",
                "-o",
                f"{name}.o",
            )
            source = {f"{name}.cpp": skeleton.host.encode()}
            job = Job(self.program, "host code", Kind.HOST, command, source, (f"{name}.o",))
            return self._submit(job, {"prelude": prelude or "mucc_shim.h"})

        def make() -> Entry:
            prelude = None if self.pool.remote else self._find_prelude()
            try:
                result = compile(prelude)
            except DiagnosticError:
                if prelude is None:
                    raise
                result = compile(None)  # the precompiled header may have been evicted
            return Entry(result.files[f"{name}.o"])

        return self._cached("host", (skeleton.host, *self._host_key), "host code", make)

    def _find_prelude(self) -> str | None:
        """Return the path of the precompiled header for host code; None without one."""
        if self.cache is None:
            return None
        path = self.cache.find_file("headers", content_key("headers", *self._host_key), f"{PRELUDE}.gch")
        return path and path.removesuffix(".gch")

    def _make_prelude(self) -> None:
        """Precompile the header for host code: it takes ten seconds, and saves four for each skeleton."""
        if self.cache is None or self.keep is not None:
            return

        def make(path: str) -> None:
            from mucc.kernels.registry import kinds

            command = ("{cxx}", *self._host_flags, "-x", "c++-header", PRELUDE, "-o", f"{PRELUDE}.gch")
            headers = ("mucc_shim.h", *(header for kind in kinds() for header in kind.host_headers))
            text = "".join(f"#include <{header}>\n" for header in headers).encode()
            job = Job(
                self.program,
                "header for host code",
                Kind.HEADER,
                command,
                {PRELUDE: text},
                (f"{PRELUDE}.gch",),
            )
            data = self._submit(job).files[f"{PRELUDE}.gch"]
            for name, content in ((path, data), (path.removesuffix(".gch"), text)):
                with open(name, "wb") as file:
                    file.write(content)

        key = content_key("headers", *self._host_key)
        with contextlib.suppress(DiagnosticError, OSError):  # optional
            self.cache.build_file("headers", key, f"{PRELUDE}.gch", make)

    @cached_property
    def _host_flags(self) -> tuple[str, ...]:
        return host_flags(self.toolchain)

    @cached_property
    def _host_key(self) -> tuple[Part, ...]:
        return (self._host_flags, self._versions, self._support)

    def _program(self, text: str) -> bytes:
        """Compile the program's host code to an object."""
        command = ("{cxx}", *OBJECT_FLAGS, *INCLUDE_FLAGS, "-c", "program.cpp", "-o", "program.o")
        return self._step(
            "objects",
            (_COMMENT.sub("", text), OBJECT_FLAGS, self._versions, self._support),
            Job(
                self.program,
                "launching code",
                Kind.OBJECT,
                command,
                {"program.cpp": text.encode()},
                ("program.o",),
            ),
        )

    def _runtime(self) -> bytes:
        """Compile the support code that all libraries share to an object."""
        source = "{support}/src/runtime.cpp"
        command = ("{cxx}", *OBJECT_FLAGS, *INCLUDE_FLAGS, "-I{cuda}", "-c", source, "-o", "runtime.o")
        return self._step(
            "objects",
            ("runtime", OBJECT_FLAGS, self._versions, self._support),
            Job(self.program, "support code", Kind.OBJECT, command, {}, ("runtime.o",)),
        )

    def _linked(self, objects: Mapping[str, Future[bytes]], room: Mapping[str, int]) -> bytes:
        """Link all objects to a library, with space reserved for the manifest and the images."""
        files = {name: future.result() for name, future in sorted(objects.items())}
        files["images.s"] = reservation(room).encode()
        command = ("{cxx}", "-shared", *files, "-L{cudart}", *LIBRARIES, "-o", "kernel.so")
        key = (*(part for item in files.items() for part in item), LIBRARIES, self._versions)
        return self._step(
            "objects", key, Job(self.program, "linking", Kind.LINK, command, files, ("kernel.so",))
        )

    # Steps

    def _run(
        self, stage: str, kind: Kind, command: tuple[str, ...], inputs: Mapping[str, bytes], output: str
    ) -> Result:
        return self._submit(Job(self.program, stage, kind, command, inputs, (output,)))

    def _submit(self, job: Job, tools: Mapping[str, str] | None = None) -> Result:
        paths = {**self._tools, **(tools or {})}
        return self.pool.run(dataclasses.replace(job, timeout=self.timeout), tools=paths, keep=self.keep)

    def _step(self, level: str, key: tuple[Part, ...], job: Job) -> bytes:
        """Return the single output of a job, from the cache if possible."""
        return self._cached(level, key, job.stage, lambda: Entry(self._submit(job).files[job.outputs[0]]))

    def _cached(self, level: str, key: tuple[Part, ...], stage: str, make: Callable[[], Entry]) -> bytes:
        """Return the data of an entry, from the cache or built by `make`."""
        if self.cache is None:
            return make().data
        is_cached = True

        def made() -> Entry:
            nonlocal is_cached
            is_cached = False
            return make()

        entry = self.cache.build(level, content_key(level, *key), made, fresh=self.keep is not None)
        if is_cached:
            self.pool.cached(self.program, stage)
        return entry.data

    @cached_property
    def _tools(self) -> dict[str, str]:
        return self.toolchain.tools()

    @cached_property
    def _versions(self) -> tuple[str, ...]:
        return self.toolchain.versions()

    @cached_property
    def _support(self) -> tuple[Part, ...]:
        return tree_contents(*HEADERS)


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


_COMMENT = re.compile(r"[ \t]*//(?! mucc\.body).*$", re.MULTILINE)
"""A comment of C++, but not the inline assembly of a marker, which begins with the same two characters."""
