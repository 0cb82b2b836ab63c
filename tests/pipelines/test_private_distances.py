"""The job on a user's own files, through its command line."""

import argparse
import contextlib
import io
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import streamsketch as ss
from pipelines import private_distances, sinks
from pipelines.picture import drawn_of
from pipelines.tables import Results, show_results

SALES = pa.table(
    {
        "shop": ["north", "north", "south", "south", "west/1"],
        "product": ["apple", "pear", "apple", "pear", "apple"],
        "day": [1, 1, 1, 2, 1],
        "paid": [30.0, 40.0, -10.0, 2.5, 100.25],
    }
)


def write_sales(folder: Path) -> Path:
    pq.write_table(SALES, folder / "sales.parquet")
    pa_csv.write_csv(SALES, folder / "sales.csv")
    return folder


@pytest.fixture
def drawn() -> None:
    """Let jobs draw their pictures."""


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare other tests the pictures, which take as long as the rest of a small job."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(private_distances, "heat_map", lambda *_: b"a picture")


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    return write_sales(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder in which the job ran once without further options, and what it printed."""
    folder = write_sales(tmp_path_factory.mktemp("finished"))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert private_distances.main(arguments(folder)) == 0
    return folder, printed.getvalue()


def arguments(folder: Path, name: str = "sales.parquet", *more: str) -> list[str]:
    fixed = ["--key", "shop", "--index", "product,day", "--value", "paid", "--resolution", "0.25", "--l1", "50"]
    privacy = ["--unit", "receipt", "--epsilon", "1e6", "--sketch-dim", "256", "--sparsity", "2"]
    keys = [] if {"--keys-are-public", "--public-key"} & set(more) else ["--public-key", "north,south,west/1,east"]
    return [
        "--input",
        str(folder / name),
        *fixed,
        *privacy,
        *keys,
        "--output",
        str(folder / "out"),
        "--by",
        "distance",
        *more,
    ]


def exact(first: str, second: str) -> float:
    cells: dict[tuple[object, object], float] = {}
    for row in SALES.to_pylist():
        sign = (row["shop"] == first) - (row["shop"] == second)
        # text in CSV files and tuples' parts in Parquet files alike
        cells[row["product"], row["day"]] = cells.get((row["product"], row["day"]), 0.0) + sign * row["paid"]
    return sum(value**2 for value in cells.values())


@pytest.mark.parametrize("name", ["sales.parquet", "sales.csv"])
def test_distances_of_the_users_files_come_out(sales: Path, finished: tuple[Path, str], name: str) -> None:
    if name == "sales.parquet":
        sales, _ = finished
    else:
        assert private_distances.main(arguments(sales, name)) == 0
    rows = sinks.read_comparisons(str(sales / "out"), "distance").to_pylist()
    assert len(rows) == 6
    assert [row["squared_distance"] for row in rows] == sorted(row["squared_distance"] for row in rows)
    for row in rows:  # at ε = 10⁶ the noise is nearly nil; the few indices hardly meet in 256 cells
        assert row["squared_distance"] == pytest.approx(exact(row["first"], row["second"]), rel=1e-6)
    written = pa_csv.read_csv(sales / "out" / "distances.csv").to_pylist()
    assert [row["first"] for row in written] == [row["first"] for row in rows]


@pytest.mark.usefixtures("drawn")
def test_cosines_come_out_with_sizes_beside(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert private_distances.main(arguments(sales, "sales.parquet", "--by", "cosine", "--look-at-truth")) == 0
    rows = sinks.read_comparisons(str(sales / "out"), "cosine").to_pylist()
    assert [(row["first"], row["second"]) for row in rows[:3]] == [
        ("north", "west/1"), ("north", "south"), ("south", "west/1"),
    ]  # fmt: skip
    assert rows[0]["cosine"] == pytest.approx(30 / 50, abs=1e-3)  # 30 of (30, 40), along the one axis of the other
    assert {row["cosine"] for row in rows[3:]} == {None}, "there is nothing in the east, unless noise passes for it"
    shown = " ".join(capsys.readouterr().out.split())
    assert "most alike first" in shown
    assert "50 : 100" in shown
    assert "Without cosines, as below the noise floor: east." in shown
    assert "3 of 3 intervals cover the exact cosine" in shown
    assert "6 of 6 intervals cover the exact distance" in shown
    assert (sales / "out" / "cosines.png").stat().st_size > 1000
    assert len(pa_csv.read_csv(sales / "out" / "cosines.csv")) == 6


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("names", ["east,north", "north,zero", "north,south,west/1,east,zero", "east,zero"])
def test_only_the_stream_below_the_noise_floor_is_named(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a pair without a cosine, one stream may be large; in a table of one pair, no other pair shows that."""
    projection = ss.SJLT(dim=1000, sketch_dim=64, sparsity=2, seed=1)
    releases = {}
    for place, name in enumerate(names.split(",")):
        sketch = projection.sketch()
        if name not in ("east", "zero"):
            sketch.update([1, place + 2], [12_000, 5_000])
        releases[name] = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    lost = [name for name in names.split(",") if name in ("east", "zero")]
    assert private_distances.below_noise(releases) == lost

    cosines = ss.pairwise(releases.values(), by="cosine").to_arrow(list(releases))
    cosines = cosines.rename_columns(["cosine" if name == "estimate" else name for name in cosines.column_names])
    undefined = pc.is_nan(cosines["cosine"])
    cosines = cosines.set_column(2, "cosine", pc.if_else(undefined, None, cosines["cosine"]))
    sizes = {name: ss.squared_norm(release) for name, release in releases.items()}
    results = Results(cosines, cosines, sizes, private_distances.below_noise(releases))
    asked = argparse.Namespace(by="cosine", key="shop", unit_column=None, output="out")
    show_results(Console(width=200), results, None, asked, "a guarantee")
    assert f"Without cosines, as below the noise floor: {', '.join(lost)}." in capsys.readouterr().out

    kept, line = drawn_of(sorted(releases), lost)
    drawn = [sorted(releases)[place] for place in kept]
    assert drawn == (sorted(set(releases) - set(lost)) if len(releases) - len(lost) >= 2 else sorted(releases))
    assert line.endswith(f"below the noise floor: {', '.join(lost)}")


def test_releases_are_written_twice_alike(finished: tuple[Path, str]) -> None:
    sales, _ = finished
    table = ss.load(sales / "out" / "sketches.parquet")
    assert sorted(table) == ["east", "north", "south", "west/1"]
    for key, name in {"east": "east", "west/1": "west%2F1"}.items():
        assert ss.load(sales / "out" / "sketches" / f"{name}.sketch") == table[key]
    assert str(table["east"].guarantee).startswith("ε = 1000000, δ = 0 for one receipt of at most 50 (L1)")


def test_releases_are_sorted_whatever_comes_first(sales: Path, finished: tuple[Path, str]) -> None:
    pq.write_table(SALES.take([4, 2, 0, 1, 3]), sales / "sales.parquet")
    private_distances.main(arguments(sales))
    for folder in (sales, finished[0]):
        assert list(ss.load(folder / "out" / "sketches.parquet")) == ["east", "north", "south", "west/1"]


def test_a_run_with_a_claim_runs_once_and_leaves_no_secret(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sales / "root.key").write_bytes(bytes(range(32)))
    (sales / "root.key").chmod(0o600)
    run = ["--claims", str(sales / "claims"), "--run-id", "monday", "--root-key", str(sales / "root.key")]
    assert private_distances.main(arguments(sales, "sales.parquet", *run)) == 0
    assert b'"nonce": null' in (sales / "claims" / "monday.claim").read_bytes()
    before = (sales / "out" / "sketches.parquet").read_bytes()
    assert private_distances.main(arguments(sales, "sales.parquet", *run)) == 2
    assert "names a run that was" in " ".join(capsys.readouterr().err.split())
    assert (sales / "out" / "sketches.parquet").read_bytes() == before
    assert private_distances.main(arguments(sales, "sales.parquet", "--run-id", "monday")) == 2
    assert "give that folder as well" in " ".join(capsys.readouterr().err.split())


def test_the_keys_may_be_declared_public(sales: Path) -> None:
    private_distances.main(arguments(sales, "sales.parquet", "--keys-are-public"))
    assert sorted(ss.load(sales / "out" / "sketches.parquet")) == ["north", "south", "west/1"]


def test_the_truth_is_shown_only_where_asked(
    sales: Path, finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, printed = finished
    assert "nearest first" in printed
    assert "exact" not in printed
    private_distances.main(arguments(sales, "sales.parquet", "--look-at-truth", "--possible-indices", "100"))
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 of 6 intervals cover the exact distance" in shown
    assert "could not" in shown
    assert "each of the 100 cells" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--epsilon", "0"), "epsilon must be a finite number > 0, from 1e-06 to 1e+06, got 0.0"),
        (("--sketch-dim", "100"), "sketch_dim / sparsity must be a power of two, got 100 / 2 = 50"),
        (("--index", "hour"), "has no column hour"),
        (("--resolution", "100"), "below one grid step"),
        (("--index", "[/product]"), "has no column [/product]"),
    ],
)
def test_a_mistake_is_one_sentence(
    sales: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], message: str
) -> None:
    assert private_distances.main([*arguments(sales), *change]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert message in shown
    assert "Traceback" not in shown
    assert not (sales / "out").exists(), "nothing is released, so nothing is spent"


@pytest.mark.parametrize(
    "change",
    [
        ("--espilon", "1"),
        ("--public-key", "a,,b"),
        ("--keys-are-public",),
        ("--public-key", "a"),
        ("stray",),
        ("--possible-indices", "9"),
        ("--max-keys", "2"),
        ("--unit-column", "customer", "--look-at-truth"),
        ("--clip", "cut"),
        ("--unit-column", "customer", "--clip", "round"),
        ("--clip", "none"),
    ],
)
def test_unknown_or_contradicting_options_are_refused(
    sales: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, ...]
) -> None:
    keys = [] if change[0] == "--public-key" else ["--public-key", "a,b"]
    with pytest.raises(SystemExit) as caught:
        private_distances.main(arguments(sales, "sales.parquet", "--output", str(sales), *keys, *change))
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_integers_of_parquet_and_csv_files_are_the_same_indices(sales: Path, finished: tuple[Path, str]) -> None:
    exact_rows = sinks.read_comparisons(str(finished[0] / "out"), "distance").to_pylist()
    both = arguments(sales)
    both[1:2] = [str(sales / "sales.parquet"), str(sales / "sales.csv")]
    private_distances.main(both)
    for row in sinks.read_comparisons(str(sales / "out"), "distance").to_pylist():
        (single,) = [one for one in exact_rows if (one["first"], one["second"]) == (row["first"], row["second"])]
        assert row["squared_distance"] == pytest.approx(4 * single["squared_distance"], rel=1e-6)


