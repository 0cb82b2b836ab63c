from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PrivateSketch(_message.Message):
    __slots__ = ("projection", "values", "noise", "guarantee", "multiplier", "release_ids", "data_ids", "parts", "agreement", "counts", "clip", "history")
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    RELEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    DATA_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    projection: Projection
    values: Values
    noise: Noise
    guarantee: Guarantee
    multiplier: Ratio
    release_ids: _containers.RepeatedScalarFieldContainer[bytes]
    data_ids: _containers.RepeatedScalarFieldContainer[bytes]
    parts: _containers.RepeatedCompositeFieldContainer[NoisePart]
    agreement: bytes
    counts: Values
    clip: str
    history: History
    def __init__(self, projection: _Optional[_Union[Projection, _Mapping]] = ..., values: _Optional[_Union[Values, _Mapping]] = ..., noise: _Optional[_Union[Noise, _Mapping]] = ..., guarantee: _Optional[_Union[Guarantee, _Mapping]] = ..., multiplier: _Optional[_Union[Ratio, _Mapping]] = ..., release_ids: _Optional[_Iterable[bytes]] = ..., data_ids: _Optional[_Iterable[bytes]] = ..., parts: _Optional[_Iterable[_Union[NoisePart, _Mapping]]] = ..., agreement: _Optional[bytes] = ..., counts: _Optional[_Union[Values, _Mapping]] = ..., clip: _Optional[str] = ..., history: _Optional[_Union[History, _Mapping]] = ...) -> None: ...

class History(_message.Message):
    __slots__ = ("id", "start", "stop", "row", "minus_start", "minus_stop")
    ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    MINUS_START_FIELD_NUMBER: _ClassVar[int]
    MINUS_STOP_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    start: int
    stop: int
    row: bool
    minus_start: int
    minus_stop: int
    def __init__(self, id: _Optional[bytes] = ..., start: _Optional[int] = ..., stop: _Optional[int] = ..., row: _Optional[bool] = ..., minus_start: _Optional[int] = ..., minus_stop: _Optional[int] = ...) -> None: ...

class NoisePart(_message.Message):
    __slots__ = ("noise", "guarantee", "multiplier", "count", "history")
    NOISE_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    noise: Noise
    guarantee: Guarantee
    multiplier: Ratio
    count: int
    history: History
    def __init__(self, noise: _Optional[_Union[Noise, _Mapping]] = ..., guarantee: _Optional[_Union[Guarantee, _Mapping]] = ..., multiplier: _Optional[_Union[Ratio, _Mapping]] = ..., count: _Optional[int] = ..., history: _Optional[_Union[History, _Mapping]] = ...) -> None: ...

class Projection(_message.Message):
    __slots__ = ("kind", "dim", "sketch_dim", "seed", "resolution", "sparsity", "independence", "fraction_bits", "density")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    SKETCH_DIM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    SPARSITY_FIELD_NUMBER: _ClassVar[int]
    INDEPENDENCE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_BITS_FIELD_NUMBER: _ClassVar[int]
    DENSITY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    dim: int
    sketch_dim: int
    seed: int
    resolution: Ratio
    sparsity: int
    independence: int
    fraction_bits: int
    density: Ratio
    def __init__(self, kind: _Optional[str] = ..., dim: _Optional[int] = ..., sketch_dim: _Optional[int] = ..., seed: _Optional[int] = ..., resolution: _Optional[_Union[Ratio, _Mapping]] = ..., sparsity: _Optional[int] = ..., independence: _Optional[int] = ..., fraction_bits: _Optional[int] = ..., density: _Optional[_Union[Ratio, _Mapping]] = ...) -> None: ...

class Values(_message.Message):
    __slots__ = ("width", "cells")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    width: int
    cells: bytes
    def __init__(self, width: _Optional[int] = ..., cells: _Optional[bytes] = ...) -> None: ...

class Noise(_message.Message):
    __slots__ = ("k2", "k4", "place")
    K2_FIELD_NUMBER: _ClassVar[int]
    K4_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    k2: float
    k4: float
    place: str
    def __init__(self, k2: _Optional[float] = ..., k4: _Optional[float] = ..., place: _Optional[str] = ...) -> None: ...

