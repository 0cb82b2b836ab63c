"""Steps that Beam builds quickly, because building takes most of the time of a small job."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.typehints.decorators import IOTypeHints, get_type_hints


class Step(beam.DoFn):
    """A ``DoFn`` whose types are declared where it is applied, or by a decorator of its class.

    For each step, Beam searches eight times for state and timers, in the defaults of all methods that ``dir`` lists,
    and about ten times for types, in the annotations of ``process``. Together this takes six milliseconds. So ``dir``
    lists only the methods that subclasses define, since no others can have state, and annotations are for readers only.
    """

    def __dir__(self) -> list[str]:
        kinds = type(self).__mro__
        return sorted({name for kind in kinds[: kinds.index(Step)] for name in vars(kind)})

    def default_type_hints(self) -> IOTypeHints:
        """Return the types that decorators of the class declare."""
        return get_type_hints(type(self))


class Each(Step):
    """Yield what a module's function returns for each element, as ``beam.FlatMap`` does.

    Parameters
    ----------
    function
        Takes the element and ``arguments``.
    arguments
        Further arguments of the function.
    """

    def __init__(self, function: Callable[..., Iterable[Any]], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments

    def process(self, element: Any) -> Iterable[Any]:
        """Return the function's results."""
        return self._function(element, *self._arguments)


class Listed(Step):
    """Yield elements that are listed, for an impulse: Beam's ``Create`` would spread them, in seven steps more."""

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    def process(self, _: bytes) -> list[Any]:
        """Return the elements."""
        return self._elements


def merge_group(group: tuple[Any, Iterable[Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield a key and the sum of its sketches or aggregators, as a new object: Beam may use its inputs again."""
    key, (first, *others) = group
    total = first.copy()
    for other in others:
        total.merge(other)
    yield key, total
