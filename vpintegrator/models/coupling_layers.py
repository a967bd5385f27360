"""Layers of volume-preserving models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import Blocks
from vpintegrator.models.components import Components
from vpintegrator.nn import AdditiveCoupling, BasisCoupling, Rotated, spread_rotation
from vpintegrator.nn.basis import ONLY_SIGNED
from vpintegrator.nn.formulas import as_expressions
from vpintegrator.nn.split import as_blocks, mixing
from vpintegrator.nn.symmetry import is_diagonal, signed_permutations
from vpintegrator.nn.triangular import IdleComponents, TriangularFeedForward, idle_components


def couplings(
    components: Components,
    *,
    functions: str = "neurons",
    width: int = 16,
    degree: int = 6,
    expressions: Sequence[str] = (),
    split: Blocks = "coordinates",
    bases: int = 1,
    sweep: str = "forward",
    activation: str = "tanh",
    initial_scale: float = 1e-2,
) -> list[nn.Module]:
    """Return a unit of couplings by the functions asked for.

    One sweep over the blocks or, in several bases, over those of each; to and fro where sweeps are
    symmetric. A block at which a sweep turns is met once: two shears of it would be one.

    Parameters
    ----------
    components
        Components of a state.
    functions, width, degree, expressions, split, bases, sweep, activation, initial_scale
        Arguments of ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        If symmetries mix blocks of the split, or an argument is for other functions.
    """
    dim, expressions = components.moving, as_expressions(expressions)
    blocks = as_blocks(split, dim, components.read)
    forward = [*range(len(blocks))]
    back = sweep == "symmetric"

    def coupling(blocks: list[list[int]], order: list[int]) -> nn.Module:
        """Return a coupling by polynomials of blocks in the order of their updates."""
        return BasisCoupling(
            dim,
            degree,
            periodic=list(components.periods),
            cyclic=components.cyclic,
            parameters=components.read,
            vanishing=components.vanishing,
            expressions=expressions,
            split=blocks,
            sweep=order,
            symmetries=components.group,
            initial_scale=initial_scale / 10,
        )

    if functions == "neurons":
        check_neurons(components, expressions)
        if bases > 1 or back:
            raise InputError("bases and sweep are for functions = polynomial; neurons take neither")
        return [
            AdditiveCoupling(
                dim,
                width,
                split=blocks,
                parameters=components.read,
                vanishing=components.vanishing,
                symmetries=components.group,
                activation=activation,
                initial_scale=initial_scale,
            )
        ]
    if bases == 1:
        return [coupling(blocks, [*forward, *forward[-2:0:-1]] if back else forward)]
    if len(components.group) > 1:
        raise InputError(_ONE_SYMMETRY)
    aside = {*components.periods, *components.cyclic}
    turned = [index for index in range(dim) if index not in aside]
    if len(turned) < 2:
        raise InputError(
            f"bases = {bases}: there are not two components besides angles to be mixed; take 1"
        )
    alone = as_blocks("coordinates", dim)
    rotations = [spread_rotation(k, dim, turned) for k in range(bases)]
    last = [*turned, *turned[-2::-1]] if back else turned
    sweeps = [forward, *([turned] * (bases - 2)), last]
    unit = list(zip(rotations, sweeps, strict=True))
    if back:
        unit += [(Q, order[::-1]) for Q, order in unit[-2:0:-1]]
        unit += [(rotations[0], sweeps[0][:0:-1])]
    return [
        Rotated(coupling(alone, order), Q) if Q is not rotations[0] else coupling(blocks, order)
        for Q, order in unit
    ]


_ONE_SYMMETRY = (
    "shears in several bases respect one reversing symmetry, not more; give one, or bases = 1"
)


def coupling_refusal(components: Components, arguments: Mapping[str, Any]) -> str | None:
    """Return why volume-preserving layers cannot respect the symmetries, or None.

    Parameters
    ----------
    components
        Components with their symmetries.
    arguments
        Arguments of ``VolumePreservingFeedForward`` or a transformer, by name.
    """
    group = components.group
    if arguments.get("feed_forward") == "triangular":
        if idle := idle_components(group, components.dim):
            return idle_words(idle)
        if not is_diagonal(group):
            return (
                "triangular layers respect only symmetries that are diagonal matrices; use "
                "couplings with a split whose blocks the symmetries map to themselves"
            )
        return None
    polynomial = arguments["functions"] == "polynomial"
    if polynomial and arguments["bases"] > 1 and len(group) > 1:
        return _ONE_SYMMETRY
    blocks = as_blocks(arguments["split"], components.moving, components.read)
    if reason := mixing([*blocks, [*range(components.moving, group.shape[-1])]], group):
        return reason
    return ONLY_SIGNED if polynomial and signed_permutations(group) is None else None


def triangular(
    components: Components,
    *,
    blocks: int = 2,
    linear: int = 1,
    upper_first: bool = False,
    activation: str = "tanh",
    expressions: Sequence[str] = (),
) -> list[nn.Module]:
    """Return the published stack of triangular layers.

    Parameters
    ----------
    components, blocks, linear, upper_first, activation, expressions
        Arguments of ``VolumePreservingFeedForward``, and the components of a state.

    Raises
    ------
    InputError
        If some components are angles, or are not moved, or there are expressions or parameters.
    """
    if components.periods or len(expressions):
        raise InputError("periodic and expressions are for couplings; triangular layers take none")
    if components.read:
        raise InputError("parameters are for couplings; triangular layers read none")
    idle = idle_components(components.group, components.dim)
    if idle:
        # the stack level is that of the call that makes the model
        warnings.warn(idle_words(idle), IdleComponents, stacklevel=4)
    return [
        TriangularFeedForward(
            components.dim,
            blocks=blocks,
            linear=linear,
            upper_first=upper_first,
            activation=activation,
            symmetries=components.group,
        )
    ]


def idle_words(idle: list[int]) -> str:
    """Say which components triangular layers never move."""
    return (
        f"triangular layers that respect all of the reversing symmetries never move the "
        f'components {idle} (counted from 0); use couplings (feed_forward="coupling") or '
        "fewer reversing_symmetries"
    )


def check_neurons(components: Components, expressions: Sequence[str]) -> None:
    """Raise InputError if arguments of polynomials are given where functions are neurons."""
    if components.periods or len(expressions):
        raise InputError(
            "periodic and expressions are for functions = polynomial; neurons take neither"
        )


def polynomials(degree: int, expressions: Sequence[str] = (), most: int = 3) -> str:
    """Describe polynomials in words, with at most so many expressions."""
    what = f"polynomials of degree {degree}"
    shown = [*expressions[:most], *(["..."] if len(expressions) > most else [])]
    return f"{what} in the components and {', '.join(shown)}" if shown else what


def couplings_in_words(
    functions: str, degree: int, expressions: Sequence[str] = (), bases: int = 1
) -> str:
    """Describe the layers that :func:`couplings` makes."""
    if functions == "neurons":
        return "couplings"
    words = f"couplings of {polynomials(degree, expressions)}"
    return f"{words} in {bases} bases" if bases > 1 else words