def test_an_earlier_runs_releases_do_not_stay(sales: Path, finished: tuple[Path, str]) -> None:
    shutil.copytree(finished[0] / "out", sales / "out")
    private_distances.main(arguments(sales, "sales.parquet", "--public-key", "north,west/1"))
    assert sorted(path.name for path in (sales / "out" / "sketches").iterdir()) == ["north.sketch", "west%2F1.sketch"]


def test_clearing_touches_the_named_folder_only(sales: Path, finished: tuple[Path, str]) -> None:
    neighbour = sales / "out1"
    shutil.copytree(finished[0] / "out", neighbour)
    before = sorted(path.name for path in neighbour.rglob("*"))
    for _ in range(2):
        private_distances.main(
            arguments(sales, "sales.parquet", "--public-key", "north,east", "--output", str(sales / "out[1]"))
        )
    assert sorted(path.name for path in neighbour.rglob("*")) == before
    assert len(list((sales / "out[1]" / "sketches").iterdir())) == 2


@pytest.mark.usefixtures("drawn")
def test_odd_keys_make_files_and_pictures_too(sales: Path) -> None:
    keys = ["a$x_{$", "..", "店" * 90]
    table = pa.table({"shop": keys, "product": ["p", "q", "r"], "day": [1, 2, 3], "paid": [1.0, 2.0, 3.0]})
    pq.write_table(table, sales / "sales.parquet")
    assert private_distances.main(arguments(sales, "sales.parquet", "--keys-are-public")) == 0
    assert len(list((sales / "out" / "sketches").iterdir())) == 3
    assert sorted(ss.load(sales / "out" / "sketches.parquet")) == sorted(keys)
    assert (sales / "out" / "distances.png").stat().st_size > 1000


