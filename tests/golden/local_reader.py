"""Local reports and means, written from WIRE.md alone: no library. A part of ``reader.py``."""

import functools
import hashlib
import json
import math
import operator
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.golden import local_numbers as numbers
from tests.golden import reader, rotations, words
from tests.golden.local_numbers import TAIL, Fields, sphere_dim
from tests.golden.mechanisms import need
from tests.golden.schemas import MAGICS
from tests.oracles import naive_maps

COMMON = {"kind", "dim", "epsilon", "ball"}
FIELDS = {
    "priv-unit": {"precision"},
    "priv-unit-g": {"precision"},
    "comp-priv-unit-g": {"seed"},
    "proj-unit": {"precision", "sketch_dim", "rotation", "shared", "unbiased", "compressed", "seed"},
    "priv-hs": {"seed"},
    "re-priv-hs": {"seed", "repetitions"},
    "sqkr": {"rotation", "seed"},
    "gaussian": {"delta"},
}
ROTATIONS = {"proj-unit": ("hadamard", "haar", "gaussian"), "sqkr": ("gaussian", "hadamard")}
FLOATS = {"float32": ("f", 4, 2.0**-24, 2.0**-150), "float16": ("e", 2, 2.0**-11, 2.0**-25)}
Values = list[float]


# --- mechanisms -----------------------------------------------------------------------------------------------


def check_mechanism(fields: Fields) -> None:
    """Refuse a mechanism with a field out of range."""
    kind = fields["kind"]
    need(kind in FIELDS, "an unknown kind of mechanism")
    need(set(fields) == COMMON | FIELDS[kind], "fields that the kind does not have, or lacks")
    need(2 - fields["ball"] <= fields["dim"] <= 1 << 24, "dim out of range")
    need(2.0**-10 <= fields["epsilon"] <= (20 if numbers.is_compressed(fields) else 256), "epsilon out of range")
    need(fields.get("precision", "float32") in FLOATS, "an unknown precision")
    need(fields.get("rotation", "hadamard") in ROTATIONS.get(kind, ("hadamard",)), "an unknown rotation")
    need(1 <= fields.get("repetitions", 1) <= 256, "repetitions out of range")
    need(1e-30 <= fields.get("delta", 0.1) <= 0.1, "delta out of range")
    d = sphere_dim(fields)
    if kind == "proj-unit":
        need(1 <= fields["sketch_dim"] <= padded_dim(fields), "sketch_dim out of range")
        need(not fields["shared"] or fields["rotation"] != "gaussian", "a shared Gaussian map")
        most = {"hadamard": 1 << 24, "haar": 1 << 12, "gaussian": 1 << 16}[fields["rotation"]]
        rows = d if fields["shared"] and fields["rotation"] == "haar" else fields["sketch_dim"]
        need(rows <= most and (fields["rotation"] != "haar" or rows * d <= 1 << 30), "a matrix too large")
    need(kind != "sqkr" or fields["rotation"] == "gaussian" or d <= 1 << 22, "dim out of range")
    if fields.get("precision") == "float16":
        need(numbers.cap_of(fields).scale * (1 if kind == "priv-unit" else 64) <= 65504, "beyond float16")


