"""`mucc-opt`: run passes on textual IR or on `.mcu` files, and print the resulting IR.

It is xDSL's opt tool with the dialects and passes of mucc only, so that it starts fast. Plain `xdsl-opt` has
them too.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Sequence
from typing import IO

from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes as get_xdsl_passes
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from mucc.cli import streams
from mucc.compiler.files import LARGEST, check_output, write_output
from mucc.compiler.source import STDIN, decode
from mucc.diagnostics.core import DiagnosticError, DiagnosticSink, Source, bounded
from mucc.diagnostics.render import render_text
from mucc.dialects.rewriting import PassError
from mucc.universe import MUCC_UNIVERSE
from mucc.version import __version__

GENERAL_PASSES = ("canonicalize", "cse", "dce")
"""Passes of xDSL that apply to the dialects of mucc."""


class _UsageError(Exception):
    """The command line has an unknown pass or option, or a missing file."""


def _as_exception(error: DiagnosticError, source: Source | None = None) -> DiagnosticException:
    """Convert an error to the exception that xDSL's tools catch, so that `--verify-diagnostics` prints it."""
    return DiagnosticException("".join(render_text(d, source) for d in error.diagnostics))


class _Held(io.StringIO):
    """Text for a file, which is kept when xDSL's tool closes it."""

    def close(self) -> None:
        pass


class OptMain(xDSLOptMain):
    """xDSL's opt tool with the dialects and passes of mucc. A file is written whole, or not at all."""

    _held: _Held | None = None

    version_format = f"mucc-opt {__version__}, built on xdsl {{xdsl_version}}"

    def register_all_dialects(self) -> None:
        self.ctx.load_dialect(Builtin)
        for name, factory in MUCC_UNIVERSE.all_dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        general = get_xdsl_passes()
        for name in GENERAL_PASSES:
            self.register_pass(name, general[name])
        for name, factory in MUCC_UNIVERSE.all_passes.items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        self.available_targets["mlir"] = get_all_targets()["mlir"]
        self.available_targets |= MUCC_UNIVERSE.all_targets

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mcu"] = self._parse_mcu

    def setup_pipeline(self) -> None:
        try:
            super().setup_pipeline()
        except (ValueError, ParseError) as error:
            raise _UsageError(error) from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            _check_size(self.args.input_file)
            return super().prepare_input()
        except (OSError, ValueError) as error:
            raise _UsageError(error) from error

    def prepare_output(self) -> IO[str]:
        if (path := self.args.output_file) is None:
            return sys.stdout
        try:
            check_output(path)
        except DiagnosticError as error:
            raise _UsageError(error.diagnostics[0].message) from error
        self._held = _Held()
        return self._held

    def run(self) -> None:
        super().run()
        if self._held is not None:
            write_output(self.args.output_file, self._held.getvalue().encode())

    def _parse_mcu(self, io: IO[bytes]) -> ModuleOp:
        """Parse a `.mcu` program to `mu` IR."""
        from mucc.frontend import lower, parse

        source = None
        try:
            source = decode(io.read(), self.get_input_name())
            program, sink = parse(source, DiagnosticSink(source))
            sink.raise_if_errors()
            module = lower(program, sink)
            sink.raise_if_errors()
        except DiagnosticError as error:
            raise _as_exception(error, source) from error
        return module

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        try:
            return super().parse_chunk(chunk, file_extension, start_offset)
        except DiagnosticException as error:
            # The base class tolerates errors in passes only; a chunk may also fail verification.
            if not self.args.verify_diagnostics:
                raise
            print(error)
            return None

    def apply_passes(self, prog: ModuleOp) -> None:
        try:
            super().apply_passes(prog)
        except PassError as error:
            raise DiagnosticException(str(error)) from error


def _check_size(path: str | None) -> None:
    """Raise ValueError for a device, and for a file larger than the limit."""
    if path is None or path == STDIN:
        return
    info = os.stat(path)
    if stat.S_ISCHR(info.st_mode) and info.st_rdev != os.makedev(1, 3):  # /dev/null is an empty file
        raise ValueError(f"{path} is a device, not a file")
    if info.st_size > LARGEST:
        raise ValueError(f"{path} holds more than {LARGEST >> 20} MiB, the most that is read")


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; errors in the input go to stderr."""
    try:
        OptMain("mucc-opt: the passes of mucc on textual IR and on .mcu files", args).run()
        sys.stdout.flush()
    except (DiagnosticException, ParseError) as error:
        print(bounded(str(error)), file=sys.stderr)
        return 1
    except (_UsageError, ArgSpecParseError) as error:
        print(bounded(f"mucc-opt: error: {error}"), file=sys.stderr)
        return 2
    except DiagnosticError as error:
        print("".join(render_text(d) for d in error.diagnostics), file=sys.stderr, end="")
        return 3
    except OSError as error:
        if not streams.takes_no_more(error):
            raise
        streams.drop_output()
        print(f"mucc-opt: error: cannot write the output: {error.strerror}", file=sys.stderr)
        return 2
    return 0
