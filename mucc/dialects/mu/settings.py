"""The settings of schedules, each declared once: name, values, how they are written and read.

A value has three forms: an attribute of the IR, its source text, and its JSON in manifests. Frontend,
verifier, manifest, tuning database, explanations and agent get all three from `SETTINGS`. Which settings
a kind of kernel has is said by the kind; what a target allows is said by the target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.str_enum import StrEnum

from mucc.diagnostics.core import Span
from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    Raster,
    SchedulerAttr,
    SchedulerKind,
    SizesAttr,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.syntax import WordAttr

Chosen: TypeAlias = Mapping[str, Attribute]
"""A schedule, or what is pinned of one: the value of each setting by the setting's name."""

Texts: TypeAlias = Mapping[str, str]
"""The same as source has it: the text of each value."""

_NOWHERE = Span(0, 0)

# Values as source has them


class Sizes(NamedTuple):
    """`128x256x64`."""

    sizes: tuple[int, ...]
    span: Span = _NOWHERE


class Number(NamedTuple):
    """`4`."""

    number: int
    span: Span = _NOWHERE


class Word(NamedTuple):
    """`cooperative`, or `persistent(raster=along_n)`; `arguments` is None without brackets."""

    text: str
    arguments: tuple[Argument, ...] | None = None
    span: Span = _NOWHERE

    @property
    def head(self) -> Span:
        """Where the word itself stands."""
        return Span(self.span.start, self.span.start + len(self.text))


class Argument(NamedTuple):
    """`raster=along_n`, or a value alone, within the brackets of a word."""

    name: str
    """Empty for a value alone."""
    value: Value
    span: Span = _NOWHERE
    name_span: Span = _NOWHERE


Value: TypeAlias = Sizes | Number | Word


class Fault(NamedTuple):
    """What is wrong with a value. `word` is none of the `known` words where there are any."""

    message: str
    span: Span
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    word: str = ""
    known: tuple[str, ...] = ()


def value_of(text: str) -> Value:
    """The value that a text is. Raises ValueError for a text that is none."""
    head, opened, inner = (part.strip() for part in text.partition("("))
    if opened:
        if not inner.endswith(")"):
            raise ValueError(f"'{text}' has no closing bracket")
        parts = (part for part in inner[:-1].split(",") if part.strip())
        return Word(head, tuple(map(_argument, parts)))
    if head.isdecimal():
        return Number(int(head))
    if head[:1].isdecimal():
        return Sizes(tuple(map(int, head.split("x"))))
    return Word(head)


def _argument(text: str) -> Argument:
    name, equals, value = (part.strip() for part in text.partition("="))
    return Argument(name, value_of(value)) if equals else Argument("", value_of(name))


# Kinds of settings

A = TypeVar("A", bound=Attribute)


class Setting(ABC, Generic[A]):
    """A setting whose values are attributes of one type.

    `unset` is the source text of the value where the setting is left out, None where each target has its
    own. `terse` says that a value is understood without the name beside it. `parts` names what of a value is
    spoken of by itself, such as an argument.
    """

    def __init__(
        self,
        name: str,
        attribute: type[A],
        meaning: str,
        *,
        unset: str | None = None,
        terse: bool = False,
        parts: tuple[str, ...] = (),
    ):
        self.name = name
        self.attribute = attribute
        self.meaning = meaning
        self.unset = unset
        self.terse = terse
        self.parts = parts

    def of(self, settings: Mapping[str, Any]) -> A | None:
        """The value that the setting has among others."""
        value = settings.get(self.name)
        return value if isinstance(value, self.attribute) else None

    def is_unset(self, value: A | None) -> bool:
        """Whether a value says nothing else than what holds without it."""
        return value is None or self.text(value) == self.unset

    @property
    @abstractmethod
    def form(self) -> str:
        """What a value must be, for messages and documentation."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of which a value is one, or has some."""
        return (self.unset,) if self.unset else ()

    @abstractmethod
    def read(self, value: Value, faults: list[Fault]) -> A | None:
        """The attribute of a value in the source.

        None where it says what holds without it, and where something is wrong, which is added to `faults`.
        """

    def parse(self, text: str) -> A | None:
        """The attribute of a source text. Raises ValueError where the text is no value of the setting."""
        faults: list[Fault] = []
        found = self.read(value_of(text), faults)
        if faults:
            raise ValueError(faults[0].message)
        return found

    def text(self, value: A) -> str:
        """A value as source has it."""
        return str(value)

    def skeleton(self, text: str) -> str:
        """What of a value machine code knows, as a text that equal ones share."""
        return text

    def brief(self, value: A) -> str:
        """A value in a table: without what is usual."""
        return self.text(value)

    def json(self, value: A | None) -> str | int | bool | None:
        """A value as manifests have it."""
        return None if value is None else self.text(value)

    def from_json(self, data: object) -> A | None:
        """The value that `json` wrote. Raises ValueError for anything else."""
        return None if data is None else self.parse(str(data))

    def mentions(self, value: A) -> tuple[str, ...]:
        """The words by which messages speak of a value."""
        return (self.text(value),)

    def _bad(self, value: Value, wanted: str) -> Fault:
        return Fault(f"'{self.name}' must be {wanted}", value.span)


