"""Invented data have the faults of real ones, and are the same each time."""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.data import make_products, make_retail, make_sites, make_visits


def test_the_large_shop_is_as_described(tmp_path: Path) -> None:
    options = {"customers": 300, "months": 6, "items": 400}
    made = make_retail.shop(**options)
    assert made.equals(make_retail.shop(**options))
    assert not made.equals(make_retail.shop(**options, seed=1))
    assert pq.read_table(make_retail.write_shop(tmp_path, **options)).num_rows == made.num_rows
    small = pq.read_schema(Path(make_retail.__file__).parent / "retail_shops.parquet")
    assert made.column_names == small.names
    assert made["price"].type == small.field("price").type
    assert 0.05 < made["customer"].null_count / made.num_rows < 0.11
    quantity, months = made["quantity"].to_numpy(), made["time"].to_numpy().astype("datetime64[M]")
    assert 0.01 < (quantity < 0).mean() < 0.03
    assert sorted(quantity[np.abs(quantity) == make_retail.MISTAKE] > 0) == [False] * 3 + [True] * 3
    assert list(np.unique(months)) == list(np.arange("2024-01", "2024-07", dtype="datetime64[M]"))
    assert bool((np.diff(made["time"].to_numpy()) >= np.timedelta64(0)).all())
    lines = np.sort(pc.value_counts(made["customer"].drop_null()).field("counts").to_numpy())
    assert 30 < np.median(lines) < 120
    assert lines[-1] > 3 * np.quantile(lines, 0.9)


def test_visits_are_as_described(tmp_path: Path) -> None:
    made = make_visits.visits(patients=400)
    assert made.equals(make_visits.visits(patients=400))
    assert pq.read_table(make_visits.write_visits(tmp_path, patients=400)).num_rows == made.num_rows
    assert made.column_names == ["day", "patient", "clinic", "code"]
    assert 0.01 < made["patient"].null_count / made.num_rows < 0.05
    named = made.filter(made["patient"].is_valid())
    codes = named.select(["patient", "code"]).group_by("patient").aggregate([("code", "count_distinct")])
    assert 4 <= np.median(codes["code_count_distinct"]) <= 7
    places = named.group_by("patient").aggregate([("clinic", "count_distinct")])["clinic_count_distinct"].to_numpy()
    assert set(places) == {1, 2}
    assert set(made["clinic"].unique().to_pylist()) == set(make_visits.CLINICS)


def test_hospitals_are_as_described(tmp_path: Path) -> None:
    made = make_sites.sites(patients=4000)
    assert made.equals(make_sites.sites(patients=4000))
    assert not made.equals(make_sites.sites(patients=4000, seed=1))
    assert len(made["person_id"].unique()) == made.num_rows
    files = make_sites.write_sites(tmp_path, patients=4000)
    tables = {path.stem: pq.read_table(path) for path in files}
    assert list(tables) == list(make_sites.SITES)
    assert sum(table.num_rows for table in tables.values()) == made.num_rows
    assert 200 < len(made["diagnosis"].unique()) <= make_sites.CODES + 1  # and null
    assert 0 < (made["age"].to_numpy() == 999).sum() < 40
    for name, share in (("smoker", 0.06), ("creatinine", 0.04), ("glucose", 0.05), ("diagnosis", 0.02)):
        assert abs(made[name].null_count / made.num_rows - share) < 0.02
    middle = {name: [pc.quantile(table[of])[0].as_py() for of in ("age", "glucose")] for name, table in tables.items()}
    others = [name for name in tables if name != "west"]
    assert middle["west"][0] > max(middle[name][0] for name in others) + 10
    assert middle["east"][1] > 10 * max(middle[name][1] for name in tables if name != "east")
    in_mg = {name: pc.mean(pc.less(table["creatinine"], 10)).as_py() for name, table in tables.items()}
    assert 0.2 < in_mg.pop("harbour") < 0.4
    assert max(in_mg.values()) == 0


def test_visits_are_those_of_the_patients_of_the_hospitals(tmp_path: Path) -> None:
    made, people = make_sites.visits(patients=4000), make_sites.sites(patients=4000).to_pandas().set_index("person_id")
    assert made.equals(make_sites.visits(patients=4000))
    frame = made.to_pandas()
    many = frame.groupby("person_id").size()
    assert set(many.index) == set(people.index)
    assert 1.8 < many.mean() < 2.4
    assert many.max() > 5
    for name in ("site", "age", "sex", "smoker"):
        assert frame[name].astype(str).tolist() == people.loc[frame["person_id"], name].astype(str).tolist()
    older = people.loc[many.index, "age"] > 60
    assert many[older].mean() > many[~older].mean() + 0.5
    for name in ("systolic", "haemoglobin", "creatinine", "glucose"):
        means = frame.groupby("person_id")[name].mean()
        assert abs(means / people.loc[means.index, name] - 1).mean() < 0.1
        assert frame.groupby("person_id")[name].nunique().max() > 3
    assert frame.groupby("person_id")["diagnosis"].nunique().max() > 1
    assert str(frame["visited"].min()) >= "2027-01-01"
    files = make_sites.write_visits(tmp_path, patients=4000)
    assert [path.stem for path in files] == list(make_sites.SITES)
    assert sum(pq.read_table(path).num_rows for path in files) == made.num_rows


def test_shops_are_as_described() -> None:
    made = make_products.orders()
    assert made.equals(make_products.orders())
    assert not made.equals(make_products.orders(seed=1))
    products = pq.read_table(Path(make_products.__file__).parent / "products.parquet")
    assert products.drop(["embedding"]).equals(make_products.products())
    assert products["description"].combine_chunks().value_counts().field("counts").to_pylist() == [1] * 500
    rows = made.append_column("kind", products["kind"].take(made["product"])).to_pandas()
    assert (products["shop"].take(made["product"]).to_numpy() == rows["shop"]).all(), "each sells its own"
    assert rows.groupby("shop")["customer"].nunique().to_dict() == make_products.SHOPS
    share = rows.groupby("shop")["kind"].value_counts(normalize=True).unstack()
    assert (share.loc["ash"] - share.loc["birch"]).abs().max() < 0.03
    assert share.loc["cedar", "garden"] > 0.3
    assert share.loc["dale", "baby"] > 0.25
    months = rows[rows["shop"] == "elm"].groupby(rows["time"].astype(str).str[:7])["kind"]
    office = months.apply(lambda kinds: (kinds == "office").mean())
    assert list(office.index) == make_products.MONTHS
    late = office.index >= make_products.CHANGE
    assert office[late].min() > 0.4
    assert office[~late].max() < 0.1


def test_similar_products_have_similar_embeddings() -> None:
    products = pq.read_table(Path(make_products.__file__).parent / "products.parquet")
    vectors = np.array(products["embedding"].combine_chunks().flatten(), dtype=float).reshape(-1, 384)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kind = products["kind"].to_numpy()
    alike = vectors @ vectors.T - 2 * np.eye(len(vectors))
    assert (kind[alike.argmax(axis=1)] == kind).mean() > 0.95