def fingerprint(fields: Fields) -> int:
    """Return the 64 bits by which reports name their mechanism."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"streamsketch.ldp").digest()
    return int.from_bytes(digest, "little")


def padded_dim(fields: Fields) -> int:
    """Return N of a proj-unit."""
    d = sphere_dim(fields)
    return naive_maps.padded(d) if fields["rotation"] == "hadamard" else d


def frame(fields: Fields) -> tuple[int, list[int]]:
    """Return N' and the places of sqkr's Hadamard frame."""
    d, places = sphere_dim(fields), [0]
    size = naive_maps.padded(4 * d)
    if d > 32:
        start = words.stream(0, words.salt(fields["seed"], "kashin/places"))
        return size, words.rows(start, size, d)
    taken: set[int] = set()
    while len(places) < d:
        new = places[-1]
        taken |= {a ^ b ^ new for i, a in enumerate(places[:-1]) for b in places[:i]}
        places.append(next(place for place in range(new + 1, 1 << 24) if place not in taken))
    return max(size, 1 << places[-1].bit_length()), places


def count_of(fields: Fields) -> int:
    """Return how many values a report has."""
    kind, d = fields["kind"], sphere_dim(fields)
    if numbers.is_compressed(fields):
        return 1
    if kind == "proj-unit":
        return int(fields["sketch_dim"])
    if kind in ("priv-hs", "re-priv-hs"):
        return int(fields.get("repetitions", 1))
    return min(max(int(fields["epsilon"]), 1), 4 * d) if kind == "sqkr" else d


def cells_of(fields: Fields) -> int:
    """Return m."""
    if fields["kind"] == "proj-unit" and fields["shared"]:
        return padded_dim(fields)
    if fields["kind"] == "sqkr" and fields["rotation"] == "hadamard":
        return frame(fields)[0]
    return sphere_dim(fields)


# --- the numbers of WIRE.md ------------------------------------------------------------------------------------


def proj_unit_numbers(fields: Fields) -> tuple[float, float, float]:
    """Return E‖Wv‖, the share β along u, and the factor f."""
    d, k, n = sphere_dim(fields), fields["sketch_dim"], padded_dim(fields)
    if fields["rotation"] == "gaussian":
        length, along = math.sqrt(2 / k) * numbers.gamma_ratio(k / 2), 1 + (d - 1) / k
    else:
        length = math.sqrt(n / k) * numbers.gamma_ratio(k / 2) / numbers.gamma_ratio(n / 2)
        along = 1 + (d - 1) / max(1, n - 1) * (n / k - 1)
    if numbers.completes(fields):
        return length, along, math.sqrt(norm_bound(fields))
    return length, along, 1 / length if fields["unbiased"] else 1.0


def norm_bound(fields: Fields) -> float:
    """Return C of Algorithm 6."""
    t, k = numbers.LOG_MILLION, fields["sketch_dim"]
    return max(1.0, min(1 + 2 * math.sqrt(t / k) + 2 * t / k, padded_dim(fields) / k))


def size_of(fields: Fields) -> float:
    """Return the length of what a report adds for one direction: B0/R, or A·B/k."""
    count, epsilon = count_of(fields), Fraction(fields["epsilon"])
    scale = numbers.ROOT_PI * numbers.gamma_ratio(sphere_dim(fields) / 2)
    if fields["kind"] != "sqkr":
        return scale / (1 - 2 * (numbers.flipping_words(epsilon / count) / 2**64)) / count
    if fields["rotation"] == "hadamard":
        scale = 1.75 * math.sqrt(sphere_dim(fields))
    return 1 / (numbers.telling_words(epsilon, count) / 2**64) * scale / count


def gaussian_noise(fields: Fields) -> tuple[int, Fraction]:
    """Return f and the variance of the noise, in steps of 2^-f."""
    d, epsilon, delta = sphere_dim(fields), fields["epsilon"], fields["delta"]
    sigma = numbers.gaussian_sigma(epsilon, delta)
    for f in range(16, -1, -1):
        squared = math.ceil(Fraction(2 * ((1 + 2.0**-40) * 2.0**f + math.sqrt(d) / 2)) ** 2)
        if sigma**2 * squared < 2.0**47:
            break
    eta = 7.7e-26 * d
    return f, numbers.gaussian_variance(epsilon - 2 * eta, delta * math.exp(-eta), squared)


def squared_error(fields: Fields) -> float:
    """Return E, the expected squared error of a report."""
    kind, d = fields["kind"], sphere_dim(fields)
    if kind in ("priv-hs", "re-priv-hs", "sqkr"):
        return error_of_bits(fields)
    if kind == "gaussian":
        f, variance = gaussian_noise(fields)
        return d * float(variance) / 4.0**f
    cap = numbers.cap_of(fields)
    if kind == "priv-unit":
        return cap.scale**2 - 1
    if kind != "proj-unit":
        return d * cap.scale**2 + cap.threshold * cap.scale - 1
    length, along, factor = proj_unit_numbers(fields)
    long, short = d * cap.scale**2, along * cap.threshold * cap.scale
    if numbers.completes(fields):
        return norm_bound(fields) * long + short - 1
    return (long + short) * factor**2 - 1 if fields["unbiased"] else long + short + 1 - 2 * length


def error_of_bits(fields: Fields) -> float:
    """Return E of priv-hs, re-priv-hs and sqkr."""
    d, count, rows = sphere_dim(fields), count_of(fields), cells_of(fields)
    if fields["kind"] != "sqkr":
        return ((size_of(fields) * count) ** 2 - 1) / count
    a = 2**64 / numbers.telling_words(Fraction(fields["epsilon"]), count)
    apart = (rows - d) / (rows - 1) if fields["rotation"] == "hadamard" else 1.0
    return size_of(fields) ** 2 * count + a * (1 - 1 / count) * apart - 1


def step_exponent(fields: Fields) -> int:
    """Return e."""
    size = math.sqrt((squared_error(fields) + 1) / sphere_dim(fields))
    if fields["kind"] == "sqkr" and fields["rotation"] == "hadamard":
        size = size_of(fields) * math.sqrt(cells_of(fields) / sphere_dim(fields))
    return math.frexp(numbers.agreed(size))[1] - 1 - 22


def honest_lengths(fields: Fields) -> tuple[float, float]:
    """Return the least and the largest length of a report's values; 0 and infinity where all are honest."""
    kind, count = fields["kind"], count_of(fields)
    if kind in ("priv-hs", "re-priv-hs", "sqkr") or numbers.is_compressed(fields):
        return 0.0, math.inf
    if kind == "gaussian":
        f, variance = gaussian_noise(fields)
        t, proxy = math.log(2e9), float(variance)
        radius = (1 + 2.0**-40) * 2.0**f + math.sqrt(count) / 2
        least = math.sqrt(max(0.0, count * proxy - math.sqrt(2 * t * count * 3) * proxy)) - radius
        return max(0.0, least), math.sqrt(proxy * (count + 2 * math.sqrt(count * t) + 2 * t)) + radius
    cap = numbers.cap_of(fields)
    least = most = cap.scale
    if kind != "priv-unit":
        heights = TAIL * cap.mass / cap.inside, min(0.5, TAIL * (1 - cap.mass) / (1 - cap.inside))
        height = max(-numbers.NORMAL.inv_cdf(one) for one in heights)
        least *= math.sqrt(numbers.chi_squared(count - 1, TAIL, upper=False))
        degrees = numbers.inner_dim(fields) - 1
        most *= math.sqrt(height**2 + numbers.chi_squared(degrees, TAIL, upper=True))
    _, _, share, under = FLOATS[fields["precision"]]
    wide = math.sqrt(count) * under
    return max(0.0, least * (1 - share - 2.0**-20) - wide), most * (1 + share + 2.0**-20) + wide


