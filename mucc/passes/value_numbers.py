"""Value numbers: equal ones for values that equal operations compute of equal operands."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import Pure

Numbers = dict[SSAValue, int]
"""The number of each result. A parameter of the kernel has none: it equals itself alone."""


def number_values(
    ops: Iterable[Operation], marks: Mapping[Operation, Hashable] = MappingProxyType({})
) -> Numbers:
    """Give numbers to the results of operations, which come in order.

    Operations are equal if they have equal names, operands, properties, attributes, result types and, where
    they are in `marks`, marks. One that has regions, or is not pure, equals itself alone.
    """
    numbers: Numbers = {}
    known: dict[Hashable, int] = {}
    for op in ops:
        is_comparable = not op.regions and op.has_trait(Pure)
        key = (marks.get(op), *_parts(op, numbers)) if is_comparable else op
        number = known.setdefault(key, len(numbers))
        numbers |= {result: number + index for index, result in enumerate(op.results)}
    return numbers


def _parts(op: Operation, numbers: Numbers) -> tuple[Hashable, ...]:
    """Return what two operations have in common if they compute the same."""
    operands = tuple(numbers.get(value, value) for value in op.operands)
    return op.name, operands, tuple(op.result_types), _items(op.properties), _items(op.attributes)


def _items(attributes: Mapping[str, Attribute]) -> Hashable:
    return frozenset(attributes.items())
