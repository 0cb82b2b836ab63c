from . import carryless, matrices, slots
from .blake2b import digest_column, keyed_state
from .carryless import AVX512, TILE, Emitter, arrays, check_contiguous, emitter, hash_tile, multiply_add
from .hashing import MAX_KEY, WORD_BITS, BitSlices, Words, add_product, evaluate, field_elements, polynomials
from .lattice import LatticeGaussian, gaussian_entries, lattice_gaussian
from .matrices import aligned_zeros, largest_bits
from .permutation import Permutation, mix
from .pipeline import address, layout_of
from .popcount import COLUMNS, NO_COLUMN, PLACE_BITS, Counts, count_pairs, in_blocks, nearest_columns
from .slots import Places, Signs, add_dense, add_masses, add_to_cells, looked_up, seen
from .tiles import Adders, Bounds, adders, batch_bounds, scratch_size
from .vectors import VECTOR_BYTES, butterflies, transpose_tile
from .words import bytes_at, put_word

__all__ = [
    "AVX512",
    "COLUMNS",
    "MAX_KEY",
    "NO_COLUMN",
    "PLACE_BITS",
    "TILE",
    "VECTOR_BYTES",
    "WORD_BITS",
    "Adders",
    "BitSlices",
    "Bounds",
    "Counts",
    "Emitter",
    "LatticeGaussian",
    "Permutation",
    "Places",
    "Signs",
    "Words",
    "add_dense",
    "add_masses",
    "add_product",
    "add_to_cells",
    "adders",
    "address",
    "aligned_zeros",
    "arrays",
    "batch_bounds",
    "butterflies",
    "bytes_at",
    "carryless",
    "check_contiguous",
    "count_pairs",
    "digest_column",
    "emitter",
    "evaluate",
    "field_elements",
    "gaussian_entries",
    "hash_tile",
    "in_blocks",
    "keyed_state",
    "largest_bits",
    "lattice_gaussian",
    "layout_of",
    "looked_up",
    "matrices",
    "mix",
    "multiply_add",
    "nearest_columns",
    "polynomials",
    "put_word",
    "scratch_size",
    "seen",
    "slots",
    "transpose_tile",
]