P = TypeVar("P", bound=SizesAttr)


class SizesSetting(Setting[P]):
    """A setting whose value is a size along each of some axes."""

    def __init__(
        self,
        name: str,
        attribute: type[P],
        axes: str,
        example: str,
        meaning: str,
        *,
        unset: str | None = None,
        terse: bool = False,
    ):
        super().__init__(name, attribute, meaning, unset=unset, terse=terse)
        self._rank = len(axes)
        self._wanted = f"{'x'.join(axes)}, for example {example}"

    @property
    def form(self) -> str:
        return f"{self.unset} or {self._wanted}" if self.unset else self._wanted

    def read(self, value: Value, faults: list[Fault]) -> P | None:
        if isinstance(value, Word) and value.text == self.unset and value.arguments is None:
            return None
        if not isinstance(value, Sizes) or len(value.sizes) != self._rank:
            faults.append(self._bad(value, self.form))
        elif 0 in value.sizes:
            faults.append(self._bad(value, "made of positive sizes"))
        else:
            return self.attribute.of(*value.sizes)
        return None

    def mentions(self, value: P) -> tuple[str, ...]:
        text = self.text(value)
        return text, text.rpartition("x")[0]


class CountSetting(Setting[IntegerAttr]):
    """A setting whose value is a number of at least 1, or left to the compiler."""

    def __init__(self, name: str, noun: str, meaning: str):
        super().__init__(name, IntegerAttr, meaning, unset="auto")
        self._noun = noun

    @property
    def form(self) -> str:
        return f"{self.unset} or a number of at least 1"

    def read(self, value: Value, faults: list[Fault]) -> IntegerAttr | None:
        match value:
            case Number(number=number) if number >= 1:
                return IntegerAttr(number, i64)
            case Word(text=text, arguments=None) if text == self.unset:
                pass
            case _:
                faults.append(self._bad(value, self.form))
        return None

    def text(self, value: IntegerAttr) -> str:
        return str(value.value.data)

    def json(self, value: IntegerAttr | None) -> int | None:
        return None if value is None else value.value.data

    def mentions(self, value: IntegerAttr) -> tuple[str, ...]:
        return (f"{self.text(value)} {self._noun}",)


W = TypeVar("W", bound=StrEnum)


class WordSetting(Setting[WordAttr[W]]):
    """A setting whose value is one of some words."""

    def __init__(
        self,
        name: str,
        attribute: type[WordAttr[W]],
        words: type[W],
        meaning: str,
        *,
        unset: str | None = None,
        terse: bool = False,
    ):
        super().__init__(name, attribute, meaning, unset=unset, terse=terse)
        self._words = words

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._words)

    @property
    def form(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: Value, faults: list[Fault]) -> WordAttr[W] | None:
        if (word := _one_of(self.name, value, self.words, faults)) is None:
            return None
        if word.arguments is not None:
            faults.append(self._bad(value, "a word without brackets"))
            return None
        return self.attribute(self._words(word.text))

    def text(self, value: WordAttr[W]) -> str:
        return value.data.value