def longest(fields: Fields) -> float:
    """Return the largest length of an honest contribution."""
    kind, most, d = fields["kind"], honest_lengths(fields)[1], sphere_dim(fields)
    if kind in ("priv-hs", "re-priv-hs", "sqkr"):
        count = count_of(fields)
        hadamard = kind == "sqkr" and fields["rotation"] == "hadamard"
        return size_of(fields) * (math.sqrt(count * cells_of(fields) / d) if hadamard else count)
    if numbers.is_compressed(fields):
        most = numbers.cap_of(fields).scale * numbers.LARGEST_NORMAL * math.sqrt(numbers.inner_dim(fields))
    if kind == "gaussian":
        return most * 0.5 ** gaussian_noise(fields)[0]
    if kind != "proj-unit":
        return most
    k, n = fields["sketch_dim"], padded_dim(fields)
    stretch = {"hadamard": math.sqrt(n / k), "haar": math.sqrt(d / k) * (1 + math.sqrt(k) * 2.0**-13)}
    along = 1.0 if fields["shared"] else stretch.get(fields["rotation"], math.inf)
    return proj_unit_numbers(fields)[2] * along * most


# --- reports ----------------------------------------------------------------------------------------------------


def read_report(data: bytes, fields: Fields) -> tuple[int, Values]:
    """Return a report's seed and values."""
    message = reader.parsed("LocalReport", reader.unframed(MAGICS["LocalReport"], data))
    need(reader.write("LocalReport", message) == data, "not in canonical form")
    need(message["mechanism"] == fingerprint(fields), "a report of another mechanism")
    unseeded = fields["kind"] in ("priv-unit", "priv-unit-g", "comp-priv-unit-g", "gaussian")
    need(message["seed"] == 0 or not unseeded, "a seed, which the kind has not")
    values = values_of(message["values"], fields)
    least, most = honest_lengths(fields)
    need(least**2 <= sum(float(value) ** 2 for value in values) <= most**2, "a length that no honest report has")
    return message["seed"], values


