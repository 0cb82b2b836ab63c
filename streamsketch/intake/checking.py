"""What an operator should know of rows before any release: names, missing cells, rows that are dropped, busy units.

All of it is secret, as the rows are.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.text import TextRule
from streamsketch.core import sentences
from streamsketch.core.libraries import pa, pc
from streamsketch.data.columns import is_text_type, value_type
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import plain
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import MISSING_TEXTS

LOOKS_MISSING = frozenset(text.casefold() for text in (*MISSING_TEXTS, "-", "--", "?", "n.a.", "unknown"))
"""Texts that often stand for a missing value, without their case."""

_FORM = TextRule(blanks=None)
_BLANKS = TextRule(form=None)
_ALIKE = TextRule(form="NFKC", case="fold", invisible="drop")
_SHOWN = 3  # examples
MOST_NAMES = 1_000_000
"""Different names of a column, and units, that a check keeps by default: some 200 MB a column."""
_LETTERS = 64  # of a name that is kept, on average
_SWAPPED = 0.5  # the share of another column that a public list has


@dataclass
class Names:
    """The texts of one column, with how many rows have each; of up to ``most`` different ones, the first to come."""

    most: int = MOST_NAMES
    rows: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    """The number of rows with other texts."""
    _letters: int = 0

    def add(self, column: "pa.Array") -> None:
        """Note the rows of a batch; text that is not UTF-8 is counted by nobody, as its row is dropped."""
        if not is_text_type(value_type(column)):
            return
        counted = pc.value_counts(plain(column).cast(pa.large_string())).to_pylist() if len(column) else []
        for entry in counted:
            if entry["values"] is not None:
                self._count(entry["values"], entry["counts"])

    def _count(self, text: str, rows: int) -> None:
        if text not in self.rows:
            if len(self.rows) >= self.most or self._letters + len(text) > self.most * _LETTERS:
                self.left_out += rows
                return
            self._letters += len(text)
        self.rows[text] += rows

    def where(self, holds: Any) -> int:
        """Return how many rows have a text for which a function is true."""
        return sum(count for text, count in self.rows.items() if holds(text))

    def several(self, rule: TextRule | None) -> list[list[str]]:
        """Return the names that the agreed spelling keeps apart, and that differ in case, width or blanks alone."""
        groups: dict[str, set[str]] = {}
        for text in self.rows:
            agreed = text if rule is None else rule.apply(text)
            groups.setdefault(_ALIKE.apply(text), set()).add(agreed)
        return sorted(sorted(names) for names in groups.values() if len(names) > 1)


@dataclass(frozen=True)
class Finding:
    """One thing that an operator should know."""

    column: str
    kind: str
    rows: int
    text: str


class RowCheck:
    """Looks at rows under an agreement, without making a sketch of them.

    Parameters
    ----------
    agreement
        How rows are read.
    dictionary
        Public lists of names, by column; or none.
    most
        How many different names of a column, and how many units, are kept, so that memory is bounded. The findings say
        how many rows have others.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> check = RowCheck(Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), index="item", missing="drop"))
    >>> check.add(pa.record_batch({"item": ["tea", "Tea", "n/a", None]}))
    >>> [(one.kind, one.rows) for one in check.findings()]
    [('looks missing', 1), ('several spellings', 2), ('missing', 1)]
    """

    def __init__(
        self, agreement: Agreement, dictionary: Mapping[str, Iterable[str]] | None = None, *, most: int = MOST_NAMES
    ) -> None:
        self._agreement = agreement
        self._names = {column.name: Names(most) for column in agreement.columns if column.type == "text"}
        self._listed = {name: {self._spelt(name, text) for text in texts} for name, texts in (dictionary or {}).items()}
        self._most = most
        self._units: Counter[Any] = Counter()
        self._rows_of_other_units = 0
        self._why: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self.refused = False
        """Whether a release of these rows would be refused for one of them."""
        self.rows = 0
        """The number of rows so far."""
        options: dict[str, Any] = {"bounded": agreement.unit is not None}
        if (windows := agreement.windows) is not None:
            options |= {"time": windows.time.name, "time_format": windows.format, "windows": windows.of_times}
        self._intake = Intake(agreement, on_bad=self._bad, **options)
        self._release = Intake(agreement, **options)

    def _spelt(self, name: str, text: str) -> str:
        column = next((column for column in self._agreement.columns if column.name == name), None)
        rule = None if column is None else self._agreement.rule_of(column)
        return text if rule is None else rule.apply(text)

    def _bad(self, _: int, why: str) -> None:
        why = re.sub(r" \w+, and in row [\d,]+ a text", " a text", why)
        self._why[re.sub(r" in row [\d,]+|,? rows? [\d,]+( to [\d,]+)?", "", why)] += 1

    def add(self, batch: "pa.RecordBatch") -> None:
        """Look at a batch, as it was read.

        Raises
        ------
        InvalidInputError
            If a column is missing, or of a type that is not cast.
        """
        self.rows += batch.num_rows
        for name, names in self._names.items():
            if batch.schema.names.count(name) == 1:
                names.add(batch.column(name))
        for name in self._intake.needed:
            column = batch.column(name)
            self._missing[name] += int(
                np.count_nonzero(pc.is_null(plain(column), nan_is_null=True).to_numpy(zero_copy_only=False))
            )
            if is_text_type(value_type(column)):
                texts = plain(column).cast(pa.large_string())
                empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)
                self._missing[name] += int(pc.sum(empty.cast(pa.int64())).as_py() or 0)
        events = self._intake.read(batch)
        if self._agreement.unit is not None and events.units is not None:
            for entry in pc.value_counts(events.units).to_pylist() if len(events.units) else []:
                if entry["values"] in self._units or len(self._units) < self._most:
                    self._units[entry["values"]] += entry["counts"]
                else:
                    self._rows_of_other_units += entry["counts"]
        if not self.refused and (self._why or any(self._missing.values())):
            try:
                self._release.read(batch)  # as a release reads them
            except InvalidInputError:
                self.refused = True

    def findings(self) -> list[Finding]:
        """Return what is to be known, column by column: names, then rows that are dropped, then units."""
        findings: list[Finding] = []
        for column in self._agreement.columns:
            if column.name in self._names and all(finding.column != column.name for finding in findings):
                findings += self._of_names(column.name, self._agreement.rule_of(column))
        does = "dropped" if self._agreement.missing == "drop" else "refused"
        for name, rows in self._missing.items():
            if rows:
                findings.append(Finding(name, "missing", rows, f"null or blank: these rows are {does}"))
        for why, rows in self._why.most_common():
            if "null or blank" not in why:
                findings.append(Finding("", "malformed", rows, why))
        return [*findings, *self._of_units()]

    def _of_names(self, name: str, rule: TextRule | None) -> list[Finding]:
        names, findings = self._names[name], []

        def note(kind: str, rows: int, text: str) -> None:
            if rows:
                findings.append(Finding(name, kind, rows, text))

        done = sentences.BROUGHT_INTO_NFC if rule is not None and rule.form else sentences.NOT_IN_NFC
        note("not in NFC", names.where(lambda text: _FORM.apply(text) != text), done)
        done = sentences.BLANKS_AGREED if rule is not None and rule.blanks else sentences.OTHER_BY_BLANKS
        note("blanks", names.where(lambda text: _BLANKS.apply(text) != text), sentences.BLANKS.format(done=done))
        missing = [text for text in names.rows if text.strip().casefold() in LOOKS_MISSING]
        counted = sum(names.rows[text] for text in missing)
        note("looks missing", counted, sentences.LOOKS_MISSING.format(examples=_examples(missing)))
        several = names.several(rule)
        apart = {text for group in several for text in group}
        rows = names.where(lambda text: self._spelt(name, text) in apart)
        shown = "; ".join(" and ".join(map(repr, group[:_SHOWN])) for group in several[:_SHOWN])
        alike = sentences.SEVERAL_SPELLINGS.format(examples=shown, count=f"{len(several):,}")
        note("several spellings", rows, alike)
        if name in self._listed:
            listed = self._listed[name]
            others = [text for text in names.rows if self._spelt(name, text) not in listed]
            note(
                "not listed",
                sum(names.rows[text] for text in others),
                f"such as {_examples(others)}; {len(others):,} different names",
            )
            note("swapped", *self._swapped(name))
        note("not looked at", names.left_out, f"of names after the first {len(names.rows):,} different ones")
        return findings

    def _swapped(self, name: str) -> tuple[int, str]:
        """Return the rows of another column that holds what the public list of this one names, and which it is."""
        for other, names in self._names.items():
            listed = names.where(lambda text: text in self._listed[name])
            own = self._names[name].where(lambda text: self._spelt(name, text) in self._listed[name])
            if other != name and listed > _SWAPPED * sum(names.rows.values()) and listed > own:
                return listed, f"these cells of {other} are in the list for {name}: the columns may be swapped"
        return 0, ""

    def _of_units(self) -> list[Finding]:
        unit = self._agreement.unit
        if unit is None or not self._units:
            return []
        counts = np.array(sorted(self._units.values()))
        most = int(counts[-1])
        text = (
            f"{counts.size:,} units; half have {int(np.median(counts)):,} rows or fewer, 99 % "
            f"{int(np.quantile(counts, 0.99)):,} or fewer, and one has {most:,}"
        )
        findings = [Finding(unit.name, "rows of units", most, text)]
        if others := self._rows_of_other_units:
            text = f"of units after the first {counts.size:,}, of which alone the numbers of rows are"
            findings.append(Finding(unit.name, "not counted", others, text))
        widest = max(
            (len(names.rows), name) for name, names in [*self._names.items(), ("", Names())] if name != unit.name
        )
        if widest[0] > 10 * counts.size:
            text = sentences.IS_IT_THE_UNIT.format(
                column=widest[1], names=f"{widest[0]:,}", units=f"{counts.size:,}", unit=unit.name
            )
            findings.append(Finding(unit.name, "swapped", self.rows, text))
        return findings


def check_rows(
    rows: Iterable["pa.RecordBatch"], agreement: Agreement, dictionary: Any = None, *, most: int = MOST_NAMES
) -> RowCheck:
    """Return what is to be known of all rows, of which one batch is in memory at a time."""
    check = RowCheck(agreement, dictionary, most=most)
    for batch in rows:
        check.add(batch)
    if not check.rows:
        raise InvalidInputError("there are no rows to check")
    return check


def _examples(texts: list[str]) -> str:
    return ", ".join(repr(text)[:60] for text in sorted(texts)[:_SHOWN])
