"""The library's noises, registered: in this order they are offered."""

from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import register

for _kind in (DiscreteLaplace, DiscreteGaussian):
    register(_kind)
