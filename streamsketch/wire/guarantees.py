"""Guarantees in the exchange format, and the mechanisms in them as records."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, cast

from streamsketch.accounting.sensitivity import check_carried
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import (
    AddedNoise,
    FlippedSigns,
    KeySelection,
    Mechanism,
    NoisePlace,
    Shares,
    StatedInText,
    Step,
)
from streamsketch.privacy.neighbours import NEIGHBOURS, Neighbours
from streamsketch.privacy.noise import NOISES
from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.schedule_kinds import schedule_of
from streamsketch.privacy.sign_flips import FlipLaw, Shape
from streamsketch.wire import wire_pb2
from streamsketch.wire.parsing import at, ratio_message, ratio_of

_BASES: dict[str, Basis | None] = {"": None, "enforced": "enforced", "asserted": "asserted"}
_OF_KINDS: tuple[Literal["depth", "blocks", "band", "bits"], ...] = ("depth", "blocks", "band", "bits")
_PLACES: dict[str, NoisePlace] = {"": "output", "input": "input", "hadamard": "hadamard"}


# --- to messages ------------------------------------------------------------------------------------------------


_LAST: list[tuple[Any, wire_pb2.Guarantee]] = []
"""The last guarantee that was written, and its message, which nobody changes: all rows of a table have one."""


def guarantee_message(guarantee: Guarantee | IndividualGuarantee) -> wire_pb2.Guarantee:
    """Return a guarantee as a message, which is not to be changed."""
    for last, message in _LAST:
        if last is guarantee:
            return message
    message = _written(guarantee)
    _LAST[:] = [(guarantee, message)]
    return message  # not what is kept, which another thread may have replaced


def _written(guarantee: Guarantee | IndividualGuarantee) -> wire_pb2.Guarantee:
    return wire_pb2.Guarantee(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        neighbours=_neighbours_message(guarantee.neighbours),
        mechanism=str(guarantee.mechanism),
        conditions=guarantee.conditions,
        steps=_step_messages(guarantee.mechanism) if isinstance(guarantee, Guarantee) else (),
        basis=guarantee.basis or "",
    )


def _neighbours_message(neighbours: Neighbours) -> wire_pb2.Neighbours:
    """Return a relation as a message.

    Raises
    ------
    InvalidInputError
        If the relation has a field for which the format has no number: a reader would then state another guarantee.
    """
    fields = {field.name: getattr(neighbours, field.name) for field in dataclasses.fields(neighbours)}
    unnumbered = sorted(fields.keys() - wire_pb2.Neighbours.DESCRIPTOR.fields_by_name.keys())
    if unnumbered:
        raise InvalidInputError(
            f"the exchange format has no number for {', '.join(unnumbered)} of {neighbours!r}: add it to wire.proto"
        )
    values: dict[str, Any] = fields | {
        "bound": ratio_message(Fraction(neighbours.bound)),
        "max_keys": 0 if neighbours.max_keys == 1 else neighbours.max_keys,
    }
    return wire_pb2.Neighbours(kind=neighbours.kind, **values)


def _neighbours(message: wire_pb2.Neighbours) -> Neighbours:
    relation = NEIGHBOURS.get(message.kind)
    if relation is None:
        raise WireFormatError(
            "guarantee.neighbours.kind", f"must be one of {', '.join(NEIGHBOURS)}, got {short(message.kind)}"
        )
    own = {name: getattr(message, name) for name in relation.own_fields()}
    bound = ratio_of("guarantee.neighbours.bound", message.bound)
    neighbours = relation(bound, message.unit, message.max_keys or 1, **own)
    check_carried(neighbours)
    return neighbours


def _step_messages(mechanism: Mechanism) -> list[wire_pb2.Step]:
    """Return a mechanism as messages; none if it is known by its text alone."""
    return [_step_message(step) for step in mechanism.steps] if mechanism.is_record else []


def _step_message(step: Step) -> wire_pb2.Step:
    match step:
        case AddedNoise():
            layout = step.layout
            noise = wire_pb2.AddedNoise(
                kind=step.noise.name,
                amount=ratio_message(step.noise.amount),
                layers=0 if step.layers == 1 else step.layers,
                place=place_name(step.place),
                shares=None if step.shares is None else wire_pb2.Shares(**dataclasses.asdict(step.shares)),
                counting=None if layout.counting is None else wire_pb2.Counting(**layout.counting.to_dict()),
                schedule=None if layout.schedule is None else wire_pb2.Schedule(**layout.schedule.to_dict()),
            )
            return wire_pb2.Step(noise=noise)
        case FlippedSigns():
            bound = None if step.norm_bound is None else ratio_message(step.norm_bound)
            flips = wire_pb2.FlippedSigns(method=step.method, law=law_message(step.law), norm_bound=bound)
            return wire_pb2.Step(flips=flips)
        case KeySelection():
            return wire_pb2.Step(keys=wire_pb2.KeySelection(epsilon=step.budget.epsilon, delta=step.budget.delta))
        case StatedInText():
            return wire_pb2.Step(text=step.text)


def law_message(law: FlipLaw) -> wire_pb2.FlipLaw:
    """Return a flip law as a message."""
    return wire_pb2.FlipLaw(shape=law.shape, rate=ratio_message(law.rate))


def place_name(place: NoisePlace) -> str:
    """Return the name of a noise place in the exchange format."""
    return "" if place == "output" else place


# --- from messages ----------------------------------------------------------------------------------------------


def guarantee_of(message: wire_pb2.Guarantee) -> Guarantee:
    """Return a message's guarantee; raise `WireFormatError` if it is invalid."""
    return at("guarantee", lambda: _guarantee(message))