class Guarantee(_message.Message):
    __slots__ = ("epsilon", "delta", "neighbours", "mechanism", "conditions", "steps", "basis")
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    epsilon: float
    delta: float
    neighbours: Neighbours
    mechanism: str
    conditions: _containers.RepeatedScalarFieldContainer[str]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    basis: str
    def __init__(self, epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., neighbours: _Optional[_Union[Neighbours, _Mapping]] = ..., mechanism: _Optional[str] = ..., conditions: _Optional[_Iterable[str]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., basis: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("noise", "flips", "keys", "text")
    NOISE_FIELD_NUMBER: _ClassVar[int]
    FLIPS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    noise: AddedNoise
    flips: FlippedSigns
    keys: KeySelection
    text: str
    def __init__(self, noise: _Optional[_Union[AddedNoise, _Mapping]] = ..., flips: _Optional[_Union[FlippedSigns, _Mapping]] = ..., keys: _Optional[_Union[KeySelection, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class AddedNoise(_message.Message):
    __slots__ = ("kind", "amount", "layers", "place", "shares", "counting", "schedule")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    COUNTING_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    amount: Ratio
    layers: int
    place: str
    shares: Shares
    counting: Counting
    schedule: Schedule
    def __init__(self, kind: _Optional[str] = ..., amount: _Optional[_Union[Ratio, _Mapping]] = ..., layers: _Optional[int] = ..., place: _Optional[str] = ..., shares: _Optional[_Union[Shares, _Mapping]] = ..., counting: _Optional[_Union[Counting, _Mapping]] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("kind", "horizon", "max_windows", "gap", "depth", "blocks", "band", "bits")
    KIND_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    MAX_WINDOWS_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    horizon: int
    max_windows: int
    gap: int
    depth: int
    blocks: int
    band: int
    bits: int
    def __init__(self, kind: _Optional[str] = ..., horizon: _Optional[int] = ..., max_windows: _Optional[int] = ..., gap: _Optional[int] = ..., depth: _Optional[int] = ..., blocks: _Optional[int] = ..., band: _Optional[int] = ..., bits: _Optional[int] = ...) -> None: ...

class Counting(_message.Message):
    __slots__ = ("units", "slack")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    SLACK_FIELD_NUMBER: _ClassVar[int]
    units: int
    slack: int
    def __init__(self, units: _Optional[int] = ..., slack: _Optional[int] = ...) -> None: ...

class Shares(_message.Message):
    __slots__ = ("parties", "honest")
    PARTIES_FIELD_NUMBER: _ClassVar[int]
    HONEST_FIELD_NUMBER: _ClassVar[int]
    parties: int
    honest: int
    def __init__(self, parties: _Optional[int] = ..., honest: _Optional[int] = ...) -> None: ...

class FlippedSigns(_message.Message):
    __slots__ = ("method", "law", "norm_bound")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    LAW_FIELD_NUMBER: _ClassVar[int]
    NORM_BOUND_FIELD_NUMBER: _ClassVar[int]
    method: str
    law: FlipLaw
    norm_bound: Ratio
    def __init__(self, method: _Optional[str] = ..., law: _Optional[_Union[FlipLaw, _Mapping]] = ..., norm_bound: _Optional[_Union[Ratio, _Mapping]] = ...) -> None: ...

class KeySelection(_message.Message):
    __slots__ = ("epsilon", "delta")
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    epsilon: float
    delta: float
    def __init__(self, epsilon: _Optional[float] = ..., delta: _Optional[float] = ...) -> None: ...

class Neighbours(_message.Message):
    __slots__ = ("kind", "bound", "unit", "max_keys")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    MAX_KEYS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    bound: Ratio
    unit: str
    max_keys: int
    def __init__(self, kind: _Optional[str] = ..., bound: _Optional[_Union[Ratio, _Mapping]] = ..., unit: _Optional[str] = ..., max_keys: _Optional[int] = ...) -> None: ...

class Ratio(_message.Message):
    __slots__ = ("numerator", "denominator")
    NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    DENOMINATOR_FIELD_NUMBER: _ClassVar[int]
    numerator: int
    denominator: int
    def __init__(self, numerator: _Optional[int] = ..., denominator: _Optional[int] = ...) -> None: ...

class LocalReport(_message.Message):
    __slots__ = ("mechanism", "seed", "values")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    mechanism: int
    seed: int
    values: bytes
    def __init__(self, mechanism: _Optional[int] = ..., seed: _Optional[int] = ..., values: _Optional[bytes] = ...) -> None: ...

class LocalMean(_message.Message):
    __slots__ = ("mechanism", "count", "totals", "step_exponent")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    STEP_EXPONENT_FIELD_NUMBER: _ClassVar[int]
    mechanism: LocalMechanism
    count: int
    totals: Values
    step_exponent: int
    def __init__(self, mechanism: _Optional[_Union[LocalMechanism, _Mapping]] = ..., count: _Optional[int] = ..., totals: _Optional[_Union[Values, _Mapping]] = ..., step_exponent: _Optional[int] = ...) -> None: ...

class LocalMechanism(_message.Message):
    __slots__ = ("kind", "dim", "epsilon", "ball", "precision", "sketch_dim", "rotation", "shared", "unbiased", "compressed", "seed", "repetitions", "delta")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    BALL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    SKETCH_DIM_FIELD_NUMBER: _ClassVar[int]
    ROTATION_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    UNBIASED_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    REPETITIONS_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    kind: str
    dim: int
    epsilon: float
    ball: bool
    precision: str
    sketch_dim: int
    rotation: str
    shared: bool
    unbiased: bool
    compressed: bool
    seed: int
    repetitions: int
    delta: float
    def __init__(self, kind: _Optional[str] = ..., dim: _Optional[int] = ..., epsilon: _Optional[float] = ..., ball: _Optional[bool] = ..., precision: _Optional[str] = ..., sketch_dim: _Optional[int] = ..., rotation: _Optional[str] = ..., shared: _Optional[bool] = ..., unbiased: _Optional[bool] = ..., compressed: _Optional[bool] = ..., seed: _Optional[int] = ..., repetitions: _Optional[int] = ..., delta: _Optional[float] = ...) -> None: ...

class SignSketch(_message.Message):
    __slots__ = ("projection", "signs", "law", "guarantee", "release_id", "data_ids", "agreement")
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    SIGNS_FIELD_NUMBER: _ClassVar[int]
    LAW_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_IDS_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    projection: Projection
    signs: bytes
    law: FlipLaw
    guarantee: Guarantee
    release_id: bytes
    data_ids: _containers.RepeatedScalarFieldContainer[bytes]
    agreement: bytes
    def __init__(self, projection: _Optional[_Union[Projection, _Mapping]] = ..., signs: _Optional[bytes] = ..., law: _Optional[_Union[FlipLaw, _Mapping]] = ..., guarantee: _Optional[_Union[Guarantee, _Mapping]] = ..., release_id: _Optional[bytes] = ..., data_ids: _Optional[_Iterable[bytes]] = ..., agreement: _Optional[bytes] = ...) -> None: ...

class FlipLaw(_message.Message):
    __slots__ = ("shape", "rate")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    shape: str
    rate: Ratio
    def __init__(self, shape: _Optional[str] = ..., rate: _Optional[_Union[Ratio, _Mapping]] = ...) -> None: ...

class IndividualSignSketch(_message.Message):
    __slots__ = ("projection", "signs", "method", "guarantee", "release_id", "agreement")
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    SIGNS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_ID_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    projection: Projection
    signs: bytes
    method: str
    guarantee: Guarantee
    release_id: bytes
    agreement: bytes
    def __init__(self, projection: _Optional[_Union[Projection, _Mapping]] = ..., signs: _Optional[bytes] = ..., method: _Optional[str] = ..., guarantee: _Optional[_Union[Guarantee, _Mapping]] = ..., release_id: _Optional[bytes] = ..., agreement: _Optional[bytes] = ...) -> None: ...
