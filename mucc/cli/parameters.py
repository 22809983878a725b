"""Declare the parameters of a command as fields of the dataclass of its arguments.

    @dataclass
    class Arguments:
        files: list[str] = arguments("FILE", help="a .mcu file", complete=candidates.files(".mcu"))
        emit: str | None = option(None, choices=KINDS, help="what to make")
        jobs: int = option(2, "-j", "--jobs", metavar="N", help="compilers that run at a time")
        json: bool = flag(help="print JSON")

A field has the name and the default of its option; a default that is a number or a word is added to the help.
`parameters` converts the fields to click's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast, overload

import click

from mucc.diagnostics.core import did_you_mean
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from typing import NotRequired, Unpack

    from click.shell_completion import CompletionItem

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
    """A function that lists completion candidates for the beginning of a value."""

T = TypeVar("T", str, int, float)

OPTIONS = "options"
"""The default section of help pages for options."""

HABITS = {"gpu": "cuda", "fp16": "f16", "float16": "f16", "fp32": "f32", "float32": "f32", "bfloat16": "bf16"}
"""Words of other tools for choices: `gpu` is spelled more like `cpu`, and means `cuda`."""

_KEY = "parameter"
"""The key of the declaration in the metadata of a field."""


class Looks(TypedDict):
    """Keyword arguments of declarations: help, completion, and form of a parameter.

    `alone` is the value of an option that is given without a value. If `alone` is a number, the option takes
    the next word as its value if that is a number; otherwise it takes a value after `=` only.
    """

    help: str
    metavar: NotRequired[str]
    choices: NotRequired[Sequence[str]]
    complete: NotRequired[Complete | None]
    section: NotRequired[str]
    alone: NotRequired[str | None]


def shown_name(parameter: click.Parameter) -> str:
    """Return the name of a parameter in errors: `-j/--jobs`, or the metavar of a positional parameter."""
    return "/".join(parameter.opts) if isinstance(parameter, click.Option) else str(parameter.metavar)


class Choice(click.Choice):  # pyright: ignore[reportMissingTypeArgument]
    """A parameter type with a fixed set of words; raises MU5001 for others, and suggests the nearest."""

    def __init__(self, words: Sequence[str]):
        super().__init__(words)  # pyright: ignore[reportUnknownMemberType]
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word, choices = str(value), self.words
        if word in choices:
            return word
        assert param is not None
        habit = HABITS.get(word.lower())
        meant = habit if habit in choices else did_you_mean(word, choices)
        raise usage_error(
            f"argument {shown_name(param)}: there is no '{word}'",
            *((f"did you mean '{meant}'?",) if meant else ()),
            f"choose from {', '.join(choices)}",
            *((f"`{ctx.command_path} --help` lists the options",) if ctx else ()),
        )


class Number(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """A parameter type of integers or floats; raises MU5001 for other words."""

    name = "number"

    def __init__(self, type: type[int] | type[float]):
        self.type = type

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        try:
            return self.type(value)
        except ValueError:
            assert param is not None
            kind = "a whole number" if self.type is int else "a number"
            helps = (f"`{ctx.command_path} --help` lists the options",) if ctx else ()
            raise usage_error(f"{shown_name(param)} takes {kind}, not '{value}'", *helps) from None


class Option(click.Option):
    """An option with its section of the help page, and its value where it is given without one."""

    def __init__(
        self, flags: Sequence[str], *, section: str = OPTIONS, alone: str | None = None, **more: Any
    ):
        super().__init__(flags, **more)
        self.section = section
        self.alone = alone


class Argument(click.Argument):
    """A positional argument with a help text, optional for click: commands report missing arguments."""

    def __init__(self, name: str, *, help: str, **more: Any):
        super().__init__([name], required=False, **more)
        self.help = help


def _type(kind: type, choices: Sequence[str] | None) -> Any:
    if choices is not None:
        return Choice(list(choices))
    return Number(kind) if kind in (int, float) else click.STRING


def _with_default(help: str, default: object) -> str:
    if default is None or isinstance(default, bool) or default == "":
        return help
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{help} (default: {shown})"


def _declared(make: Callable[[str], click.Parameter], **default: Any) -> Any:
    return field(metadata={_KEY: make}, **default)


def _option(
    flags: Sequence[str], kind: type, looks: Looks, default: object, **more: Any
) -> Callable[[str], Option]:
    def make(name: str) -> Option:
        words = flags or [f"--{name.rstrip('_').replace('_', '-')}"]
        return Option(
            [name, *words],
            type=_type(kind, looks.get("choices")),
            default=default,
            help=_with_default(looks["help"], default),
            metavar=looks.get("metavar"),
            shell_complete=looks.get("complete"),
            section=looks.get("section", OPTIONS),
            alone=looks.get("alone"),
            **more,
        )

    return make


@overload
def option(default: None, *flags: str, type: type[T] = ..., **looks: Unpack[Looks]) -> T | None: ...
@overload
def option(default: T, *flags: str, **looks: Unpack[Looks]) -> T: ...
def option(default: Any, *flags: str, type: Any = None, **looks: Unpack[Looks]) -> Any:
    """Declare an option with a value; `type` is the type of the value where the default is None."""
    kind = type or (str if default is None else default.__class__)
    return _declared(_option(flags, kind, looks, default), default=default)


def repeated(*flags: str, **looks: Unpack[Looks]) -> list[str]:
    """Declare an option that may be given several times."""
    return _declared(_option(flags, str, looks, None, multiple=True), default_factory=list)


def flag(*flags: str, help: str, section: str = OPTIONS) -> bool:
    """Declare an option without a value."""

    def make(name: str) -> Option:
        words = flags or [f"--{name.replace('_', '-')}"]
        return Option([name, *words], is_flag=True, default=False, help=help, section=section)

    return _declared(make, default=False)


def _argument(looks: Looks, default: object, nargs: int) -> Callable[[str], Argument]:
    def make(name: str) -> Argument:
        return Argument(
            name,
            type=_type(str, looks.get("choices")),
            default=default,
            nargs=nargs,
            help=_with_default(looks["help"], default),
            metavar=looks.get("metavar"),
            shell_complete=looks.get("complete"),
        )

    return make


@overload
def argument(default: None, **looks: Unpack[Looks]) -> str | None: ...
@overload
def argument(default: str, **looks: Unpack[Looks]) -> str: ...
def argument(default: str | None, **looks: Unpack[Looks]) -> Any:
    """Declare an optional positional argument."""
    return _declared(_argument(looks, default, 1), default=default)


def arguments(**looks: Unpack[Looks]) -> list[str]:
    """Declare any number of positional arguments."""
    return _declared(_argument(looks, None, -1), default_factory=list)


def parameters(arguments: type[Any]) -> list[click.Parameter]:
    """Build click's parameters from the fields of a dataclass, in order."""
    made = (cast("Callable[[str], click.Parameter]", f.metadata[_KEY])(f.name) for f in fields(arguments))
    return list(made)
