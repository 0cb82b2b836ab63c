"""``streamsketch plan``: the sketch to agree on, by the question that releases are to answer."""

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.agreement.infer import whole_unit_bounds
from streamsketch.cli._agreeing import L1, column_name, columns_from, neighbours_of
from streamsketch.cli._features import load_features
from streamsketch.cli._options import option
from streamsketch.cli._planning import (
    MECHANISMS,
    dim_of,
    numbers_in,
    range_of,
    refuse_to_miss,
    shift_of,
    sign_mechanisms,
    units_of,
    units_of_sites,
    whole_number,
)
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import Json, show_json
from streamsketch.core.files import write_whole
from streamsketch.core.text import names_given
from streamsketch.report.keys import picture_of_keys
from streamsketch.report.site_plans import picture_of_sites

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
MaxCells = Annotated[int, option("Goal", "NUMBER", "Maximum number of cells of a sketch.")]
Accept = Annotated[bool, option("Goal", "", "Write the agreement although the plan misses the goal.", "--accept")]
IndexOf = Annotated[
    list[str] | None,
    option(
        "The agreement that is written",
        "COLUMN",
        "Column that identifies an item or event, with its type: item:text. Repeat it for several columns, in order.",
        "--index",
    ),
]
KeyOf = Annotated[
    str | None,
    option("The agreement that is written", "COLUMN", "Column of keys, with its type. Each has a sketch.", "--key"),
]
ValueOf = Annotated[
    str | None,
    option("The agreement that is written", "COLUMN", "Column of numbers to add up, in place of 1 a row.", "--value"),
]
Agreed = Annotated[
    Path | None,
    option("Output", "FILE", "Write the agreement to this .json file, for all parties.", "--output", "-o"),
]
Picture = Annotated[Path | None, option("Output", "FILE", "Draw the result into an .svg file.")]


