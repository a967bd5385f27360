"""Volume-preserving feed-forward network, its layers, and the leapfrog of windows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components, Functions
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Blocks, Matrices, Periods
from vpintegrator.nn import (
    AdditiveCoupling,
    BasisCoupling,
    Composition,
    LeapfrogLayer,
    Rotated,
    spread_rotation,
)
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.split import as_blocks
from vpintegrator.nn.triangular import IdleComponents, TriangularFeedForward, idle_components


class VolumePreservingFeedForward(Model):
    r"""A one-step map made of couplings, or of triangular layers as published.

    .. math:: \psi = F_L \circ \cdots \circ F_1, \qquad \det D\psi = 1

    Exactly volume-preserving and explicitly invertible; with reversing symmetries also reversible.
    ``published`` makes the network of the paper.

    Parameters
    ----------
    dim
        Components of a state, at least 2.
    depth
        Number of coupling sweeps, or of triangular stacks.
    width
        Hidden units of each coupling.
    functions
        Functions in the couplings: a hidden layer, see ``AdditiveCoupling``, or polynomials, see
        ``BasisCoupling``. Polynomials are far more accurate and cheaper where the flow is smooth
        and states stay where the model was trained; they run off elsewhere.
    degree
        Degree of the polynomials, in all components together.
    expressions
        Functions of the state such as ``exp(z[0] - z[1])`` that polynomials take as further
        variables.
    split
        Components that a coupling updates in turn: each by itself ("coordinates"), the halves
        ("halves"), or blocks of indices.
    bases
        Bases of directions along which polynomials shear: the coordinates, and as many rotated
        ones as make up this number, see ``Rotated``. For vector fields of which a component
        depends on itself.
    sweep
        Whether each unit updates all blocks once, or to and fro, as symmetric splitting methods do.
    feed_forward
        Sweeps of couplings, or the published stacks of triangular layers. Those only respect
        diagonal symmetries, and in few components little of them survives the average (of three,
        under all sign flips, one never moves, and a warning says so).
    blocks
        Blocks in a stack of triangular layers.
    linear
        Linear pairs in a block of triangular layers.
    upper_first
        Whether an upper triangular layer begins each pair.
    activation
        Activation of hidden layers.
    initial_scale
        Size of the initial weights of attention and of the outer weights of couplings.
    reversing_symmetries
        Matrices rho with f(rho z) = -rho f(z). The map is made reversible for each of them; layers
        are averaged over the group of their products, or commute with it.
    periodic
        Components that are angles, by number, with their periods. Polynomials have their sines and
        cosines in place of powers, the order of the harmonic counting as the degree.
    cyclic
        Components, by number, that polynomials do not depend on.
    conserved
        Last components, by number, that stay as they are, bit by bit, and that the others depend
        on.
    explicit_time
        Whether the last component is the time: every call moves it on by the same, and all else as
        one in which it stays what it is in the middle of the step.
    parameters
        Number of parameters of a family that all functions read, see ``Model``.
    vanishing
        Those of these parameters, from 0 on, at zero of which nothing moves, as at step zero.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that mix blocks of the split.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 3.2; Dinh et al., arXiv 1410.8516.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(
    ...     dim=2, depth=2, functions="polynomial", reversing_symmetries=[[[1, 0], [0, -1]]]
    ... )
    >>> z = torch.rand(1, 2, dtype=torch.float64)
    >>> round(torch.func.jacrev(model)(z).reshape(2, 2).det().item(), 12)
    1.0
    """

    name = "vpff"
    reads_equations = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 3,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        split: Blocks = "coordinates",
        bases: int = 1,
        sweep: Literal["forward", "symmetric"] = "forward",
        feed_forward: Literal["coupling", "triangular"] = "coupling",
        blocks: int = 2,
        linear: int = 1,
        upper_first: bool = False,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        read = conserved, explicit_time, parameters, vanishing
        components = Components(dim, reversing_symmetries, periodic, cyclic, *read)
        profile = Functions(functions, width, degree, expressions, activation, initial_scale)
        stack = (blocks, linear, upper_first) if feed_forward == "triangular" else None
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            layers += pointwise_layers(components, profile, split, bases, sweep, stack)
        super().__init__(Composition(*layers), components, dtype=dtype)

    @classmethod
    def published(cls, dim: int, *, dtype: str | torch.dtype = "float32") -> Self:
        """Make the network of arXiv 2312.11166: 135 parameters in three dimensions.

        It has six blocks of a linear and a nonlinear pair of triangular layers, and a linear pair
        at the end, with tanh, in single precision. The initial weights are small, so that the map
        starts near the identity; those of the paper are of size one.

        Parameters
        ----------
        dim
            Components of a state.
        dtype
            Type of the weights.

        Examples
        --------
        >>> model = vp.models.VolumePreservingFeedForward.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        135
        """
        return cls(dim, feed_forward="triangular", depth=1, blocks=6, dtype=dtype)


def pointwise_layers(
    components: Components,
    functions: Functions,
    split: Blocks,
    bases: int,
    sweep: str,
    stack: tuple[int, int, bool] | None = None,
) -> list[nn.Module]:
    """Return a unit of couplings by the functions asked for, or of triangular layers.

    One sweep over the blocks or, in several bases, over those of each; to and fro where sweeps are
    symmetric. A block at which a sweep turns is met once: two shears of it would be one.

    Parameters
    ----------
    components
        Components of a state.
    functions, split, bases, sweep
        Arguments of :class:`VolumePreservingFeedForward`.
    stack
        ``blocks``, ``linear`` and ``upper_first`` of the published stack of triangular layers.

    Raises
    ------
    InputError
        If symmetries mix blocks of the split, or an argument is for other layers.
    """
    if stack is not None:
        return [_triangular(components, functions, *stack)]
    dim = components.moving
    expressions = functions.formulas
    blocks = as_blocks(split, dim, components.read)
    forward = [*range(len(blocks))]
    back = sweep == "symmetric"
    shared: dict[str, Any] = {"symmetries": components.group, **components.of_parameters}
    functions.check(components, bases > 1, back)
    if functions.are_neurons:
        shared |= {"activation": functions.activation, "initial_scale": functions.initial_scale}
        return [AdditiveCoupling(dim, functions.width, split=blocks, **shared)]

    def coupling(blocks: list[list[int]], order: list[int]) -> nn.Module:
        """Return a coupling by polynomials of blocks in the order of their updates."""
        return BasisCoupling(
            dim,
            functions.degree,
            periodic=list(components.periods),
            cyclic=components.cyclic,
            expressions=expressions,
            split=blocks,
            sweep=order,
            initial_scale=functions.initial_scale / 10,
            **shared,
        )

    if bases == 1:
        return [coupling(blocks, [*forward, *forward[-2:0:-1]] if back else forward)]
    if len(components.group) > 1:
        raise InputError(
            "shears in several bases respect one reversing symmetry, not more; give one, or "
            "bases = 1"
        )
    turned = [i for i in range(dim) if i not in {*components.periods, *components.cyclic}]
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


def _triangular(
    components: Components, functions: Functions, blocks: int, linear: int, upper_first: bool
) -> TriangularFeedForward:
    """Return the published stack of triangular layers."""
    if components.periods or len(functions.expressions) or components.read:
        raise InputError(
            "periodic, expressions and parameters are for couplings; triangular layers take none"
        )
    if idle := idle_components(components.group, components.dim):
        warnings.warn(
            "triangular layers that respect all of the reversing symmetries never move the "
            f'components {idle} (counted from 0); use couplings (feed_forward="coupling") or '
            "fewer reversing_symmetries",
            IdleComponents,
            stacklevel=5,  # the call that makes the model
        )
    return TriangularFeedForward(
        components.dim,
        blocks=blocks,
        linear=linear,
        upper_first=upper_first,
        activation=functions.activation,
        symmetries=components.group,
    )


class LeapfrogMap(Model):
    r"""A polynomial leapfrog :math:`z_{T+1} = z_1 + f(z_2, \dots, z_T)` of windows.

    The map of windows preserves their volume for any polynomial f, and has an explicit inverse. The
    coefficients follow from windows by ridge regression: ``optimizer = "linear"``. The window is
    longer by one than what determines the next observation, as f does not read the oldest one. The
    penalty is the smallest one with which orbits stay near the training states.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read, at least 2; one step is predicted.
    degree
        Degree of the polynomials, in all components of all states together.
    periodic
        Components that are angles, by number, with their periods.
    dtype
        Type of the weights.

    Raises
    ------
    InputError
        If there are more than 2,000 coefficients for each component.

    Examples
    --------
    >>> model = vp.models.LeapfrogMap(dim=2, window=3, degree=3)
    >>> model.window, model.prediction_window, sum(p.numel() for p in model.parameters())
    (3, 1, 70)
    >>> print(model.structure.form, model.structure.space)
    volume windows
    """

    name = "window-leapfrog"
    linear_in_parameters = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        degree: int = 3,
        periodic: Periods = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, periodic=periodic)
        core = LeapfrogLayer(dim, degree, window=window, periodic=[*components.periods])
        super().__init__(core, components, window, 1, dtype=dtype)

    @property
    def shifts(self) -> bool:
        """Whether old states stay beside a map of windows: here the shift is part of the map."""
        return False

    def _shifted(self, window: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        kept = window[..., 1:, :].expand(*images.shape[:-2], -1, -1)  # free of rounding
        return torch.cat([kept, images[..., -1:, :]], -2)  # (..., window, dim)
