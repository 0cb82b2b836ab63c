"""What a mechanism may say, written from WIRE.md alone, and the text of one: a part of ``reader.py``."""

import itertools
import math
from fractions import Fraction
from typing import Any

LABELS = {"laplace": "discrete Laplace, scale", "gaussian": "discrete Gaussian, variance"}
PLACES = {"": "", "input": ", on the input", "hadamard": ", on what the Hadamard step returns"}
LEVELS = {"constant": "", "levels": "·⌈|cell|/step⌉", "linear": "·|cell|"}


class Refused(Exception):  # noqa: N818 - what a reader does
    """Bytes are not a valid message; the text says why."""


def need(valid: bool, reason: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Refuse unless something is so."""
    if not valid:
        raise Refused(reason)


def check_budget(budget: dict[str, Any]) -> None:
    """Refuse an ε or a δ out of range."""
    need(1e-6 <= budget["epsilon"] <= 1e6, "epsilon out of range")
    need(0 <= budget["delta"] < 1 and math.copysign(1, budget["delta"]) > 0, "delta out of range")


def check_steps(steps: list[dict[str, Any]]) -> None:
    """Refuse anything but a mechanism."""
    need(len(steps) <= 16, "more than 16 steps")
    need(all(len(step) == 1 for step in steps), "a step that is nothing, or two things")
    texts = ["text" in step for step in steps]
    need(not all(texts), "a mechanism that is known by its text alone has no steps")
    need((True, True) not in itertools.pairwise(texts), "two texts in a row")
    for step in steps:
        need(step.get("text", "-") != "", "a step without text")
        if "noise" in step:
            check_added(step["noise"])
        elif "flips" in step:
            check_law(step["flips"]["law"])
            need(step["flips"]["method"] != "" and step["flips"].get("norm_bound", 1) > 0, "no method, or no bound")
        elif "keys" in step:
            check_budget(step["keys"])


def check_added(noise: dict[str, Any]) -> None:
    """Refuse a noise that no sampler draws."""
    amount: Fraction = noise["amount"]
    need(noise["kind"] in LABELS, "an unknown noise")
    if noise["kind"] == "laplace":
        need(0 < amount <= 1 << 32 and max(amount.as_integer_ratio()) < 1 << 48, "a scale out of range")
    else:
        need(Fraction(1, 2) <= amount <= 1 << 48 and amount.denominator <= 256, "a variance out of range")
        need(amount.numerator < 1 << 49, "a variance out of range")
    need(noise["layers"] in (0, 2), "layers other than 2; 1 is left out")
    need(noise["place"] in PLACES, "an unknown place")
    if "shares" in noise:
        parties, honest = noise["shares"]["parties"], noise["shares"]["honest"]
        need(1 <= honest <= parties <= 4096, "shares of none, or of more honest parties than there are")
        need(noise["layers"] == 0 and noise["place"] == "", "shares of other than one noise on the cells")
    if "counting" in noise:
        units, slack = noise["counting"]["units"], noise["counting"]["slack"]
        need(1 <= units < 1 << 31 and slack < 1 << 31, "weights of counts out of range")
        need(noise["layers"] == 0 and noise["place"] == "", "counts beside other than one noise on the cells")
    if "schedule" in noise:
        need(noise["layers"] == 0 and noise["place"] == "" and "shares" not in noise, "rows of other than one noise")
        check_schedule(noise["schedule"])


SCHEDULES: dict[str, dict[str, tuple[int, int]]] = {
    "separate": {},
    "tree": {"depth": (1, 64)},
    "factorisation": {"blocks": (2, 100_000), "bits": (1, 12)},
}


def check_schedule(fields: dict[str, Any]) -> None:
    """Refuse a schedule with a field out of range, or that its kind does not have."""
    horizon, gap, own = fields["horizon"], fields["gap"], SCHEDULES.get(fields["kind"])
    need(own is not None, "an unknown kind of schedule")
    ranges = {"horizon": (1, 100_000), "gap": (1, 100_000), **(own or {})}
    ranges |= {"band": (1, horizon)} if "band" in fields and fields["kind"] == "factorisation" else {}
    need(set(fields) == {"kind", "max_windows", *ranges}, "fields that the kind does not have, or fewer")
    for name, (low, high) in ranges.items():
        need(low <= fields[name] <= high, f"{name} out of range")
    need(1 <= fields["max_windows"] <= -(-horizon // gap), "a unit in more windows than there are")


def check_law(law: dict[str, Any]) -> None:
    """Refuse flips that no sampler draws."""
    need(law["shape"] in LEVELS, "an unknown law")
    need(law["rate"].denominator in {1 << s for s in range(53)}, "a rate that is no n/2^s")
    need(0 < law["rate"].numerator <= 1 << 32, "a rate out of range")


def text_of(steps: list[dict[str, Any]]) -> str:
    """Return the text of a mechanism."""
    return "; ".join(text_of_step(*next(iter(step.items()))) for step in steps)


def text_of_step(what: str, said: Any) -> str:
    """Return the text of one step."""
    if what == "noise":
        layers = ", inside and on release" if said["layers"] == 2 else ""
        others = f"{PLACES[said['place']]}{text_of_shares(said)}{text_of_rows(said)}{text_of_counting(said)}"
        return f"{LABELS[said['kind']]} {said['amount']}{layers}{others}"
    if what == "flips":
        norms = f" for norms of at least {said['norm_bound']}" if "norm_bound" in said else ""
        law = said["law"]
        return f"{said['method']}{norms}, flips with 1/(exp({law['rate']}{LEVELS[law['shape']]}) + 1)"
    if what == "keys":
        return f"Laplace threshold for the keys, ε = {said['epsilon']!r}, δ = {said['delta']!r}"
    return str(said)


def text_of_shares(noise: dict[str, Any]) -> str:
    """Return the text of who added a noise."""
    if "shares" not in noise:
        return ""
    parties, honest = noise["shares"]["parties"], noise["shares"]["honest"]
    return f", in shares of {parties} parties" + (f", of whom {honest} are honest" if honest < parties else "")


def text_of_rows(noise: dict[str, Any]) -> str:
    """Return the text of the schedule of whose rows it is the noise."""
    if "schedule" not in noise:
        return ""
    fields = noise["schedule"]
    many = "one" if fields["max_windows"] == 1 else f"at most {fields['max_windows']}"
    apart = f", {fields['gap']} apart" if fields["gap"] > 1 and fields["max_windows"] > 1 else ""
    words = {"separate": "each by itself", "tree": f"tree of depth {fields.get('depth')}"}.get(fields["kind"])
    if words is None:
        blocks = f"square root in blocks ({fields.get('blocks')})"
        words = f"square root of {fields['band']} windows" if "band" in fields else blocks
    return f", over {fields['horizon']} windows ({words}), a unit in {many} of them{apart}"


def text_of_counting(noise: dict[str, Any]) -> str:
    """Return the text of what is counted beside the cells."""
    if "counting" not in noise:
        return ""
    slack = f" and slack (weight {noise['counting']['slack']})" if noise["counting"]["slack"] else ""
    return f", with a count of units (weight {noise['counting']['units']}){slack}"
