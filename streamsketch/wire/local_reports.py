"""The exchange format of reports and aggregators (WIRE.md). Bytes are read as warily as private sketches."""

from typing import Any

import numpy as np

from streamsketch.errors import WireFormatError
from streamsketch.local.aggregation import MeanAggregator, step_exponent_of
from streamsketch.local.mechanism import Mechanism, mechanism_from_fields
from streamsketch.local.plausible_lengths import all_fit, implausible
from streamsketch.local.report import Report, Values
from streamsketch.wire import wire_pb2
from streamsketch.wire.codecs import Codec, enter_codec
from streamsketch.wire.parsing import at, parse
from streamsketch.wire.releases import frame, unframe, values_message, values_of

_COMMON = ("kind", "dim", "epsilon", "ball")
_FRAME_BYTES = 64  # of a report beside its values


def encode_report(report: Report) -> bytes:
    """Return a report as a framed message; equal reports give equal bytes."""
    return frame(Report.magic, _report_message(report).SerializeToString(deterministic=True))


def decode_report(data: bytes, *, mechanism: Mechanism) -> Report:
    """Return the report in a framed message; see `Report.from_bytes`."""
    layout = mechanism.layout
    packed_bytes = -(-layout.value_bits // 8)
    payload = unframe(Report.magic, "report", data, packed_bytes + _FRAME_BYTES)
    message = wire_pb2.LocalReport()
    parse(message, payload)
    if message.mechanism != _number(mechanism.fingerprint):
        raise WireFormatError(
            "mechanism",
            f"has the fingerprint {message.mechanism:016x}, not {_number(mechanism.fingerprint):016x} of {mechanism!r}",
        )
    if len(message.values) != packed_bytes:
        raise WireFormatError("values", f"are {len(message.values)} bytes, {mechanism!r} reports {packed_bytes}")
    values: Values
    if layout.dtype == "bits":
        values = np.unpackbits(np.frombuffer(message.values, dtype=np.uint8), count=layout.count, bitorder="little")
    else:
        values = np.frombuffer(message.values, dtype=layout.stored.newbyteorder("<")).astype(layout.stored)
    report = at("values", lambda: Report(mechanism, message.seed, values))
    if not all_fit(mechanism, report.values[np.newaxis]):
        raise WireFormatError("values", implausible(mechanism, report.values[np.newaxis]))
    _check_canonical(_report_message(report), payload)
    return report


def encode_aggregator(aggregator: MeanAggregator) -> bytes:
    """Return an aggregator as a framed message; equal aggregators give equal bytes."""
    return frame(MeanAggregator.magic, _aggregator_message(aggregator).SerializeToString(deterministic=True))


def decode_aggregator(data: bytes, *, max_bytes: int | None) -> MeanAggregator:
    """Return the aggregator in a framed message; see `MeanAggregator.from_bytes`."""
    payload = unframe(MeanAggregator.magic, "local mean", data, max_bytes)
    message = wire_pb2.LocalMean()
    parse(message, payload)
    stated = {descriptor.name: value for descriptor, value in message.mechanism.ListFields()}
    fields = {name: getattr(message.mechanism, name) for name in _COMMON} | stated
    mechanism = at("mechanism", lambda: mechanism_from_fields(fields))
    totals = values_of("totals", message.totals, mechanism.state_dim)
    if message.step_exponent != step_exponent_of(mechanism):
        raise WireFormatError(
            "step_exponent", f"is {message.step_exponent}, but {step_exponent_of(mechanism)} for {mechanism!r}"
        )
    aggregator = at("totals", lambda: MeanAggregator.from_parts(mechanism, message.count, totals))
    _check_canonical(_aggregator_message(aggregator), payload)
    return aggregator


def _report_message(report: Report) -> wire_pb2.LocalReport:
    layout = report.mechanism.layout
    if layout.dtype == "bits":
        values = np.packbits(report.values, bitorder="little")
    else:
        values = report.values.astype(layout.stored.newbyteorder("<"))
    return wire_pb2.LocalReport(
        mechanism=_number(report.mechanism.fingerprint), seed=report.seed, values=values.tobytes()
    )


def _aggregator_message(aggregator: MeanAggregator) -> wire_pb2.LocalMean:
    return wire_pb2.LocalMean(
        mechanism=wire_pb2.LocalMechanism(**aggregator.mechanism.agreed_fields()),
        count=aggregator.count,
        totals=values_message(aggregator.totals),
        step_exponent=aggregator.step_exponent,
    )


def _number(fingerprint: str) -> int:
    return int.from_bytes(bytes.fromhex(fingerprint), "little")


def _check_canonical(message: Any, payload: bytes) -> None:
    if message.SerializeToString(deterministic=True) != payload:
        raise WireFormatError("payload", "is not in canonical form; it was not written by this format's rules")


REPORTS = enter_codec(
    Codec(
        Report,
        "report",
        encode_report,
        decode_report,
        "a report: read it with streamsketch.local.Report.from_bytes(data, mechanism)",
        is_alone=False,
    )
)
MEANS = enter_codec(
    Codec(
        MeanAggregator,
        "local mean",
        encode_aggregator,
        decode_aggregator,
        "a sum of reports: read it with streamsketch.local.MeanAggregator.from_bytes(data)",
    )
)
