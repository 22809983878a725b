"""Kinds of schedule settings, and values of settings as source text has them.

A value has three forms: an attribute of the IR, its source text, and its JSON in manifests. A `Setting`
converts between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.str_enum import StrEnum

from mucc.diagnostics.core import Span
from mucc.dialects.mu.schedule_attributes import (
    Raster,
    SchedulerAttr,
    SchedulerKind,
    SizesAttr,
    Switch,
    SwitchAttr,
)
from mucc.dialects.mu.syntax import WordAttr

_NOWHERE = Span(0, 0)

# Values as source has them


class Sizes(NamedTuple):
    """A size along each of some axes, such as `128x256x64`."""

    sizes: tuple[int, ...]
    span: Span = _NOWHERE


class Number(NamedTuple):
    """An integer, such as `4`."""

    number: int
    span: Span = _NOWHERE


class Word(NamedTuple):
    """A word with or without arguments, such as `cooperative` or `persistent(raster=along_n)`.

    `arguments` is None where the source has no brackets.
    """

    text: str
    arguments: tuple[Argument, ...] | None = None
    span: Span = _NOWHERE

    @property
    def head(self) -> Span:
        """The span of the word without its arguments."""
        return Span(self.span.start, self.span.start + len(self.text))


class Argument(NamedTuple):
    """An argument in the brackets of a word: `raster=along_n`, or a value without a name."""

    name: str
    """Empty for a positional argument."""
    value: Value
    span: Span = _NOWHERE
    name_span: Span = _NOWHERE


Value: TypeAlias = Sizes | Number | Word


class Fault(NamedTuple):
    """An error in a value. For an unknown word, `word` is that word, and `known` lists the legal ones."""

    message: str
    span: Span
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    word: str = ""
    known: tuple[str, ...] = ()


def value_of(text: str) -> Value:
    """Parse the source text of a value. Raises ValueError for malformed text."""
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
    """Base of schedule settings: parses, verifies and prints values, which are attributes of one type.

    `unset` is the source text of the default value, None where each target has a default of its own. A
    `terse` setting is printed without its name, because its values are unambiguous. `parts` names arguments
    of values that messages mention on their own, such as `swizzle`.
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
        """Look up the value of this setting in a schedule; None where it is not set."""
        value = settings.get(self.name)
        return value if isinstance(value, self.attribute) else None

    def is_unset(self, value: A | None) -> bool:
        """Whether a value equals the default."""
        return value is None or self.text(value) == self.unset

    @property
    @abstractmethod
    def form(self) -> str:
        """The form of a legal value in words, for messages and documentation."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that values are made of."""
        return (self.unset,) if self.unset else ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of arguments that values have in brackets."""
        return ()

    @property
    def example(self) -> str:
        """A value that is no word, empty where all are words."""
        return ""

    @abstractmethod
    def read(self, value: Value, faults: list[Fault]) -> A | None:
        """Convert a parsed value to an attribute.

        Returns None for the default, and for an illegal value, after adding an error to `faults`.
        """

    def parse(self, text: str) -> A | None:
        """Parse source text to an attribute. Raises ValueError where the text is no value of the setting."""
        faults: list[Fault] = []
        attribute = self.read(value_of(text), faults)
        if faults:
            raise ValueError(faults[0].message)
        return attribute

    def text(self, value: A) -> str:
        """Print a value as source text."""
        return str(value)

    def skeleton(self, text: str) -> str:
        """Reduce a value's text to what the generated C++ depends on, without run-time arguments."""
        return text

    def brief(self, value: A) -> str:
        """Print a value for a table, without arguments that have their default."""
        return self.text(value)

    def json(self, value: A | None) -> str | int | bool | None:
        """Convert a value to the JSON of manifests."""
        return None if value is None else self.text(value)

    def from_json(self, data: object) -> A | None:
        """Parse the JSON that `json` returned. Raises ValueError for anything else."""
        return None if data is None else self.parse(str(data))

    def mentions(self, value: A) -> tuple[str, ...]:
        """Return the texts that stand for a value in messages."""
        return (self.text(value),)

    def _bad(self, value: Value, wanted: str) -> Fault:
        return Fault(f"'{self.name}' must be {wanted}", value.span)


