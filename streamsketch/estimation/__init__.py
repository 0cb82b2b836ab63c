"""What anyone computes from releases: distances, products, cosines and norms, with error bars."""
