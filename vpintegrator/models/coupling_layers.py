"""Layers of volume-preserving models, from the arguments of a model."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn import AdditiveCoupling, BasisCoupling, Rotated, spread_rotation
from vpintegrator.nn.split import as_blocks
from vpintegrator.nn.triangular import IdleComponents, TriangularFeedForward, idle_components


def couplings(a: Any) -> list[nn.Module]:
    """Return a unit of couplings by the functions asked for, from ``CouplingArguments``.

    One sweep over the blocks or, in several bases, over those of each; to and fro where sweeps are
    symmetric. A block at which a sweep turns is met once: two shears of it would be one.
    """
    blocks = a.split_blocks
    back = a.sweep == "symmetric"
    there = [n for n, block in enumerate(blocks) if not {*block}.issubset(a.conserved)]
    if a.bases == 1:
        return [_coupling(a, blocks, [*there, *there[-2:0:-1]] if back else there)]
    if len(a.group) > 1:
        raise InputError(
            "shears in several bases respect one reversing symmetry, not more; give one, or "
            "bases = 1"
        )
    aside = {*a.periods, *a.cyclic, *a.conserved}
    turned = [index for index in range(a.dim) if index not in aside]
    if len(turned) < 2:
        raise InputError(
            f"bases = {a.bases}: there are not two components besides angles to be mixed; take 1"
        )
    alone = as_blocks("coordinates", a.dim)
    rotations = [spread_rotation(k, a.dim, turned) for k in range(a.bases)]
    last = [*turned, *turned[-2::-1]] if back else turned
    sweeps = [there, *([turned] * (a.bases - 2)), last]
    unit = list(zip(rotations, sweeps, strict=True))
    if back:
        unit += [(Q, sweep[::-1]) for Q, sweep in unit[-2:0:-1]] + [
            (rotations[0], sweeps[0][:0:-1])
        ]
    return [
        Rotated(_coupling(a, alone, sweep), Q)
        if Q is not rotations[0]
        else _coupling(a, blocks, sweep)
        for Q, sweep in unit
    ]


def _coupling(a: Any, blocks: list[list[int]], sweep: list[int]) -> nn.Module:
    if a.functions == "polynomial":
        return BasisCoupling(
            a.dim,
            a.degree,
            periodic=list(a.periods),
            cyclic=a.cyclic,
            scaling=a.scaling,
            expressions=a.expressions,
            split=blocks,
            sweep=sweep,
            symmetries=a.group,
            initial_scale=a.initial_scale / 10,
        )
    a.check_neurons("periodic", "expressions")
    a.check_neurons("bases", "sweep")
    return AdditiveCoupling(
        a.dim,
        a.width,
        split=a.moving_blocks,
        conserved=a.constants,
        scaling=a.scaling,
        symmetries=a.group,
        activation=a.activation,
        initial_scale=a.initial_scale,
    )


def feed_forward(a: Any) -> list[nn.Module]:
    """Return a unit of couplings, or the published stack, from ``TriangularArguments`` as well."""
    if a.feed_forward == "coupling":
        return couplings(a)
    if a.periods or a.expressions:
        raise InputError("periodic and expressions are for couplings; triangular layers take none")
    if a.conserved:
        raise InputError(
            "conserved components are for couplings; triangular layers move all components"
        )
    idle = idle_components(a.group, a.dim)
    if idle:
        warnings.warn(
            f"triangular layers that respect all of the reversing symmetries never move the "
            f'components {idle} (counted from 0); use couplings (feed_forward="coupling") or '
            "fewer reversing_symmetries",
            IdleComponents,
            stacklevel=6,  # the call that makes the model
        )
    return [
        TriangularFeedForward(
            a.dim,
            blocks=a.blocks,
            linear=a.linear,
            upper_first=a.upper_first,
            activation=a.activation,
            symmetries=a.group,
        )
    ]


def in_words(a: Any) -> str:
    """Return a description of the layers that ``feed_forward`` or ``coupling`` makes."""
    if getattr(a, "feed_forward", "coupling") != "coupling":
        return "triangular layers"
    if a.functions == "neurons":
        return "couplings"
    words = f"couplings of {a.polynomials}"
    return f"{words} in {a.bases} bases" if a.bases > 1 else words