P = TypeVar("P", bound=SizesAttr)


class SizesSetting(Setting[P]):
    """A setting whose value is a size along each of `axes`."""

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
        self._example = example
        self._wanted = f"{'x'.join(axes)}, for example {example}"

    @property
    def form(self) -> str:
        return f"{self.unset} or {self._wanted}" if self.unset else self._wanted

    @property
    def example(self) -> str:
        return self._example

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
    """A setting whose value is an integer of at least 1, or `auto`."""

    def __init__(self, name: str, noun: str, meaning: str):
        super().__init__(name, IntegerAttr, meaning, unset="auto")
        self._noun = noun

    @property
    def form(self) -> str:
        return f"{self.unset} or a number of at least 1"

    @property
    def example(self) -> str:
        return "4"

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
    """A setting whose value is a member of an enum."""

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
    """A setting that is on or off, by default off."""

    def __init__(self, name: str, meaning: str):
        super().__init__(name, SwitchAttr, Switch, meaning, unset=Switch.OFF)

    def is_on(self, settings: Mapping[str, Any]) -> bool:
        """Whether a schedule has this setting switched on."""
        value = self.of(settings)
        return value is not None and value.data is Switch.ON

    def json(self, value: WordAttr[Switch] | None) -> bool:
        return value is not None and value.data is Switch.ON

    def from_json(self, data: object) -> WordAttr[Switch] | None:
        return SwitchAttr(Switch.ON) if data else None


class SchedulerSetting(Setting[SchedulerAttr]):
    """The tile scheduler: how output tiles are assigned to thread blocks, as a word with arguments."""

    parameters: Mapping[str, tuple[str, ...]] = {
        SchedulerKind.PERSISTENT: ("raster", "swizzle"),
        SchedulerKind.STREAM_K: ("splits",),
        SchedulerKind.SPLIT_K: ("splits",),
    }

    @property
    def words(self) -> tuple[str, ...]:
        return (*SchedulerKind, *Raster)

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.parameters.values() for name in names))

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
        """Check an argument and add it to `given`."""
        names = self.parameters[word.text]
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
        elif (checked := self._parameter(name, argument.value, faults)) is not None:
            given[name] = checked

    @staticmethod
    def _parameter(name: str, value: Value, faults: list[Fault]) -> str | int | None:
        """Check the value of a parameter."""
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
        """Keep the scheduler's name: raster, swizzle and splits are run-time arguments of a kernel."""
        return text.partition("(")[0].strip()

    def brief(self, value: SchedulerAttr) -> str:
        if value.kind.data != SchedulerKind.PERSISTENT:
            return self.text(value).removesuffix("()")
        defaults = {"raster": Raster.HEURISTIC, "swizzle": 1}
        given = {"raster": value.raster.data, "swizzle": value.swizzle.data}
        shown = ", ".join(f"{name}={arg}" for name, arg in given.items() if arg != defaults[name])
        return f"{value.kind.data}({shown})" if shown else value.kind.data

    def mentions(self, value: SchedulerAttr) -> tuple[str, ...]:
        return (value.kind.data,)


def _one_of(name: str, value: Value, words: tuple[str, ...], faults: list[Fault]) -> Word | None:
    """Return the value if it is one of `words`, with or without arguments; otherwise report an error."""
    listed = f"one of {', '.join(words)}"
    if not isinstance(value, Word):
        faults.append(Fault(f"'{name}' must be {listed}", value.span))
    elif value.text not in words:
        message = f"'{value.text}' is no value of '{name}'"
        faults.append(Fault(message, value.head, (f"it is {listed}",), word=value.text, known=words))
    else:
        return value
    return None
