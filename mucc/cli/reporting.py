"""Report diagnostics on stderr: as text at once, or as one JSON list at the end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mucc.cli import streams
from mucc.diagnostics.core import Diagnostic, ExitStatus, Severity, Source
from mucc.process import interrupts

if TYPE_CHECKING:
    from mucc.build.progress import Display
    from mucc.process.interrupts import Terminated


def diagnostics_option(argv: Sequence[str]) -> str | None:
    """Return the value of `--diagnostics` in a command line, without parsing it; None if it is not given."""
    name = "--diagnostics"
    joined = [word.removeprefix(f"{name}=") for word in argv if word.startswith(f"{name}=")]
    apart = [value for word, value in pairwise(argv) if word == name]
    return next(iter((*joined, *apart)), None)


class Reporter:
    """Collector and renderer of the diagnostics of one run.

    With `json` one JSON list is printed at the end, also an empty one if `empty` is set.
    """

    def __init__(self, *, json: bool = False, verbose: bool = False, empty: bool = True):
        self.json = json
        self.verbose = verbose
        self.empty = empty
        self.seen: list[tuple[Diagnostic, Source | None]] = []
        self.goes_on: tuple[str, ...] = ()
        """Help texts for the diagnostic of an interruption, such as how to resume."""
        self._known: set[tuple[Diagnostic, Source | None]] = set()

    @classmethod
    def of(cls, argv: Sequence[str], *, verbose: bool = False) -> Reporter:
        """Make the reporter for a command line, whose `--diagnostics` or else `--json` says how it reports.

        With `--json` alone stderr remains empty where there is nothing to report.
        """
        form = diagnostics_option(argv)
        return cls(
            json=form == "json" or (form is None and "--json" in argv),
            verbose=verbose,
            empty=form is not None,
        )

    def add(self, diagnostics: Iterable[Diagnostic], source: Source | None = None) -> None:
        """Report diagnostics, with `source` for those without a source of their own; each only once."""
        for diagnostic in diagnostics:
            if (diagnostic, source) in self._known:
                continue
            self._known.add((diagnostic, source))
            if not self.json:
                from mucc.diagnostics.render import render_text, use_colour

                blank = "\n" if self.seen else ""
                text = render_text(diagnostic, source, colour=use_colour(sys.stderr))
                self._say(blank + text)
            self.seen.append((diagnostic, source))

    def line(self, text: str) -> None:
        """Print a line of results to stderr, except with --diagnostics=json."""
        if not self.json:
            self._say(f"{text}\n")

    def progress(self, text: str) -> None:
        """Print a line that explains a long wait, on a terminal or with --verbose."""
        if not self.json and (self.verbose or sys.stderr.isatty()):
            self._say(f"mucc: {text}\n")

    def display(self) -> Display:
        """Make the progress display for a pool of builds."""
        from mucc.build.progress import display

        return display(sys.stderr, json=self.json, verbose=self.verbose)

    def farewell(self, number: int) -> str:
        """Render the diagnostic MU5119 for a signal that ends the command."""
        from mucc.diagnostics.render import render_json, render_text

        last = Diagnostic("MU5119", f"interrupted by {interrupts.name_of(number)}", helps=self.goes_on)
        if self.json:
            return render_json([*self.seen, (last, None)])
        return ("\n" if self.seen else "") + render_text(last)

    def interrupted(self, error: KeyboardInterrupt | Terminated) -> int:
        """Report that a signal ended the command, unless already reported, and return the exit status."""
        number = interrupts.number_of(error)
        if interrupts.may_speak():
            with contextlib.suppress(BrokenPipeError):
                self._say(self.farewell(number))
        return interrupts.status_of(number)

    def close(self) -> None:
        """End the report: the summary line, or the JSON list."""
        if self.json:
            if self.seen or self.empty:
                from mucc.diagnostics.render import render_json

                self._say(render_json(self.seen))
        elif self.seen:
            from mucc.diagnostics.render import summary

            self._say(f"\n{line}\n" if (line := summary(d for d, _ in self.seen)) else "")

    def _say(self, text: str) -> None:
        """Write to stderr; errors of the stream are ignored, because the exit status remains."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except BrokenPipeError:
            raise
        except OSError:
            streams.drop_output(sys.stderr)

    @property
    def status(self) -> ExitStatus:
        """The highest exit status of the errors reported so far."""
        errors = [d.code for d, _ in self.seen if d.severity is Severity.ERROR]
        if not errors:
            return ExitStatus.GOOD
        from mucc.diagnostics.codes import exit_status

        return max(map(exit_status, errors))
