"""Commands on click: errors in command lines are coded diagnostics, and modules are loaded lazily.

A module of a command declares its options and ends in the function that runs it:

    @dataclass
    class Arguments:
        files: list[str] = options.programs("a .mcu file, or - for stdin")

    @command(Arguments, "Report errors and warnings without compiling.", usage="FILE... [options]")
    def main(args: Arguments, reporter: Reporter) -> int:
        ...
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import click

from mucc.cli.parameters import OPTIONS, Option, parameters, shown_name
from mucc.diagnostics.core import DiagnosticError, did_you_mean
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mucc.cli.registry import Tool
    from mucc.cli.reporting import Reporter

A = TypeVar("A")
Work = Callable[[A, "Reporter"], int]
"""The function that runs a command; it returns the exit status."""

HELP = ("-h", "--help")

WIDEST = 110
"""The width of help pages in characters."""

_WORDS = "mucc.cli.words"
"""The key of a command's words in the metadata of click's context."""

_NEGATIVE = re.compile(r"-(\d+|\d*\.\d+)")


class Command(click.Command, Generic[A]):
    """A command of a tool: a function and the dataclass of its arguments, whose fields declare options."""

    def __init__(self, work: Work[A], arguments: type[A], help: str, *, usage: str, epilog: str):
        show = Option(HELP, is_flag=True, expose_value=False, is_eager=True, callback=_show_help)
        show.help = "show this page"
        super().__init__(
            name=None,
            params=[*parameters(arguments), show],
            help=help,
            epilog=epilog,
            add_help_option=False,
            context_settings={"allow_extra_args": True, "max_content_width": WIDEST},
        )
        self.work = work
        self.arguments = arguments
        self.usage = usage

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line. Raises MU5001 for the first wrong word."""
        ctx.meta[_WORDS] = args
        rest = super().parse_args(ctx, args if ctx.resilient_parsing else list(self._checked(ctx, args)))
        if rest and not ctx.resilient_parsing:
            help = f"`{ctx.command_path} --help` shows the usage"
            raise usage_error(f"unexpected argument '{rest[0]}'", help)
        return rest

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit status."""
        return self.work(self._arguments(ctx), ctx.obj)

    def parse(self, words: Sequence[str]) -> A:
        """Parse a command line to the dataclass of arguments. Raises MU5001."""
        return self._arguments(self.make_context("mucc", list(words)))

    def _arguments(self, ctx: click.Context) -> A:
        given = {name: _as_list(value) for name, value in ctx.params.items()}
        return self.arguments(**given)

    def _checked(self, ctx: click.Context, args: Sequence[str]) -> Iterator[str]:
        """Check options, and yield each option and its value as two separate words."""
        known = {name: p for p in self.params if isinstance(p, Option) for name in p.opts}
        rest = list(args)
        if any(word in HELP for word in rest[: rest.index("--") if "--" in rest else None]):
            yield HELP[1]
            return
        while rest:
            word = rest.pop(0)
            if word == "--":
                yield from (word, *rest)
                return
            if not word.startswith("-") or word == "-":
                yield word
                continue
            name, equals, value = word.partition("=")
            if not word.startswith("--"):
                name, value = word[:2], word[2:]
                equals, value = value, value.removeprefix("=")
            if (option := known.get(name)) is None:
                raise self._unknown(ctx, word.partition("=")[0], known)
            yield name
            if option.is_flag:
                if equals and (word.startswith("--") or equals.startswith("=")):
                    raise usage_error(
                        f"argument {shown_name(option)}: ignored explicit argument '{value}'",
                        _options_of(ctx),
                    )
                if equals:
                    rest.insert(0, f"-{equals}")
            elif equals:
                yield value
            else:
                yield _value(ctx, option, rest)

    def _unknown(self, ctx: click.Context, word: str, known: dict[str, Option]) -> DiagnosticError:
        flags = [flag for flag in known if flag.startswith("--")]
        matches = sorted(flag for flag in flags if word.startswith("--") and flag.startswith(word))
        if len(matches) > 1:
            help = f"options are not abbreviated: it may be {' or '.join(matches)}"
        elif meant := matches[0] if matches else did_you_mean(word, flags):
            help = f"did you mean '{meant}'?"
        elif os.path.exists(word):
            help = f"the file of that name is './{word}'"
        elif word == "--json" and "--diagnostics" in flags:
            help = "did you mean '--diagnostics=json'?"
        else:
            help = _options_of(ctx)
        return usage_error(f"there is no option '{word}'", help)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the description with its line breaks, tables of parameters, and the epilog."""
        path = ctx.command_path
        if ctx.parent is not None and isinstance(ctx.parent.command, Group):
            path = ctx.parent.command.path_of(ctx)
        formatter.write(f"{f'usage: {path} {self.usage}'.rstrip()}\n\n{self.help}\n")
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.params:
            if isinstance(parameter, Option):
                if record := parameter.get_help_record(ctx):
                    sections.setdefault(parameter.section, []).append(record)
            else:
                row = (str(parameter.metavar), cast("Any", parameter).help)
                sections.setdefault("arguments", []).append(row)
        for name in sorted(sections, key=lambda name: (name != "arguments", name != OPTIONS)):
            formatter.write(f"\n{name}:\n")
            formatter.indent()
            formatter.write_dl(sections[name], col_max=24)
            formatter.dedent()
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