def streams(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    l1: L1 = None,
    unit: Word = "event",
    dim: Annotated[str, option("Streams", "NUMBER|hashed", "Number of possible indices, or hashed.")] = "hashed",
    squared_distance: Annotated[
        list[float] | None,
        option("Streams", "NUMBER", "Squared distance that matters, in squared data units. Repeatable."),
    ] = None,
    events: Annotated[int | None, option("Streams", "NUMBER", "Number of updates in one stream.")] = None,
    step: Annotated[
        str,
        option(
            "Streams",
            "STEP|real",
            "Step of which all values are multiples, such as 1 or 1/100; real if there is no such step.",
        ),
    ] = "1",
    relative_error: Annotated[
        float | None,
        option("Goal", "NUMBER", "Relative error to reach, e.g. 0.2. By default, the smallest possible."),
    ] = None,
    max_cells: MaxCells = 1 << 16,
    accept: Accept = False,
    index: IndexOf = None,
    key: KeyOf = None,
    value: ValueOf = None,
    output: Agreed = None,
    as_json: Json = False,
) -> None:
    r"""Plan squared distances between streams of events.

    The plan chooses a projection and a mechanism, and predicts the error. If no sketch reaches the goal, the closest
    plan is shown, no file is written, and the exit status is 1.

    $ streamsketch plan streams --epsilon 1 --unit sale --squared-distance 20000 --relative-error 0.2 \
        --index item:text -o streams.json
    """
    columns = _columns(output, index, key, None, value)
    facts = ss.planning.StreamFacts(
        dim=dim_of(dim),
        squared_distances=squared_distance or None,
        events=events,
        step=None if step == "real" else step,
    )
    neighbours = neighbours_of({"l1": l1}, unit, None) or ss.L1(1, unit)
    goal = ss.planning.Goal(relative_error=relative_error, max_cells=max_cells)
    found = ss.plan(facts, epsilon=epsilon, delta=delta, neighbours=neighbours, goal=goal)
    missed = found.met is False and not accept
    if output is not None and not missed:
        terms = None if key is not None else ss.Terms(epsilon=epsilon, delta=delta)
        projection = found.projection(secrets.randbits(63))
        ss.Agreement(projection, **columns, neighbours=neighbours, terms=terms).save(output)
    _show(found, as_json=as_json)
    if missed:
        factor = found.chosen.error / float(relative_error or 1)
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
    in_keys: Annotated[
        str | None, option("Whole units", "NUMBERS", "Number of keys that one unit is in. By default 1.")
    ] = None,
    match: Annotated[
        float | None,
        option(
            "Whole units",
            "PROBABILITY",
            "Probability that pieces of two units are of the same item, Σp². The size of the sketch hangs on it; "
            "without it, the plan is for a range.",
        ),
    ] = None,
    catalogue: Annotated[
        float | None,
        option("Whole units", "NUMBER", "Instead of --match: how many different items are sold, or can occur."),
    ] = None,
    cosine: Annotated[
        str | None, option("Whole units", "NUMBERS", "Cosine of two keys that matters, or several.")
    ] = None,
    numbers: Annotated[
        str | None, option("Whole units", "NUMBERS", "Number of units in a key. Several sizes: 500,3000.", "--units")
    ] = None,
    keys: Annotated[
        Path | None,
        option(
            "Whole units",
            "FILE",
            "CSV or Parquet file of keys and their numbers of units, instead of --units: columns key and units, or the "
            "first two. The plan names the keys that stand out, and the agreement lists all as published.",
        ),
    ] = None,
    question: Annotated[
        str, option("Whole units", "QUESTION", "Question to the releases: cosine, distance, mean or point.")
    ] = "cosine",
    index: IndexOf = None,
    key: KeyOf = None,
    picture: Picture = None,
    output: Agreed = None,
    as_json: Json = False,
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
    columns = _columns(output, index, key, unit)
    if picture is not None:
        new_file(picture, ".svg", "a picture")
    if numbers is not None and keys is not None:
        raise ss.InvalidInputError("--units and --keys both state how many units a key has; give one of them")
    known: dict[str, Any] = {} if in_keys is None else {"keys": numbers_in(in_keys, "--in-keys")}
    known |= {} if cosine is None else {"cosine": numbers_in(cosine, "--cosine")}
    typical = ss.planning.TypicalUnit(
        items=numbers_in(items, "--items"),
        match=match,
        catalogue=catalogue,
        **known,
    )
    by_key = units_of(numbers, keys)
    word = "event" if unit is None else column_name(unit)
    found = ss.planning.plan_units(
        typical,
        question=question,  # type: ignore[arg-type] # it checks
        units=by_key,
        epsilon=epsilon,
        delta=delta,
        unit=word,
    )
    if output is not None:
        listed = list(by_key) if isinstance(by_key, dict) and key is not None else None
        terms = None if key is not None and listed is None else ss.Terms(epsilon=epsilon, delta=delta)
        projection = found.projection(secrets.randbits(63))
        ss.Agreement(projection, **columns, **found.agreement_arguments, terms=terms, keys=listed).save(output)
    if picture is not None:
        write_whole(picture, picture_of_keys(found).encode())
    _show(found, as_json=as_json)


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
    features: Annotated[Path | None, option("Sites", "FILE", "JSON file of columns with their public ranges.")] = None,
    numbers: Annotated[
        int | None, option("Sites", "NUMBER", "Number of columns of numbers, instead of --features.")
    ] = None,
    people: Annotated[str, option("Sites", "NUMBERS", "Number of units at a site, or at two: 2800,280.", "--units")],
    shift: Annotated[
        float | None,
        option("Sites", "DEVIATIONS", "Shift of a number that should be found, in standard deviations."),
    ] = None,
    moved: Annotated[
        float | None, option("Sites", "SHARE", "Share of people in another category that should be found.")
    ] = None,
    times: Annotated[
        float | None, option("Sites", "FACTOR", "Factor by which a class of people is more frequent.")
    ] = None,
    in_columns: Annotated[
        int | None, option("Sites", "NUMBER", "Number of columns in which the shift or the class appears.")
    ] = None,
    power: Annotated[float, option("Goal", "PROBABILITY", "Probability with which the shift must be found.")] = 0.8,
    accept: Accept = False,
    key: KeyOf = None,
    picture: Picture = None,
    output: Agreed = None,
    as_json: Json = False,
) -> None:
    """Plan features of people by which sites are compared.

    The plan predicts which difference between two sites is found, and how many people are needed. If the difference is
    not found, no file is written, and the exit status is 1.

    $ streamsketch plan sites --numbers 5 --units 2000 --shift 0.3 --epsilon 1 --unit patient
    """
    if (features is None) == (numbers is None):
        raise ss.InvalidInputError(
            "state what is compared: --features FILE with the columns and their public ranges, or --numbers 30"
        )
    if output is not None:
        new_file(output, ".json", "an agreement")
        if features is None or unit is None:
            raise ss.InvalidInputError(
                "an agreement names its columns, which --numbers does not: give --features FILE and --unit COLUMN"
            )
    if picture is not None:
        new_file(picture, ".svg", "a picture")
    columns: Any = numbers if features is None else load_features(features, None)
    found = ss.planning.plan_sites(
        columns,
        units=units_of_sites(people),
        shift=shift_of(shift, moved, times, in_columns),
        epsilon=epsilon,
        delta=delta,
        unit="person" if unit is None else column_name(unit),
        power=power,
    )
    missed = not found.reached and not accept
    if output is not None and unit is not None and not missed:
        _agreement_of_sites(found, columns.seed, unit, key).save(output)
    if picture is not None:
        write_whole(picture, picture_of_sites(found).encode())
    _show(found, as_json=as_json)
    if missed:
        needed = [] if found.units_needed is None else [f"{found.units_needed:,} {found.units_word} a site"]
        needed += [] if found.epsilon_needed is None else [f"ε = {found.epsilon_needed:g}"]
        refuse_to_miss(f": it takes {' or '.join(needed)}" if needed else "", output)


