"""``streamsketch plan``: the sketch to agree on, by the question that releases are to answer."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._agreeing import column_name, columns_from, neighbours_of
from streamsketch.cli._fields import set_fields, set_option
from streamsketch.cli._options import option
from streamsketch.cli._planning import (
    MECHANISMS,
    SIGNS,
    SITES,
    STREAMS,
    UNITS,
    WINDOWS,
    FurtherFacts,
    dim_of,
    number_of_windows,
    numbers_in,
    range_of,
    refuse_to_miss,
    shift_of,
    units_of,
    units_of_sites,
    windows_in,
)
from streamsketch.cli._showing import AsJson, show_json
from streamsketch.cli._writing import new_file
from streamsketch.core.files import write_whole
from streamsketch.core.text import names_given

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.agreement.terms import Terms
    from streamsketch.planning.site_plans import SitePlan

_SIGNS = "256,1024,4096"

Epsilon = Annotated[float, option("Privacy", "EPSILON", "Privacy loss ε of one release.")]
Delta = Annotated[float, option("Privacy", "DELTA", "Failure probability δ of the bound ε.")]
Word = Annotated[str, option("Privacy", "WORD", "Name of what is protected, in a word.")]
UnitOf = Annotated[
    str | None,
    option(
        "Privacy",
        "COLUMN",
        "Column that identifies what is protected, with its type. Its name is the word for it, such as customer.",
        "--unit",
    ),
]
IndexOf = Annotated[
    list[str] | None,
    option(
        "The agreement that is written",
        "COLUMN",
        "Column that identifies an item or event, with its type: item:text. Repeat it for several columns, in order.",
        "--index",
    ),
]
Agreed = Annotated[
    Path | None, option("Output", "FILE", "Write the agreement to this .json file, for all parties.", "--output", "-o")
]


def streams(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    unit: Word = "event",
    squared_distance: Annotated[
        list[float] | None,
        option("Streams", "NUMBER", "Squared distance that matters, in squared data units. Repeatable."),
    ] = None,
    relative_error: Annotated[
        float | None, option("Goal", "NUMBER", "Relative error to reach, e.g. 0.2. By default, the smallest possible.")
    ] = None,
    settings: Annotated[list[str] | None, set_option("Further facts", STREAMS)] = None,
    index: IndexOf = None,
    output: Agreed = None,
    as_json: AsJson = False,
) -> None:
    r"""Plan squared distances between streams of events.

    The plan chooses a projection and a mechanism, and predicts the error. If no sketch reaches the goal, the closest
    plan is shown, no file is written, and the exit status is 1.

    $ streamsketch plan streams --epsilon 1 --unit sale --squared-distance 20000 --relative-error 0.2 \
        --index item:text -o streams.json
    """
    more = set_fields(FurtherFacts(), STREAMS, settings)
    columns = _columns(output, index, more.key, None, more.value)
    keys = _keys(output, more.key, more.keys)
    facts = ss.planning.StreamFacts(
        dim=dim_of(more.dim),
        squared_distances=squared_distance or None,
        events=more.events,
        step=None if more.step == "real" else more.step,
    )
    neighbours = neighbours_of({"l1": more.l1}, unit, None) or ss.L1(1, unit)
    goal = ss.planning.Goal(relative_error=relative_error, max_cells=more.max_cells)
    plan = ss.plan(facts, epsilon=epsilon, delta=delta, neighbours=neighbours, goal=goal)
    missed = plan.met is False and not more.accept
    if output is not None and not missed:
        terms = ss.Terms(epsilon=epsilon, delta=delta)
        projection = plan.projection(secrets.randbits(63))
        ss.Agreement(projection, **columns, neighbours=neighbours, terms=terms, keys=keys).save(output)
    _show(plan, as_json=as_json)
    if missed:
        factor = plan.chosen.error / float(relative_error or 1)
        refuse_to_miss(f": the predicted error is {factor:.2g} times what was asked for", output)


def units(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    unit: UnitOf = None,
    items: Annotated[
        str,
        option(
            "Whole units",
            "NUMBERS",
            "Number of different items of one unit in a key, such as 10. Several sizes: 3,10,40.",
        ),
    ],
    cosine: Annotated[
        str | None, option("Whole units", "NUMBERS", "Cosine of two keys that matters, or several.")
    ] = None,
    numbers: Annotated[
        str | None,
        option(
            "Whole units",
            "NUMBERS|FILE",
            "Number of units in a key. Several sizes: 500,3000. Or a CSV or Parquet file of keys and their numbers, "
            "columns key and units, or the first two: the plan names the keys that stand out, and the agreement lists "
            "all as published.",
            "--units",
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Further facts", UNITS)] = None,
    index: IndexOf = None,
    key: Annotated[
        str | None,
        option("The agreement that is written", "COLUMN", "Column of keys, with its type. Each has a sketch.", "--key"),
    ] = None,
    output: Agreed = None,
    as_json: AsJson = False,
) -> None:
    r"""Plan the comparison of keys by their units, such as customers.

    The plan also chooses how units are clipped, and to which bound. All that is stated must be public.

    $ streamsketch plan units --items 10 --units 2000 --cosine 0.9 --epsilon 1 --delta 1e-6 --unit customer

    $ streamsketch plan units --items 10 --units 2000 --epsilon 1 --delta 1e-6 --unit customer:text \
        --index item:text -o planned.json
    """
    if output is not None and unit is None:
        raise ss.InvalidInputError(
            "an agreement on whole units names them: state the column of units: --unit NAME:TYPE"
        )
    more = set_fields(FurtherFacts(), UNITS, settings)
    columns = _columns(output, index, key, unit)
    if more.picture is not None:
        new_file(more.picture, ".svg", "a picture")
    facts: dict[str, Any] = {} if more.in_keys is None else {"keys": numbers_in(more.in_keys, "--set in-keys")}
    facts |= {} if cosine is None else {"cosine": numbers_in(cosine, "--cosine")}
    typical = ss.planning.TypicalUnit(
        items=numbers_in(items, "--items"), match=more.match, catalogue=more.catalogue, **facts
    )
    by_key = units_of(numbers)
    listed = list(by_key) if isinstance(by_key, dict) and key is not None and more.keys is None else more.keys
    keys = _keys(output, key, listed)
    terms = ss.Terms(epsilon=epsilon, delta=delta)
    left = terms.less(keys) if isinstance(keys, ss.Selected) else terms
    word = "event" if unit is None else column_name(unit)
    plan = ss.planning.plan_units(
        typical,
        question=more.question,  # type: ignore[arg-type] # it checks
        units=by_key,
        epsilon=left.budget.epsilon,
        delta=left.budget.delta,
        unit=word,
    )
    if output is not None:
        projection = plan.projection(secrets.randbits(63))
        ss.Agreement(projection, **columns, **plan.agreement_arguments, terms=terms, keys=keys).save(output)
    if more.picture is not None:
        from streamsketch.report.keys import picture_of_keys  # noqa: PLC0415 - few plans are drawn

        write_whole(more.picture, picture_of_keys(plan).encode())
    _show(plan, as_json=as_json)


def sites(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Annotated[
        float | None,
        option("Privacy", "EPSILON", "Privacy loss ε of one release. By default the smallest that finds the shift."),
    ] = None,
    delta: Annotated[
        float | None, option("Privacy", "DELTA", "Failure probability δ of the bound ε. By default at most 1e-6.")
    ] = None,
    unit: UnitOf = None,
    features: Annotated[
        str,
        option(
            "Sites", "FILE|NUMBER", "JSON file of columns with their public ranges; or a number of columns of numbers."
        ),
    ],
    people: Annotated[str, option("Sites", "NUMBERS", "Number of units at a site, or at two: 2800,280.", "--units")],
    shift: Annotated[
        float | None, option("Sites", "DEVIATIONS", "Shift of a number that should be found, in standard deviations.")
    ] = None,
    settings: Annotated[list[str] | None, set_option("Further facts", SITES)] = None,
    output: Agreed = None,
    as_json: AsJson = False,
) -> None:
    """Plan features of people by which sites are compared.

    The plan predicts which difference between two sites is found, and how many people are needed. If the difference is
    not found, no file is written, and the exit status is 1.

    $ streamsketch plan sites --features 5 --units 2000 --shift 0.3 --epsilon 1 --unit patient
    """
    more = set_fields(FurtherFacts(), SITES, settings)
    columns: Any = int(features) if features.isdecimal() else None
    if columns is None:
        from streamsketch.cli._features import load_features  # noqa: PLC0415 - other plans are not of features

        columns = load_features(Path(features), None)
    if output is not None:
        new_file(output, ".json", "an agreement")
        if isinstance(columns, int) or unit is None:
            raise ss.InvalidInputError(
                "an agreement names its columns, which a number of them does not: give --features FILE and --unit "
                "COLUMN"
            )
    if more.picture is not None:
        new_file(more.picture, ".svg", "a picture")
    keys = _keys(output, more.key, more.keys)
    terms = None if epsilon is None else ss.Terms(epsilon=epsilon, delta=delta or 0)
    if isinstance(keys, ss.Selected):
        if terms is None or delta is None:
            raise ss.InvalidInputError("a private choice of keys takes a share of --epsilon and --delta: state both")
        epsilon, delta = terms.less(keys).budget.epsilon, terms.less(keys).budget.delta
    plan = ss.planning.plan_sites(
        columns,
        units=units_of_sites(people),
        shift=shift_of(shift, more.moved, more.times, more.in_columns),
        epsilon=epsilon,
        delta=delta,
        unit="person" if unit is None else column_name(unit),
        power=more.power,
    )
    missed = not plan.reached and not more.accept
    if output is not None and unit is not None and not missed:
        spent = terms if isinstance(keys, ss.Selected) else ss.Terms(epsilon=plan.epsilon, delta=plan.delta)
        _agreement_of_sites(plan, columns.seed, unit, more.key).replace(keys=keys, terms=spent).save(output)
    if more.picture is not None:
        from streamsketch.report.site_plans import picture_of_sites  # noqa: PLC0415 - few plans are drawn

        write_whole(more.picture, picture_of_sites(plan).encode())
    _show(plan, as_json=as_json)
    if missed:
        needed = [] if plan.units_needed is None else [f"{plan.units_needed:,} {plan.units_word} a site"]
        needed += [] if plan.epsilon_needed is None else [f"ε = {plan.epsilon_needed:g}"]
        refuse_to_miss(f": it takes {' or '.join(needed)}" if needed else "", output)


def windows(  # noqa: PLR0913 - a command's options are its parameters
    *,
    number: Annotated[int, option("Windows", "NUMBER", "Number of windows of the stream.", "--windows", min=1)],
    window: Annotated[
        str | None, option("Windows", "LENGTH", "Length of a window, such as '1 hour', or day, week or month.")
    ] = None,
    time: Annotated[str | None, option("Windows", "COLUMN", "Column of times, or NAME:date.")] = None,
    first: Annotated[str | None, option("Windows", "TIME", "Start of the first window.")] = None,
    ranges: Annotated[
        list[str] | None,
        option(
            "Windows",
            "RANGE",
            "Range that matters: a number of windows, a length such as '1 week' (with --window), or prefix: all "
            "windows from the first on (the default). Repeatable.",
            "--range",
        ),
    ] = None,
    agreement: Annotated[
        Path | None,
        option("Input", "FILE", "Agreement on the columns and the bound, by which the plan knows its noise."),
    ] = None,
    epsilon: Annotated[
        float | None,
        option("Privacy", "EPSILON", "Privacy loss ε of all windows together, unless the agreement states it."),
    ] = None,
    delta: Annotated[float | None, option("Privacy", "DELTA", "Failure probability δ of the bound ε.")] = None,
    settings: Annotated[list[str] | None, set_option("Further facts", WINDOWS)] = None,
    output: Agreed = None,
    as_json: AsJson = False,
) -> None:
    r"""Plan a schedule by which the windows of a stream are published.

    The plan chooses which sums of windows are published, for the ranges of time that matter. With -o it writes an
    agreement: that of --agreement, with windows, their schedule, and what all of them spend together.

    $ streamsketch plan windows --windows 365 --window '1 day' --range '1 week'

    $ streamsketch plan windows --windows 365 --window '1 day' --range '1 week' --time at --first 2026-01-01 \
        --agreement columns.json --epsilon 1 --delta 1e-6 -o year.json
    """
    more = set_fields(FurtherFacts(), WINDOWS, settings)
    if output is not None:
        new_file(output, ".json", "an agreement")
        if agreement is None:
            raise ss.InvalidInputError(
                "an agreement has columns and a bound: make one with `streamsketch agree … -o columns.json`, and give "
                "--agreement columns.json"
            )
    base = None if agreement is None else ss.Agreement.load(agreement)
    terms = _terms_of_windows(base, epsilon, delta)
    in_windows = windows_in(base, window=window, time=time, first=first, more=more)
    length = window or (None if in_windows is None else str(in_windows.every))
    plan = ss.planning.plan_schedule(
        number,
        [range_of(text, length, number) for text in ranges or ["prefix"]],
        delta=(delta or 0.0) if terms is None else terms.budget.delta,
        max_windows=None if more.max_windows == "all" else number_of_windows(more.max_windows),
        gap=more.gap,
        agreement=None if terms is None else base,
        epsilon=None if terms is None else terms.budget.epsilon,
    )
    if output is not None and base is not None:
        if terms is None:
            raise ss.InvalidInputError("state what all windows spend together: --epsilon EPSILON (and --delta)")
        if in_windows is None or in_windows.first is None:
            raise ss.InvalidInputError(
                "windows have a length, a column of times and a first one: --window LENGTH --time COLUMN --first TIME"
            )
        base.replace(terms=terms, windows=in_windows, schedule=plan.chosen.schedule).save(output)
    _show(plan, as_json=as_json)


def _terms_of_windows(base: "Agreement | None", epsilon: float | None, delta: float | None) -> "Terms | None":
    """Return what all windows spend together: as the agreement says, or as options do; None if neither does."""
    if base is not None and base.terms is not None:
        if epsilon is not None or delta is not None:
            raise ss.InvalidInputError(
                f"the agreement says what is spent, {base.terms}; leave out --epsilon and --delta"
            )
        return base.terms
    if epsilon is None:
        return None
    if base is None:
        raise ss.InvalidInputError("the noise of windows depends on the bound, too: with --epsilon, give --agreement")
    return ss.Terms(epsilon=epsilon, delta=delta or 0)


def signs(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Epsilon,
    unit: Word = "event",
    members: Annotated[int, option("Published signs", "NUMBER", "Number of vectors in the collection.")],
    cosine: Annotated[
        str | None, option("Published signs", "NUMBERS", "Cosine of the neighbours with the query. By default 0.9.")
    ] = None,
    sizes: Annotated[str, option("Published signs", "NUMBERS", "Numbers of signs to compare.", "--signs")] = _SIGNS,
    settings: Annotated[list[str] | None, set_option("Further facts", SIGNS)] = None,
    index: IndexOf = None,
    output: Agreed = None,
    as_json: AsJson = False,
) -> None:
    """Plan a search among published signs.

    The plan predicts the share of a vector's true neighbours that is found, for each number of signs. The agreement has
    the first of --signs.

    $ streamsketch plan signs --members 100000 --epsilon 4
    """
    more = set_fields(FurtherFacts(), SIGNS, settings)
    columns = _columns(output, index, None, None)
    mechanism = more.mechanism
    if mechanism not in MECHANISMS:
        raise ss.InvalidInputError(
            f"the mechanism of signs must be one of {', '.join(MECHANISMS)}, got {mechanism!r:.40}"
        )
    numbers: list[Any] = [int(size) if size % 1 == 0 else size for size in numbers_in(sizes, "--signs")]
    neighbours = neighbours_of({"l1": more.l1}, unit, None) or ss.OneCoordinate(1, unit)
    publish: Any = getattr(ss.signs, MECHANISMS[mechanism])(epsilon=epsilon, neighbours=neighbours)
    family = ss.projections.OPORP if publish.one_bin else ss.projections.Rademacher
    projection: Any = family(dim=dim_of(more.dim), sketch_dim=numbers[0], seed=secrets.randbits(63))
    plan = ss.planning.plan_signs(
        publish,
        projection,
        members=members,
        nearest=more.nearest,
        top=more.top,
        signs=numbers,
        norm=more.norm,
        exact_query=more.exact_query,
        cosine=0.9 if cosine is None else numbers_in(cosine, "--cosine"),
        rest=0.0 if more.rest is None else numbers_in(more.rest, "--set rest"),
    )
    if output is not None:
        terms = ss.Terms(epsilon=epsilon, mechanism=mechanism)
        ss.Agreement(projection, **columns, neighbours=neighbours, terms=terms).save(output)
    _show(plan, as_json=as_json)


def _columns(
    output: Path | None, index: list[str] | None, key: str | None, unit: str | None, value: str | None = None
) -> dict[str, Any]:
    """Return the columns of the agreement to write, once they and its file are right."""
    if output is None:
        if index or key is not None or value is not None:
            raise ss.InvalidInputError("--index, key and value are columns of an agreement: name it, --output FILE")
        return {}
    new_file(output, ".json", "an agreement")
    if not index:
        raise ss.InvalidInputError("an agreement names the columns that are sketched: give --index NAME:TYPE for each")
    return columns_from(names_given(index, "--index"), key, unit, value)


def _keys(output: Path | None, key: str | None, keys: object) -> Any:
    """Return which keys an agreement publishes; raise an error if they are missing, or stated where none are needed."""
    if key is None or output is None:
        if keys is not None:
            raise ss.InvalidInputError(
                "published keys are a field of an agreement with a key column: name both, --output FILE and the column "
                "of keys, or leave them out"
            )
    elif keys is None:
        raise ss.InvalidInputError(
            "which keys have data is private: give --set public-key=KEY,…, a list chosen without looking at the data; "
            "--set keys-are-public=yes, if they are no secret; or, with a column of units, "
            "--set select-keys=EPSILON,DELTA, a private choice"
        )
    return keys


def _agreement_of_sites(plan: "SitePlan", seed: int, unit: str, key: str | None) -> "Agreement":
    features = plan.features(seed)
    from streamsketch.agreement.infer import whole_unit_bounds  # noqa: PLC0415 - few plans write an agreement

    bounds = whole_unit_bounds(features.projection, column_name(unit), keyed=key is not None, max_keys=1, averaged=True)
    named = {name: column for name, column in columns_from([], key, unit, None).items() if name in ("key", "unit")}
    return ss.Agreement(**named, **bounds, features=features)


def _show(plan: Any, *, as_json: bool) -> None:
    if as_json:
        show_json(plan.to_dict())
    else:
        typer.echo(str(plan))
