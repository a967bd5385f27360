"""Optimizers: how the weights of a model are found."""
