"""Architectures of this package by name."""

from __future__ import annotations

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """Module of an architecture, whose class is named like it, and a one-line description."""

    module: str
    description: str

    @property
    def class_name(self) -> str:
        return self.module.title().replace("_", "")


BUILT_IN = {
    "vpt": BuiltIn(
        "volume_preserving_transformer",
        "volume-preserving transformer: attention by rotations, then couplings",
    ),
    "vpff": BuiltIn(
        "volume_preserving_feed_forward",
        "volume-preserving feed-forward network: one step by couplings or triangular layers",
    ),
    "vpmt": BuiltIn(
        "volume_preserving_multihead_transformer",
        "volume-preserving multihead transformer: softmax attention inside couplings",
    ),
    "spff": BuiltIn(
        "symplectic_feed_forward",
        "symplectic feed-forward network: one step by gradient couplings; SympNets, HenonNets",
    ),
    "sgf": BuiltIn(
        "symplectic_generating_function_map",
        "symplectic map of a generating function: one step, trained by one linear solve",
    ),
    "vpgf": BuiltIn(
        "volume_preserving_generating_function_map",
        "volume-preserving map of generating functions: one step, trained by one linear solve",
    ),
    "linear": BuiltIn(
        "linear_map",
        "linear map: one step, by least squares",
    ),
    "polynomial": BuiltIn(
        "polynomial_map",
        "polynomial map: one step by ridge regression, no structure",
    ),
    "split": BuiltIn(
        "splitting_map",
        "learned splitting: exact flows of the parts of known equations, few coefficients",
    ),
    "classical": BuiltIn(
        "classical_integrator",
        "explicit classical method with substeps for known equations, nothing to train",
    ),
    "spt": BuiltIn(
        "symplectic_transformer",
        "symplectic transformer: symplectic attention over a window, then gradient couplings",
    ),
    "transformer": BuiltIn(
        "standard_transformer",
        "standard transformer: multihead attention and residual layers, no structure",
    ),
    "resnet": BuiltIn(
        "residual_network",
        "residual network: the plain baseline, no structure",
    ),
}