def _as_list(value: Any) -> Any:
    """Return the values of an option that is given several times as a list; any other value as it is."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def command(
    arguments: type[A], help: str, *, usage: str, epilog: str = ""
) -> Callable[[Work[A]], Command[A]]:
    """Decorate a function as a command. `usage` is the text after the name of the command."""
    return lambda work: Command(work, arguments, help, usage=usage, epilog=epilog)


def words() -> list[str]:
    """Return the words of the running command line, without the name of the command."""
    return list(click.get_current_context().meta[_WORDS])


def _show_help(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        sys.stdout.write(f"{ctx.get_help()}\n")
        ctx.exit()


def _options_of(ctx: click.Context) -> str:
    return f"`{ctx.command_path} --help` lists the options"


def _value(ctx: click.Context, option: Option, rest: list[str]) -> str:
    """Take the value of an option from the words that follow. Raises MU5001 where there is none."""
    following = rest[0] if rest else None
    if option.alone is not None:
        if isinstance(following, str) and option.alone.isdigit() and following.lstrip("-").isdigit():
            return rest.pop(0)
        return option.alone
    if following is None or _is_option(following):
        raise usage_error(f"argument {shown_name(option)}: expected one argument", _options_of(ctx))
    return rest.pop(0)


def _is_option(word: str) -> bool:
    """Whether a word is an option; `-`, negative numbers and texts with spaces are values."""
    return len(word) > 1 and word[0] == "-" and " " not in word and _NEGATIVE.fullmatch(word) is None


class Group(click.Group):
    """The commands of a tool; the module of a command is loaded when the command runs or prints its help."""

    def __init__(self, tool: Tool):
        super().__init__(tool.name, add_help_option=False, no_args_is_help=False)
        self.tool = tool

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.tool.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Command[Any] | None:
        entry = self.tool.commands.get(cmd_name)
        return import_module(entry.module).main if entry else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the command: the first word, the word after `help`, or the default command."""
        words = args[1:] if args[:1] == ["help"] else args
        return super().parse_args(ctx, self.tool.with_command(words))

    def path_of(self, ctx: click.Context) -> str:
        """Return how a command is called: the default command by the tool's name alone."""
        return self.tool.name if ctx.info_name == self.tool.default else ctx.command_path

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the first word: a command, or the first argument or an option of the default command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.tool.commands.items()
            if name.startswith(incomplete)
        ]
        if incomplete.startswith("-"):
            found += [CompletionItem(word) for word in ("--help", "--version") if word.startswith(incomplete)]
        if self.tool.default is None or (default := self.get_command(ctx, self.tool.default)) is None:
            return found
        with default.make_context(self.tool.default, [], parent=ctx, resilient_parsing=True) as own:
            if incomplete.startswith("-"):
                known = {item.value for item in found}
                found += [i for i in default.shell_complete(own, incomplete) if i.value not in known]
            else:
                found += default.params[0].shell_complete(own, incomplete)
        return found


def run(tool: Tool, argv: Sequence[str], reporter: Reporter) -> int:
    """Run a command line of a tool and return its exit status. Raises DiagnosticError."""
    try:
        group = Group(tool)
        with group.make_context(tool.name, list(argv), obj=reporter) as ctx:
            return group.invoke(ctx)
    except click.exceptions.Exit as leave:  # after --help
        return leave.exit_code
