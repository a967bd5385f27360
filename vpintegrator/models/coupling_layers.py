"""Layers that volume-preserving models are made of, from the arguments of a model."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.couplings import AdditiveCoupling
from vpintegrator.nn.triangular import IdleComponents, TriangularFeedForward, idle_components


def coupling(a: Any) -> nn.Module:
    """One sweep of couplings by the functions asked for, from ``CouplingArguments``."""
    common = {"split": a.split, "symmetries": a.group}
    if a.functions == "polynomial":
        return BasisCoupling(
            a.dim,
            a.degree,
            periodic=list(a.periods),
            expressions=a.expressions,
            initial_scale=a.initial_scale / 10,
            taper=a.taper,
            **common,
        )
    if a.taper is not None:
        raise InputError("taper is for functions = polynomial; neurons do not run off")
    if a.periods or a.expressions:
        raise InputError(
            "periodic and expressions are for functions = polynomial; neurons take neither"
        )
    return AdditiveCoupling(
        a.dim, a.width, activation=a.activation, initial_scale=a.initial_scale, **common
    )


def feed_forward(a: Any) -> nn.Module:
    """One sweep of couplings, or the published stack, from ``TriangularArguments`` as well."""
    if a.feed_forward == "coupling":
        return coupling(a)
    if a.taper is not None:
        raise InputError("taper is for couplings; triangular layers do not run off")
    if a.periods or a.expressions:
        raise InputError("periodic and expressions are for couplings; triangular layers take none")
    idle = idle_components(a.group, a.dim)
    if idle:
        warnings.warn(
            f"triangular layers that respect all of the reversing symmetries never move the "
            f'components {idle} (counted from 0); use couplings (feed_forward="coupling") or '
            "fewer reversing_symmetries",
            IdleComponents,
            stacklevel=6,  # where the model is made
        )
    return TriangularFeedForward(
        a.dim,
        blocks=a.blocks,
        linear=a.linear,
        upper_first=a.upper_first,
        activation=a.activation,
        symmetries=a.group,
    )


def in_words(a: Any) -> str:
    """What ``feed_forward``, or ``coupling``, makes, for descriptions."""
    if getattr(a, "feed_forward", "coupling") != "coupling":
        return "triangular layers"
    if a.functions == "neurons":
        return "couplings"
    return f"couplings of {a.polynomials}"