def test_large_values_have_a_truth_too(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"shop": ["x", "y"], "product": ["p", "q"], "day": [1, 1], "paid": [4e9, 4e9]})
    pq.write_table(table, sales / "sales.parquet")
    private_distances.main(arguments(sales, "sales.parquet", "--public-key", "x,y", "--look-at-truth"))
    assert "1 of 1 intervals cover" in " ".join(capsys.readouterr().out.split())


def test_bytes_are_refused_where_names_are_text(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop", "product"):
        place = SALES.schema.get_field_index(name)
        pq.write_table(SALES.set_column(place, name, SALES[name].cast(pa.binary())), sales / "sales.parquet")
        assert private_distances.main(arguments(sales)) == 2
        assert f"column {name} holds bytes" in " ".join(capsys.readouterr().err.split())
    assert not (sales / "out").exists()


def test_no_rows_at_all_have_distances_and_a_truth(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(SALES.slice(0, 0), sales / "sales.parquet")
    assert private_distances.main(arguments(sales, "sales.parquet", "--look-at-truth")) == 0
    assert "6 of 6 intervals cover" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["sales.parquet", "sales.csv"])
def test_units_are_cut_where_a_column_names_them(sales: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    customers = SALES.append_column("customer", pa.array([7, 7, 7, None, 8]))
    pq.write_table(customers, sales / "sales.parquet")
    pa_csv.write_csv(customers, sales / "sales.csv")
    change = ["--unit-column", "customer", "--unit", "customer", "--max-keys", "2", "--l1", "20"]
    assert private_distances.main(arguments(sales, name, *change)) == 0
    table = ss.load(sales / "out" / "sketches.parquet")
    assert {release.guarantee.neighbours for release in table.values()} == {ss.L1(20, unit="customer", max_keys=2)}
    assert "20 in each of at most 2 keys (L1), by discrete Laplace" in " ".join(capsys.readouterr().out.split())
    west = ss.squared_norm(table["west/1"]).value
    assert west == pytest.approx(20**2, rel=1e-3)  # of 100.25
    assert ss.squared_norm(table["south"]).value == pytest.approx(10**2, rel=1e-3)  # the row of nobody is dropped
    assert 0 < ss.squared_norm(table["north"]).value <= 20**2 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("clip", "norms"), [([], {15**2 + 20**2}), (["--clip", "cut"], {30**2 + 5**2, 35**2})], ids=["scale", "cut"]
)
@pytest.mark.parametrize("agreed", [False, True])
def test_units_are_clipped_as_asked_with_and_without_an_agreement(
    sales: Path,
    clip: list[str],
    norms: set[int],
    agreed: bool,  # noqa: FBT001
) -> None:
    customers = SALES.append_column("customer", pa.array(["Ann", "Ann", "Ann", "Bob", "Bob"]))
    pq.write_table(customers, sales / "sales.parquet")
    if agreed:
        ss.Agreement(
            ss.SJLT(sketch_dim=256, sparsity=2, seed=2013, resolution="0.25"),
            key="shop",
            index={"product": "text", "day": "integer"},
            value="paid",
            unit="customer",
            neighbours=ss.L1(35, unit="customer", max_keys=2),
        ).save(sales / "sales.json")
        given = ["--agreement", str(sales / "sales.json"), "--epsilon", "1e6", "--public-key", "north,south,west/1"]
        given += ["--input", str(sales / "sales.parquet"), "--output", str(sales / "out")]
    else:
        given = arguments(sales, "sales.parquet", "--unit-column", "customer", "--max-keys", "2", "--l1", "35")
        given[given.index("receipt")] = "customer"
    assert private_distances.main([*given, *clip]) == 0
    table = ss.load(sales / "out" / "sketches.parquet")
    assert table.guarantee.neighbours == ss.L1(35, unit="customer", max_keys=2)
    norm = ss.squared_norm(table["north"]).value
    assert min(abs(norm - one) for one in norms) < 1
    assert ss.squared_norm(table["south"]).value == pytest.approx(10**2 + 2.5**2, abs=1)


def test_a_file_in_the_place_of_the_folder_is_one_sentence(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sales / "out").write_text("mine")
    assert private_distances.main(arguments(sales)) == 2
    assert "names a folder for the results" in capsys.readouterr().err
    assert (sales / "out").read_text() == "mine"


@pytest.mark.parametrize(
    "option", ["--runner=FnApiRunner", "--extra_package=x.whl", "--no_save_main_session", "--temp_location=/tmp/x"]
)
def test_names_of_beams_options_are_known(option: str) -> None:
    assert private_distances._beam_options(private_distances._parser(), [option]) is not None


def test_job_servers_may_know_options_that_beam_does_not() -> None:
    given = ["--runner=PortableRunner", "--checkpointing_interval=1000"]
    assert private_distances._beam_options(private_distances._parser(), given) is not None
    with pytest.raises(SystemExit):
        private_distances._beam_options(private_distances._parser(), given[1:])


def test_beams_own_options_pass_through(sales: Path) -> None:
    private_distances.main(arguments(sales, "sales.parquet", "--direct_runner_bundle_repeat=1"))
    assert len(ss.load(sales / "out" / "sketches.parquet")) == 4


def test_streams_of_days_in_text_with_another_delimiter(sales: Path) -> None:
    (sales / "days.csv").write_text(
        "shop;product;day;when;paid\nnorth;a;1;31.05.2024;2\nnorth;a;1;01.06.2024;3\nsouth;a;1;01.06.2024;4\n"
    )
    keys = ["--public-key", "north 2024-05-31,north 2024-06-01", "--public-key", "south 2024-06-01"]
    times = ["--delimiter", ";", "--window", "1 day", "--time", "when", "--time-format", "%d.%m.%Y", *keys]
    given = arguments(sales, "days.csv", *times)
    place = given.index("product,day")
    given[place : place + 1] = ["product", "--index", "day"]
    assert private_distances.main(given) == 0
    rows = sinks.read_comparisons(str(sales / "out"), "distance").to_pylist()
    found = {(row["first"], row["second"]): row["squared_distance"] for row in rows}
    assert found == {
        ("north 2024-05-31", "north 2024-06-01"): pytest.approx(1, abs=0.1),
        ("north 2024-05-31", "south 2024-06-01"): pytest.approx(4, abs=0.1),
        ("north 2024-06-01", "south 2024-06-01"): pytest.approx(1, abs=0.1),
    }


@pytest.mark.parametrize("change", [("--window", "a day", "--time", "day"), ("--window", "1d"), ("--delimiter", "::")])
def test_options_that_go_together_are_asked_for(sales: Path, change: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        private_distances.main([*arguments(sales), *change])
    assert caught.value.code == 2


def test_a_job_follows_an_agreement(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agreement = ss.Agreement(
        ss.SJLT(sketch_dim=256, sparsity=2, seed=3, resolution="0.25"),
        key="shop",
        index={"product": "text", "day": "integer"},
        value="paid",
        unit="product",
        neighbours=ss.L1(500, unit="product", max_keys=3),
    )
    agreement.save(sales / "sales.json")
    given = ["--agreement", str(sales / "sales.json"), "--epsilon", "1e6", "--public-key", "north,south,west/1"]
    for name in ("sales.csv", "sales.parquet"):
        where = ["--input", str(sales / name), "--output", str(sales / name.replace(".", "-"))]
        assert private_distances.main([*given, *where]) == 0
        released = ss.load(sales / name.replace(".", "-") / "sketches.parquet")
        assert (released.agreement, released.projection) == (agreement.fingerprint, agreement.projection)
        assert ss.squared_distance(released["north"], released["south"]).value == pytest.approx(3206.25, rel=1e-3)
    agreement.replace(neighbours=ss.L1(1, unit="product")).save(sales / "tight.json")
    given[1] = str(sales / "tight.json")
    assert private_distances.main([*given, *where, "--clip", "none"]) == 0
    released = ss.load(sales / "sales-parquet" / "sketches.parquet")
    assert ss.squared_distance(released["north"], released["south"]).value == pytest.approx(3206.25, rel=1e-3)
    given[1] = str(sales / "sales.json")
    capsys.readouterr()
    for wrong in (["--key", "shop"], ["--look-at-truth"], ["--l1", "1"], ["--max-keys", "1"], ["--seed", "2013"]):
        with pytest.raises(SystemExit):
            private_distances.main([*given, *where, *wrong])
        assert str(sales / "sales.json") in capsys.readouterr().err or wrong == ["--look-at-truth"]
    agreement.replace(unit=None).save(sales / "nobody.json")
    with pytest.raises(SystemExit):
        private_distances.main(["--agreement", str(sales / "nobody.json"), *given[2:], *where, "--clip", "cut"])
    assert "whose contributions are clipped" in capsys.readouterr().err
