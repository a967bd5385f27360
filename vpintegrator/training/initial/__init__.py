"""Initial weights: classical splitting methods, and the best of random starts."""
