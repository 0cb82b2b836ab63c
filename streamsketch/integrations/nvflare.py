"""Private model updates in NVIDIA FLARE: filters for clients and the server. Requires the extra ``nvflare``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from streamsketch.accounting.ledger import Ledger
from streamsketch.errors import InvalidInputError, StreamsketchError
from streamsketch.local.mechanism import mechanism_from_fields
from streamsketch.local.report import Report
from streamsketch.local.updates import ModelUpdates, is_reported

REPORT = "report"
"""Key of the report in a client's result."""


class _UpdateFilter(DXOFilter):  # type: ignore[misc]
    """The base of both filters, with the mechanism and the shapes of the model's arrays."""

    def __init__(
        self, mechanism: Mapping[str, object], clip: float, parameters: Mapping[str, Sequence[int]], unit: str
    ) -> None:
        kinds = [DataKind.WEIGHT_DIFF]
        super().__init__(supported_data_kinds=kinds, data_kinds_to_filter=kinds)
        self.mechanism, self.clip, self.parameters, self.unit = mechanism, clip, parameters, unit  # as jobs write them
        self._updates = ModelUpdates(mechanism=mechanism_from_fields(dict(mechanism)), clip=clip, unit=unit)
        self._shapes = {name: tuple(shape) for name, shape in parameters.items()}


class ReportUpdates(_UpdateFilter):
    """A filter of a client's results that sends one private report instead of a model update.

    The client sends only the report. Metrics and the number of steps are dropped, because they would not be private.
    The guarantee is that of `ModelUpdates` for one client and one round: ε-LDP for any two updates. The server reads
    reports with `ReadReports`.

    Updates must be differences: clients send ``ParamsType.DIFF``, or the job has
    ``params_transfer_type=TransferType.DIFF``. Whole models are blocked. A job's filters are chosen by the person who
    submits it. A client that does not trust that person sets this filter in its own ``privacy.json``.

    Parameters
    ----------
    mechanism
        The fields of the mechanism, from `Mechanism.agreed_fields`. They are a dict, because FLARE would read JSON text
        as a template.
    clip, unit
        As in `ModelUpdates`.
    parameters
        The shape of each floating array of the model, by name, in the same order for clients and server. Integer and
        boolean arrays, such as ``num_batches_tracked`` of a normalisation, are not among them: they are not sent, and
        stay as the server has them.
    budget
        The ε of all reports of one client together, kept in a ledger, ``updates.sqlite`` in the client's workspace.
        Every report is charged before it is drawn, and reports beyond the budget are not sent. None for no limit.
    """

    def __init__(
        self,
        mechanism: Mapping[str, object],
        clip: float,
        parameters: Mapping[str, Sequence[int]],
        unit: str = "client",
        budget: float | None = None,
    ) -> None:
        super().__init__(mechanism, clip, parameters, unit)
        self.budget = budget

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Block results that hold a whole model, and filter the others."""
        dxo = shareable.get("DXO")
        kind = dxo.get("kind") if isinstance(dxo, dict) else None
        if kind in {DataKind.WEIGHTS, DataKind.COLLECTION, DataKind.FL_MODEL}:
            raise ContentBlockedException(
                f"updates must be sent as differences, got {kind}; send ParamsType.DIFF, or set "
                "params_transfer_type=TransferType.DIFF"
            )
        filtered: Shareable = super().process(shareable, fl_ctx)
        return filtered

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Return the report of an update."""
        del shareable
        arrays = {name: np.asarray(array) for name, array in dxo.data.items()}
        try:
            held = [name for name, array in arrays.items() if is_reported(array.dtype, name)]
        except InvalidInputError as error:
            raise ContentBlockedException(str(error)) from None
        if set(held) != self._shapes.keys():
            whole = [f"{name} ({arrays[name].dtype})" for name in self._shapes if name in arrays and name not in held]
            remedy = f"; {', '.join(whole)} is not floating: leave it out of parameters" if whole else ""
            raise ContentBlockedException(
                f"an update must have the floating arrays {', '.join(self._shapes)}, got {', '.join(held)}{remedy}"
            )
        update = [arrays[name] for name in self._shapes]
        ledger = None if self.budget is None else self._ledger(fl_ctx)
        try:
            report = self._updates.report(update, ledger=ledger, dataset=None if ledger is None else "updates")
        except StreamsketchError as error:  # without a private value
            raise ContentBlockedException(str(error)) from None
        data = np.frombuffer(report.to_bytes(), np.uint8)
        return DXO(DataKind.WEIGHT_DIFF, {REPORT: data}, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})

    def _ledger(self, fl_ctx: FLContext) -> Ledger:
        folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()
        ledger = Ledger(Path(folder) / "updates.sqlite")
        ledger.dataset("updates", unit=self.unit, epsilon=self.budget or 0.0)
        return ledger


class ReadReports(_UpdateFilter):
    """A filter of results at the server that replaces a report by the estimated update, for any aggregator.

    A report that cannot be read, or is longer than any honest one, is refused. A dishonest report of valid form moves
    the mean of n reports by at most ``clip * mechanism.longest_contribution / n``, in ℓ2 norm.

    Parameters
    ----------
    mechanism, clip, parameters, unit
        As in the clients' `ReportUpdates`.
    """

    def __init__(
        self,
        mechanism: Mapping[str, object],
        clip: float,
        parameters: Mapping[str, Sequence[int]],
        unit: str = "client",
    ) -> None:
        super().__init__(mechanism, clip, parameters, unit)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Return the estimate of the update behind a report."""
        del shareable, fl_ctx
        sent = dxo.data.get(REPORT)
        if not isinstance(sent, np.ndarray):
            raise InvalidInputError(
                "a client sent an update instead of a report; add the filter ReportUpdates to the client"
            )
        report = Report.from_bytes(sent.tobytes(), self._updates.mechanism)
        like = [np.empty(shape) for shape in self._shapes.values()]
        arrays = dict(zip(self._shapes, self._updates.estimate(report, like=like), strict=True))
        return DXO(DataKind.WEIGHT_DIFF, arrays, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})
