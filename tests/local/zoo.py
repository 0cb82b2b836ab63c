"""One of every mechanism, for laws that hold for all."""

from streamsketch.local import (
    SQKR,
    CompPrivUnitG,
    GaussianMechanism,
    Mechanism,
    PrivHS,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    RePrivHS,
)

DIM = 12


def zoo(dim: int = DIM, *, ball: bool = False) -> dict[str, Mechanism]:
    """Return mechanisms by name."""
    common = {"dim": dim, "epsilon": 4.0, "ball": ball}
    projected = common | {"sketch_dim": 6, "seed": 7}
    return {
        "PrivUnit": PrivUnit(**common),
        "PrivUnitG": PrivUnitG(**common),
        "PrivUnitG, float16": PrivUnitG(**common, precision="float16"),
        "ProjUnit, Hadamard": ProjUnit(**projected),
        "ProjUnit, Haar": ProjUnit(**projected, rotation="haar"),
        "ProjUnit, Gaussian": ProjUnit(**projected, rotation="gaussian"),
        "ProjUnit, shared Hadamard": ProjUnit(**projected, shared=True, precision="float16"),
        "ProjUnit, shared Haar": ProjUnit(**projected, rotation="haar", shared=True),
        "ProjUnit, Alg. 5": ProjUnit(**projected, rotation="haar", unbiased=True),
        "ProjUnit, Alg. 6": ProjUnit(**projected, shared=True, unbiased=True),
        "ProjUnit, compressed": ProjUnit(**projected, compressed=True),
        "ProjUnit, Alg. 6 compressed": ProjUnit(**projected, shared=True, unbiased=True, compressed=True),
        "CompPrivUnitG": CompPrivUnitG(**common, seed=7),
        "PrivHS": PrivHS(**common, seed=7),
        "RePrivHS": RePrivHS(**common, seed=7),
        "RePrivHS of nine": RePrivHS(**common, seed=7, repetitions=9),
        "SQKR": SQKR(**common, seed=7),
        "SQKR, Hadamard": SQKR(**common, seed=7, rotation="hadamard"),
        "Gaussian": GaussianMechanism(**common, delta=1e-6),
    }