def windows(  # noqa: PLR0913 - a command's options are its parameters
    *,
    number: Annotated[int, option("Windows", "NUMBER", "Number of windows of the stream.", "--windows", min=1)],
    window: Annotated[str | None, option("Windows", "LENGTH", "Length of a window, such as '1 hour'.")] = None,
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
    max_windows: Annotated[
        str, option("Windows", "NUMBER|all", "Number of windows that a unit may be in, or all.")
    ] = "1",
    gap: Annotated[int, option("Windows", "WINDOWS", "Smallest distance between two windows of a unit.")] = 1,
    epsilon: Annotated[
        float | None, option("Privacy", "EPSILON", "Privacy loss ε of all windows, with --agreement.")
    ] = None,
    delta: Annotated[float, option("Privacy", "DELTA", "Failure probability δ of the bound ε.")] = 0.0,
    agreement: Annotated[
        Path | None,
        option("Input", "FILE", "Agreement of the stream, by which the plan knows its noise, with --epsilon."),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "Output", "FILE", "Write the schedule to a .json file, for `agree --set schedule=FILE`.", "--output", "-o"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a schedule by which the windows of a stream are published.

    The plan chooses which sums of windows are published, for the ranges of time that matter.

    $ streamsketch plan windows --windows 365 --window '1 day' --range '1 week'
    """
    if output is not None:
        new_file(output, ".json", "a schedule")
    found = ss.planning.plan_schedule(
        number,
        [range_of(text, window, number) for text in ranges or ["prefix"]],
        delta=delta,
        max_windows=None if max_windows == "all" else whole_number(max_windows, "--max-windows"),
        gap=gap,
        agreement=None if agreement is None else ss.Agreement.load(agreement),
        epsilon=epsilon,
    )
    if output is not None:
        write_whole(output, found.chosen.schedule.to_json().encode() + b"\n")
    _show(found, as_json=as_json)


def signs(  # noqa: PLR0913 - a command's options are its parameters
    *,
    epsilon: Epsilon,
    l1: L1 = None,
    unit: Word = "event",
    dim: Annotated[
        str, option("Published signs", "NUMBER|hashed", "Number of possible indices, or hashed.")
    ] = "hashed",
    members: Annotated[int, option("Published signs", "NUMBER", "Number of vectors in the collection.")],
    nearest: Annotated[int, option("Published signs", "NUMBER", "Number of true neighbours that are wanted.")] = 10,
    top: Annotated[
        int | None,
        option(
            "Published signs",
            "NUMBER",
            "Number of nearest members that a search returns. By default, the number of --nearest.",
        ),
    ] = None,
    cosine: Annotated[
        str | None, option("Published signs", "NUMBERS", "Cosine of the neighbours with the query. By default 0.9.")
    ] = None,
    rest: Annotated[
        str | None, option("Published signs", "NUMBERS", "Cosine of the other members, or several. By default 0.")
    ] = None,
    sizes: Annotated[str, option("Published signs", "NUMBERS", "Numbers of signs to compare.", "--signs")] = _SIGNS,
    mechanism: Annotated[
        str,
        option(
            "Published signs",
            "MECHANISM",
            f"Mechanism that publishes the signs: {', '.join(sign_mechanisms())}.",
            autocompletion=sign_mechanisms,
        ),
    ] = sign_mechanisms()[0],
    norm: Annotated[
        float | None,
        option("Published signs", "NORM", "Euclidean norm of the vectors, if flips depend on the cells."),
    ] = None,
    exact_query: Annotated[
        bool, option("Published signs", "", "The query is your own vector, which is not published.", "--exact-query")
    ] = False,
    index: IndexOf = None,
    output: Agreed = None,
    as_json: Json = False,
) -> None:
    """Plan a search among published signs.

    The plan predicts the share of a vector's true neighbours that is found, for each number of signs. The agreement has
    the first of --signs.

    $ streamsketch plan signs --members 100000 --epsilon 4
    """
    columns = _columns(output, index, None, None)
    if mechanism not in MECHANISMS:
        raise ss.InvalidInputError(
            f"the mechanism of signs must be one of {', '.join(MECHANISMS)}, got {mechanism!r:.40}"
        )
    numbers: list[Any] = [int(size) if size % 1 == 0 else size for size in numbers_in(sizes, "--signs")]
    neighbours = neighbours_of({"l1": l1}, unit, None) or ss.OneCoordinate(1, unit)
    publish: Any = MECHANISMS[mechanism](epsilon=epsilon, neighbours=neighbours)
    family = ss.projections.OPORP if publish.one_bin else ss.projections.Rademacher
    projection: Any = family(dim=dim_of(dim), sketch_dim=numbers[0], seed=secrets.randbits(63))
    found = ss.planning.plan_signs(
        publish,
        projection,
        members=members,
        nearest=nearest,
        top=top,
        signs=numbers,
        norm=norm,
        exact_query=exact_query,
        **({} if cosine is None else {"cosine": numbers_in(cosine, "--cosine")}),
        **({} if rest is None else {"rest": numbers_in(rest, "--rest")}),
    )
    if output is not None:
        terms = ss.Terms(epsilon=epsilon, mechanism=mechanism)
        ss.Agreement(projection, **columns, neighbours=neighbours, terms=terms).save(output)
    _show(found, as_json=as_json)


def _columns(
    output: Path | None, index: list[str] | None, key: str | None, unit: str | None, value: str | None = None
) -> dict[str, Any]:
    """Return the columns of the agreement to write, once they and its file are right."""
    if output is None:
        if index or key is not None or value is not None:
            raise ss.InvalidInputError("--index, --key and --value are columns of an agreement: name it, --output FILE")
        return {}
    new_file(output, ".json", "an agreement")
    if not index:
        raise ss.InvalidInputError("an agreement names the columns that are sketched: give --index NAME:TYPE for each")
    return columns_from(names_given(index, "--index"), key, unit, value)


def _agreement_of_sites(plan: ss.planning.SitePlan, seed: int, unit: str, key: str | None) -> ss.Agreement:
    features = plan.features(seed)
    bounds = whole_unit_bounds(features.projection, column_name(unit), keyed=key is not None, max_keys=1, averaged=True)
    terms = None if key is not None else ss.Terms(epsilon=plan.epsilon, delta=plan.delta)
    named = {name: column for name, column in columns_from([], key, unit, None).items() if name in ("key", "unit")}
    return ss.Agreement(**named, **bounds, features=features, terms=terms)


def _show(plan: Any, *, as_json: bool) -> None:
    if as_json:
        show_json(plan.to_dict())
    else:
        typer.echo(str(plan))