def values_of(data: bytes, fields: Fields) -> Values:
    """Return a report's values from their bytes."""
    kind, count = fields["kind"], count_of(fields)
    if kind in ("priv-hs", "re-priv-hs", "sqkr"):
        whole = int.from_bytes(data, "little")
        need(len(data) == -(-count // 8) and whole < 1 << count, "another number of bits")
        return [whole >> bit & 1 for bit in range(count)]
    shape, width = ("Q", 8) if numbers.is_compressed(fields) else ("i", 4)
    if kind in ("priv-unit", "priv-unit-g", "proj-unit") and shape == "i":
        shape, width, _, _ = FLOATS[fields["precision"]]
    need(len(data) == count * width, "another number of values")
    values = list(struct.unpack(f"<{count}{shape}", data))
    need(all(map(math.isfinite, values)), "values that are not finite")
    return values


def steps_of(seed: int, values: Values, fields: Fields) -> list[int]:
    """Return what a report adds to the totals."""
    step = 2.0 ** step_exponent(fields)
    found = [round(one / step) for one in contribution(seed, values, fields)]
    need(max(map(abs, found)) <= 1 << 32, "a contribution beyond the range of the mechanism")
    return found


def contribution(seed: int, values: Values, fields: Fields) -> Values:
    """Return a report's contribution, in real units."""
    kind, d = fields["kind"], sphere_dim(fields)
    if kind in ("priv-hs", "re-priv-hs", "sqkr"):
        return of_directions(seed, values, fields)
    if kind == "gaussian":
        return [value * 0.5 ** gaussian_noise(fields)[0] for value in values]
    if numbers.is_compressed(fields):
        salted = words.salt(fields["seed"], f"{kind}/candidates")
        drawn = words.vector(int(values[0]), salted, numbers.inner_dim(fields))
        values = [one * numbers.cap_of(fields).scale for one in drawn]
    if kind != "proj-unit":
        return values
    k, factor = fields["sketch_dim"], proj_unit_numbers(fields)[2]
    sent = [value * factor for value in values[:k]]
    if fields["rotation"] == "hadamard" or fields["shared"]:
        spread = [0.0] * padded_dim(fields)
        start = words.stream(seed, words.salt(fields["seed"], "proj-unit/rows"))
        for row, value in zip(words.rows(start, len(spread), k), sent, strict=True):
            spread[row] = value
        return spread if fields["shared"] else back(spread, seed, fields)
    w = rotations.matrix("rotation" if fields["rotation"] == "haar" else "gaussian", d, k, seed)
    total = [0.0] * d
    for value, row in zip(sent, w, strict=True):
        total = [cell + value * entry for cell, entry in zip(total, row, strict=True)]
    return total


def back(spread: Values, seed: int, fields: Fields) -> Values:
    """Return D·H·x/√k of a vector in rows' coordinates."""
    start = words.stream(seed, words.salt(fields["seed"], "proj-unit/signs"))
    cells = rotations.transformed(spread)
    return [words.sign(start, j) * cells[j] / math.sqrt(fields["sketch_dim"]) for j in range(sphere_dim(fields))]


def of_directions(seed: int, values: Values, fields: Fields) -> Values:
    """Return the contribution of bits."""
    kind, d, size = fields["kind"], sphere_dim(fields), size_of(fields)
    if kind == "sqkr" and fields["rotation"] == "hadamard":
        cells = [0.0] * cells_of(fields)
        start = words.stream(seed, words.salt(fields["seed"], "sqkr/rows"))
        for row, value in zip(words.rows(start, len(cells), len(values)), values, strict=True):
            cells[row] = (2 * value - 1) * (size * math.sqrt(len(cells) / d))
        return cells
    total = [0.0] * d
    start = words.stream(seed, words.salt(fields["seed"], f"{kind}/directions"))
    for r, value in enumerate(values):
        g = words.vector(words.word(start, r), words.salt(fields["seed"], f"{kind}/entries"), d)
        length = math.sqrt(added(one * one for one in g))
        total = [cell + (2 * value - 1) / length * one for cell, one in zip(total, g, strict=True)]
    return [cell * size for cell in total]


# --- means ------------------------------------------------------------------------------------------------------


def read_mean(data: bytes) -> tuple[Fields, int, list[int]]:
    """Return the mechanism, the number of reports and the totals of a mean."""
    message = reader.parsed("LocalMean", reader.unframed(MAGICS["LocalMean"], data))
    fields, count, totals = message["mechanism"], message["count"], reader.cells_of({"values": message["totals"]})
    check_mechanism(fields)
    need(count < 1 << 31, "too many reports")
    need(message["totals"]["width"] in (1, 2, 4, 8), "a width other than 1, 2, 4, 8")
    need(len(message["totals"]["cells"]) == message["totals"]["width"] * cells_of(fields), "another number of totals")
    need(message["totals"] == reader.values_message(totals), "totals at more than their least width")
    need(message["step_exponent"] == step_exponent(fields), "another step than the mechanism's")
    need(max(map(abs, totals)) <= count << 32, "totals above 2^32 for each report")
    step = 2.0 ** message["step_exponent"]
    most = count * (longest(fields) + step * math.sqrt(len(totals)) / 2)
    need(math.sqrt(sum(total**2 for total in totals)) * step <= most * (1 + 1e-6), "totals longer than honest ones")
    need(reader.write("LocalMean", message) == data, "not in canonical form")
    return fields, count, totals


def write_mean(fields: Fields, count: int, totals: list[int]) -> bytes:
    """Return a mean's bytes."""
    step = step_exponent(fields)
    message: dict[str, Any] = {"mechanism": fields, "count": count, "totals": reader.values_message(totals)}
    return reader.write("LocalMean", message | {"step_exponent": step})


def mean_of(fields: Fields, count: int, totals: list[int]) -> Values:
    """Return the mean of the people's vectors."""
    d, mean = sphere_dim(fields), [total * 2.0 ** step_exponent(fields) / count for total in totals]
    if fields["kind"] == "sqkr" and fields["rotation"] == "hadamard":
        start = words.stream(0, words.salt(fields["seed"], "kashin/signs"))
        size, places = frame(fields)
        cells = rotations.transformed(mean)
        mean = [words.sign(start, j) * cells[place] / math.sqrt(size) for j, place in enumerate(places)]
    elif fields["kind"] == "proj-unit" and fields["shared"]:
        mean = unrotated(mean, fields)
    return mean[: d - fields["ball"]]


def added(values: Iterable[float]) -> float:
    """Return the sum, rounded after each addition: since Python 3.12 `sum` rounds the floats of a list once."""
    return functools.reduce(operator.add, values, 0.0)


def unrotated(mean: Values, fields: Fields) -> Values:
    """Return a mean in the rows' coordinates of a shared rotation as one of vectors."""
    d, k = sphere_dim(fields), fields["sketch_dim"]
    if fields["rotation"] == "hadamard":
        return back(mean, 0, fields)
    u = rotations.matrix("rotation", d, d, fields["seed"])
    factor = math.sqrt(d / k)
    return [factor * added(one * row[j] for one, row in zip(mean, u, strict=True)) for j in range(d)]