class SwitchSetting(WordSetting[Switch]):
    """A setting that is on or off; off where it is left out."""

    def __init__(self, name: str, meaning: str):
        super().__init__(name, SwitchAttr, Switch, meaning, unset=Switch.OFF)

    def is_on(self, settings: Mapping[str, Any]) -> bool:
        """Whether it is on among others."""
        value = self.of(settings)
        return value is not None and value.data is Switch.ON

    def json(self, value: WordAttr[Switch] | None) -> bool:
        return value is not None and value.data is Switch.ON

    def from_json(self, data: object) -> WordAttr[Switch] | None:
        return SwitchAttr(Switch.ON) if data else None


class SchedulerSetting(Setting[SchedulerAttr]):
    """The setting that says how tiles are handed to thread blocks: a word with parameters."""

    _PARAMETERS: Mapping[str, tuple[str, ...]] = {
        SchedulerKind.PERSISTENT: ("raster", "swizzle"),
        SchedulerKind.STREAM_K: ("splits",),
        SchedulerKind.SPLIT_K: ("splits",),
    }

    @property
    def words(self) -> tuple[str, ...]:
        return (*SchedulerKind, *Raster)

    @property
    def form(self) -> str:
        return f"one of {', '.join(SchedulerKind)}"

    def read(self, value: Value, faults: list[Fault]) -> SchedulerAttr | None:
        if (word := _one_of(self.name, value, tuple(SchedulerKind), faults)) is None:
            return None
        before = len(faults)
        given: dict[str, str | int] = {}
        for argument in word.arguments or ():
            self._read_argument(word, argument, given, faults)
        if word.text == SchedulerKind.SPLIT_K and len(faults) == before and "splits" not in given:
            message = "split_k needs the number of splits"
            faults.append(Fault(message, word.span, helps=("split_k(4)",)))
        if len(faults) > before:
            return None
        return SchedulerAttr.of(
            word.text,
            str(given.get("raster", Raster.HEURISTIC)),
            int(given.get("swizzle", 1)),
            int(given.get("splits", 1)),
        )

    def _read_argument(
        self, word: Word, argument: Argument, given: dict[str, str | int], faults: list[Fault]
    ) -> None:
        """Add an argument to those that are given."""
        names = self._PARAMETERS[word.text]
        name = argument.name or names[0]
        if not argument.name and (len(names) > 1 or name in given):
            note = f"they are {', '.join(names)}"
            message = f"give the parameters of {word.text} by name"
            faults.append(Fault(message, argument.span, (note,)))
        elif name not in names:
            message, note = f"{word.text} has no parameter '{name}'", f"it has {', '.join(names)}"
            faults.append(Fault(message, argument.name_span, (note,), word=name, known=names))
        elif name in given:
            faults.append(Fault(f"'{name}' is given twice", argument.span))
        elif (found := self._parameter(name, argument.value, faults)) is not None:
            given[name] = found

    @staticmethod
    def _parameter(name: str, value: Value, faults: list[Fault]) -> str | int | None:
        """The value of a parameter."""
        if name != "raster":
            if isinstance(value, Number) and value.number >= 1:
                return value.number
            faults.append(Fault(f"'{name}' must be a number of at least 1", value.span))
            return None
        words = tuple(Raster)
        if isinstance(value, Word) and value.arguments is None and value.text in words:
            return value.text
        message = f"'raster' must be one of {', '.join(words)}"
        if isinstance(value, Word):
            faults.append(Fault(message, value.span, word=value.text, known=words))
        else:
            faults.append(Fault(message, value.span))
        return None

    def skeleton(self, text: str) -> str:
        """Which scheduler it is: orders of tiles and numbers of splits are arguments at run time."""
        return text.partition("(")[0].strip()

    def brief(self, value: SchedulerAttr) -> str:
        if value.kind.data != SchedulerKind.PERSISTENT:
            return self.text(value).removesuffix("()")
        usual = {"raster": Raster.HEURISTIC, "swizzle": 1}
        given = {"raster": value.raster.data, "swizzle": value.swizzle.data}
        shown = ", ".join(f"{name}={found}" for name, found in given.items() if found != usual[name])
        return f"{value.kind.data}({shown})" if shown else value.kind.data

    def mentions(self, value: SchedulerAttr) -> tuple[str, ...]:
        return (value.kind.data,)


