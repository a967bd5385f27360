"""Multihead softmax attention in an exactly volume-preserving, reversible transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.models.arguments import Blocks, Matrices, Periods
from vpintegrator.models.components import Components
from vpintegrator.models.coupling_layers import coupling_refusal, couplings
from vpintegrator.models.model import Model
from vpintegrator.nn import AttentionCoupling, Composition
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.split import as_blocks


class VolumePreservingMultiheadTransformer(Model):
    r"""``depth`` units of couplings by multihead softmax attention and of pointwise couplings.

    The attention of the standard transformer, over the whole window and with several heads, as the
    function inside additive couplings: :math:`X_a \mapsto X_a + g(X_b)` for each block of
    components in turn. So the map of windows preserves volume exactly although softmax does not, it
    is explicitly invertible, and with reversing symmetries it is reversible.

    Parameters
    ----------
    dim
        Components of a state, at least 2.
    window
        Time steps read.
    prediction_window
        Time steps predicted, None for all of them.
    depth
        Number of units.
    width
        Hidden units of each coupling.
    functions
        Functions in the couplings: a hidden layer, or polynomials, see
        ``VolumePreservingFeedForward``.
    degree
        Degree of the polynomials, in all components together.
    expressions
        Functions of the state such as ``exp(z[0] - z[1])`` that polynomials take as further
        variables.
    attention_width
        Width of the attention, divisible by its heads.
    heads
        Heads of the attention.
    stiefel
        Whether the projections of the heads stay on the Stiefel manifold.
    split
        Components that a coupling updates in turn: each by itself ("coordinates"), the halves
        ("halves"), or blocks of indices.
    bases
        Bases of directions along which polynomials shear: the coordinates, and rotated ones.
    sweep
        Whether each unit updates all blocks once, or to and fro, as symmetric splitting methods do.
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
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If attention_width is not divisible by heads, or symmetries mix blocks of the split.

    References
    ----------
    New here; made of Vaswani et al., arXiv 1706.03762, and Dinh, Krueger, Bengio (NICE),
    arXiv 1410.8516.

    Examples
    --------
    >>> model = vp.models.VolumePreservingMultiheadTransformer(dim=4, window=3, depth=1, heads=2)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(model.inverse(model(Z)), Z))
    True
    """

    name = "vpmt"

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        return coupling_refusal(components, arguments)

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = 1,
        depth: int = 2,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        attention_width: int = 4,
        heads: int = 2,
        stiefel: bool = False,
        split: Blocks = "coordinates",
        bases: int = 1,
        sweep: Literal["forward", "symmetric"] = "forward",
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic)
        blocks = as_blocks(split, whole("dim", dim, 2))
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            layers.append(
                AttentionCoupling(
                    dim,
                    window,
                    width=attention_width,
                    heads=heads,
                    split=blocks,
                    symmetries=components.group,
                    stiefel=stiefel,
                    initial_scale=initial_scale,
                )
            )
            layers += couplings(
                components,
                functions=functions,
                width=width,
                degree=degree,
                expressions=expressions,
                split=split,
                bases=bases,
                sweep=sweep,
                activation=activation,
                initial_scale=initial_scale,
            )
        super().__init__(
            Composition(*layers),
            components,
            window=window,
            prediction_window=prediction_window,
            dtype=dtype,
        )
