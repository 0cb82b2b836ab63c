"""Noise meets sketches: the making of what is published."""

from streamsketch.privacy import BitSource, Guarantee, Neighbours, Noise, SystemBits, calibration
from streamsketch.projections import Projection
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch
from streamsketch.release.sensitivity import guarantee_of, sensitivity_of
from streamsketch.sketching import Sketch


def planned(
    projection: Projection, epsilon: float, delta: float, neighbours: Neighbours, mechanism: calibration.Mechanism
) -> tuple[Noise, Guarantee]:
    """Return the noise of `Sketch.release` and its guarantee, without a draw; errors as there."""
    noise = calibration.choose(sensitivity_of(projection, neighbours), epsilon, delta, mechanism)
    return noise, guarantee_of(noise, epsilon, delta, neighbours)


def release_sketch(
    sketch: Sketch, epsilon: float, delta: float, neighbours: Neighbours, mechanism: calibration.Mechanism
) -> PrivateSketch:
    """Return ``sketch`` plus noise from the operating system's CSPRNG; see `Sketch.release`."""
    return add_noise(sketch, *planned(sketch.projection, epsilon, delta, neighbours, mechanism), SystemBits())


def add_noise(sketch: Sketch, noise: Noise, guarantee: Guarantee, bits: BitSource) -> PrivateSketch:
    """Return the cells of ``sketch`` plus ``noise`` drawn from ``bits``.

    The caller answers for ``guarantee``: the noise must be calibrated to it, and the bits secret and uniform.
    """
    projection = sketch.projection
    drawn = noise.sample(projection.sketch_dim, bits)
    # modulo 2^64, as all sums of cells: that costs accuracy past 2^63, and no privacy (THEORY.md 4.2)
    values = sketch.state + drawn
    release_id = bits.read(RELEASE_ID_BYTES)
    ids = sketch.data_ids.published()
    return PrivateSketch(projection, values, noise.cumulants, guarantee, release_ids=[release_id], data_ids=ids)