def _one_of(name: str, value: Value, words: tuple[str, ...], faults: list[Fault]) -> Word | None:
    """A value that is one of some words, with or without arguments."""
    listed = f"one of {', '.join(words)}"
    if not isinstance(value, Word):
        faults.append(Fault(f"'{name}' must be {listed}", value.span))
    elif value.text not in words:
        message = f"'{value.text}' is no value of '{name}'"
        faults.append(Fault(message, value.head, (f"it is {listed}",), word=value.text, known=words))
    else:
        return value
    return None


# The table

TILE = SizesSetting(
    "tile",
    TileAttr,
    "MNK",
    "128x256x64",
    "`MxNxK`: the block of the result that one thread block computes, and its step along K",
    terse=True,
)
CLUSTER = SizesSetting(
    "cluster",
    ClusterAttr,
    "MN",
    "2x1",
    "`MxN`: how many thread blocks share their loads",
    terse=True,
)
MAINLOOP = WordSetting(
    "mainloop",
    MainloopAttr,
    Mainloop,
    "sm_90a: `cooperative`, `pingpong`, `warpspecialized`, `cpasync` (threads copy rows of A: those "
    "that `gather` picks, or rows of 4 and 8 bytes); sm_100a: `one_sm`, `two_sm` (a pair of blocks "
    "multiplies together); `multistage` everywhere: without TMA, for rows of any alignment without "
    "copies, and for `compute=f32`; `skinny` where M or N is 1 to 16, up to 32",
    terse=True,
)
STAGES = CountSetting(
    "stages",
    "stage",
    "a number, or `auto`: as many as fit into shared memory",
)
SCHEDULER = SchedulerSetting(
    "scheduler",
    SchedulerAttr,
    "`persistent(raster=along_m, swizzle=1)` with raster `along_m`, `along_n` or `heuristic` and "
    "swizzle 1, 2, 4 or 8; `stream_k(splits=n)`; `split_k(n)`",
    terse=True,
    parts=("split_k", "stream_k", "swizzle", "raster"),
)
EXCHANGE = SwitchSetting(
    "exchange",
    "`on` or `off`: compute the transposed product `Dᵀ = Bᵀ Aᵀ`, so that a small M becomes the tile's "
    "N. `tile`, `cluster` and `raster` then count the kernel's: M is the result's columns, N its rows",
)
EPILOGUE = SizesSetting(
    "epilogue",
    EpilogueTileAttr,
    "MN",
    "64x32",
    "`MxN`, or `auto`: the piece of a tile that the epilogue works on at a time",
    unset="auto",
)
PDL = SwitchSetting(
    "pdl",
    "`on` or `off`: start while the kernel before it on the stream still runs (programmatic dependent "
    "launch), and wait for its end before reading. Off where it is left out",
)

SETTINGS: Mapping[str, Setting[Any]] = {
    s.name: s for s in (TILE, CLUSTER, MAINLOOP, STAGES, SCHEDULER, EXCHANGE, EPILOGUE, PDL)
}
"""By name, what a schedule may set, in the order of `schedule` blocks and manifests."""


def texts_of(settings: Chosen) -> dict[str, str]:
    """A schedule as source has it."""
    return {name: SETTINGS[name].text(value) for name, value in settings.items()}


def parse_settings(texts: Texts | Iterable[tuple[str, str]]) -> dict[str, Attribute]:
    """The schedule that texts say; what is left to the compiler is left out.

    Raises ValueError for a setting that there is not, and for a text that is none of its values.
    """
    found: dict[str, Attribute] = {}
    for name, text in dict(texts).items():
        if (setting := SETTINGS.get(name)) is None:
            raise ValueError(f"there is no setting '{name}'")
        if (value := setting.parse(text)) is not None:
            found[name] = value
    return found