def _guarantee(message: wire_pb2.Guarantee) -> Guarantee:
    neighbours = _neighbours(message.neighbours)
    mechanism = _mechanism(message.mechanism, message.steps)
    if message.basis not in _BASES:
        bases = ", ".join(filter(None, _BASES))
        raise WireFormatError("guarantee.basis", f"must be one of {bases}, got {short(message.basis)}")
    basis = _BASES[message.basis]
    return Guarantee(message.epsilon, message.delta, neighbours, mechanism, message.conditions, basis)


def _mechanism(text: str, steps: Sequence[wire_pb2.Step]) -> Mechanism:
    """Return the mechanism of a record, which may be empty, after a check that the text describes it."""
    if not steps:
        return Mechanism.stated(text)
    mechanism = Mechanism([_step(step) for step in steps])
    if str(mechanism) != text:
        raise WireFormatError("guarantee.mechanism", f"is not the text of its steps, which is {short(str(mechanism))}")
    return mechanism


def _step(message: wire_pb2.Step) -> Step:
    match message.WhichOneof("what"):
        case "noise":
            return _added_noise(message.noise)
        case "flips":
            where, bounded = "guarantee.steps.flips", message.flips.HasField("norm_bound")
            bound = ratio_of(f"{where}.norm_bound", message.flips.norm_bound) if bounded else None
            return FlippedSigns(message.flips.method, law_of(f"{where}.law", message.flips.law), bound)
        case "keys":
            return KeySelection(Budget(message.keys.epsilon, message.keys.delta))
        case "text":
            return StatedInText(message.text)
    raise WireFormatError("guarantee.steps", "has an empty step")


def _added_noise(message: wire_pb2.AddedNoise) -> AddedNoise:
    where = "guarantee.steps.noise"
    kind = NOISES.get(message.kind)
    if kind is None:
        raise WireFormatError(f"{where}.kind", f"must be one of {', '.join(NOISES)}, got {short(message.kind)}")
    noise = kind.of_amount(ratio_of(f"{where}.amount", message.amount))
    shares = Shares(message.shares.parties, message.shares.honest) if message.HasField("shares") else None
    fields = message.counting
    counting = Counting(fields.units, fields.slack) if message.HasField("counting") else None
    schedule = _schedule(message.schedule) if message.HasField("schedule") else None
    place = place_of(f"{where}.place", message.place)
    return AddedNoise(noise, message.layers or 1, place, shares, Layout(counting, schedule))


def _schedule(message: wire_pb2.Schedule) -> Schedule:
    """Return a message's schedule, of which a field that its kind has a default for may be absent."""
    names = ("kind", "horizon", "max_windows", "gap", *(field for field in _OF_KINDS if message.HasField(field)))
    return schedule_of({name: getattr(message, name) for name in names})


def law_of(where: str, message: wire_pb2.FlipLaw) -> FlipLaw:
    """Return a message's flip law."""
    return FlipLaw(cast("Shape", message.shape), ratio_of(f"{where}.rate", message.rate))


def place_of(where: str, name: str) -> NoisePlace:
    """Return the place of a name; raise `WireFormatError` if it is none."""
    if name not in _PLACES:
        raise WireFormatError(where, f"must be one of {', '.join(filter(None, _PLACES))}, got {short(name)}")
    return _PLACES[name]
