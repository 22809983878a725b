"""`mucc-opt`: run passes on textual IR or on `.mcu` files, and print the resulting IR.

It is xDSL's opt tool with the dialects and passes of mucc only, so that it starts fast. Plain `xdsl-opt` has
them too.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import IO, NoReturn

from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes as get_xdsl_passes
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from mucc.cli import streams
from mucc.cli.reporting import Reporter
from mucc.compiler.files import check_input, check_output, write_output
from mucc.compiler.source import STDIN, decode
from mucc.diagnostics.core import Diagnostic, DiagnosticError, DiagnosticSink, Source, Span
from mucc.diagnostics.render import render_text
from mucc.diagnostics.usage import check_known, usage_error
from mucc.dialects.rewriting import PassError, place_text
from mucc.universe import MUCC_UNIVERSE
from mucc.version import __version__

GENERAL_PASSES = ("canonicalize", "cse", "dce")
"""Passes of xDSL that apply to the dialects of mucc."""


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

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        help = "form of errors on stderr"
        arg_parser.add_argument("--diagnostics", choices=("text", "json"), default="text", help=help)
        setattr(arg_parser, "error", _raise_usage)  # noqa: B010

    def get_input_name(self) -> str:
        path = self.args.input_file
        return "<stdin>" if path is None or path == STDIN else path

    def setup_pipeline(self) -> None:
        try:
            names = [spec.name for spec in parse_pipeline(self.args.passes)]
            check_known("pass", names, self.available_passes)
            super().setup_pipeline()
        except (ValueError, ParseError, ArgSpecParseError) as error:
            raise usage_error(str(error).rstrip()) from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        if (path := self.args.input_file) is not None and path != STDIN:
            check_input(path)
        try:
            return super().prepare_input()
        except ValueError as error:
            help = f"the suffixes are {', '.join(self.available_frontends)}; --frontend names one"
            raise usage_error(str(error), help) from error
        except OSError as error:
            raise DiagnosticError(Diagnostic("MU5011", f"cannot read '{path}': {error.strerror}")) from error

    def prepare_output(self) -> IO[str]:
        if (path := self.args.output_file) is None:
            return sys.stdout
        check_output(path)
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
            from mucc.compiler.program import placed

            found = placed(error.diagnostics, source) if source else error.diagnostics
            raise _as_exception(error, source) from DiagnosticError(found)
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


def _raise_usage(message: str) -> NoReturn:
    raise usage_error(message, "`mucc-opt --help` lists the options")


def _of_parsing(error: ParseError) -> Diagnostic:
    """Convert an error in textual IR; lines are those of the whole file, also where it is split."""
    span = error.span
    content = span.input.content
    lead = "\n" * span.line_offset
    if isinstance(content, bytes):
        start, end = (len(content[:at].decode("utf-8", "replace")) for at in (span.start, span.end))
        content = content.decode("utf-8", "replace")
    else:
        start, end = span.start, span.end
    place = Span(len(lead) + start, len(lead) + max(start, end))
    return Diagnostic("MU5022", error.msg, place, source=Source(span.input.name, lead + content))


def _of_verifying(error: DiagnosticException) -> list[Diagnostic]:
    """Convert an error in IR, or in a pass or a program, whose findings have codes of their own."""
    cause = error.__cause__
    if isinstance(cause, DiagnosticError):
        return list(cause.diagnostics)
    if isinstance(cause, PassError):
        return [
            Diagnostic(f.code, f"{f.message}{place_text(f)}", notes=f.notes, helps=f.helps)
            for f in cause.findings
        ]
    return [Diagnostic("MU5023", str(error).strip())]


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; errors go to stderr."""
    reporter = Reporter.of(sys.argv[1:] if args is None else args)
    try:
        OptMain("mucc-opt: the passes of mucc on textual IR and on .mcu files", args).run()
        sys.stdout.flush()
    except ArgSpecParseError as error:
        reporter.add(usage_error(str(error).rstrip()).diagnostics)
    except ParseError as error:
        reporter.add([_of_parsing(error)])
    except DiagnosticException as error:
        reporter.add(_of_verifying(error))
    except DiagnosticError as error:
        reporter.add(error.diagnostics)
    except OSError as error:
        if not streams.takes_no_more(error):
            raise
        streams.drop_output()
        reporter.add([Diagnostic("MU5014", f"cannot write the output: {error.strerror}")])
    reporter.close()
    return reporter.status
