"""Multihead softmax attention in an exactly volume-preserving, reversible transformer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.models.arguments import checked_arguments
from vpintegrator.models.base import Integrator
from vpintegrator.models.volume_preserving_feed_forward import (
    coupling_by_functions,
    feed_forward_words,
    functions_as_arguments,
    taper_as_argument,
)
from vpintegrator.nn.attention_coupling import AttentionCoupling
from vpintegrator.nn.checks import positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.split import Blocks, as_argument
from vpintegrator.nn.symmetry import symmetry_group


class VolumePreservingMultiheadTransformer(Integrator):
    """``depth`` units of couplings by multihead softmax attention and of pointwise couplings.

    The attention of the standard transformer, over the whole window and with several heads, as the
    function inside additive couplings: X_a -> X_a + g(X_b) for each block of components in turn. So
    the map of windows preserves volume exactly although softmax does not, it is explicitly
    invertible, and with reversing symmetries it is reversible.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2.
    window, prediction_window : int
        Time steps read and predicted (window by default).
    depth : int
        Number of units.
    width : int
        Hidden units of the pointwise couplings.
    functions : {"neurons", "polynomial"}
        What the pointwise couplings are made of, see ``VolumePreservingFeedForward``.
    degree : int
        Of the polynomials.
    periodic : mapping or sequence of (component, period)
        Components that are angles, for the pointwise couplings, see
        ``VolumePreservingFeedForward``.
    expressions : sequence of str
        Further variables of the polynomials, see ``VolumePreservingFeedForward``.
    attention_width, heads : int
        Width of the attention and its heads; the width must be divisible by the heads.
    split : "coordinates", "halves" or blocks of indices
        What couplings update in turn.
    stiefel : bool
        Keep the projections of the heads on the Stiefel manifold.
    activation : str
        Of the pointwise couplings.
    reversing_symmetries : sequence of (dim, dim)
        Makes the map reversible for each of them; couplings are averaged over the group of
        their products.
    initial_scale : float
        Size of the initial outer weights of couplings.
    taper : float, optional
        Polynomials fade beyond so many standard deviations, see ``VolumePreservingFeedForward``.
    shift, scale : (dim,), optional
        Normalisation, see ``Integrator``.

    Raises
    ------
    InputError
        If attention_width is not divisible by heads, or symmetries mix blocks of the split.

    References
    ----------
    New here; made of Vaswani et al., arXiv 1706.03762, and Dinh, Krueger, Bengio (NICE),
    arXiv 1410.8516.
    """

    name = "vpmt"
    description = "volume-preserving multihead transformer: softmax attention inside couplings"

    @checked_arguments
    def __init__(
        self,
        *,
        dim: int,
        window: int = 3,
        prediction_window: int | None = None,
        depth: int = 2,
        width: int = 16,
        functions: str = "neurons",
        degree: int = 6,
        periodic: Any = (),
        expressions: Any = (),
        attention_width: int = 8,
        heads: int = 2,
        split: Blocks = "coordinates",
        stiefel: bool = False,
        activation: str = "tanh",
        reversing_symmetries: Any = (),
        initial_scale: float = 1e-2,
        taper: float | None = None,
        shift: Any = None,
        scale: Any = None,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        positive("dim", dim, 2)
        positive("window", window)
        group = symmetry_group(reversing_symmetries, dim)
        layers: list[nn.Module] = []
        for _ in range(positive("depth", depth)):
            layers += [
                AttentionCoupling(
                    dim,
                    window,
                    width=attention_width,
                    heads=heads,
                    split=split,
                    symmetries=group,
                    stiefel=stiefel,
                    initial_scale=initial_scale,
                    dtype=dtype,
                ),
                coupling_by_functions(
                    functions,
                    dim,
                    width=width,
                    degree=degree,
                    periodic=periodic,
                    expressions=expressions,
                    split=split,
                    symmetries=group,
                    activation=activation,
                    initial_scale=initial_scale,
                    taper=taper,
                    dtype=dtype,
                ),
            ]
        super().__init__(
            Composition(*layers),
            dim=dim,
            window=window,
            prediction_window=prediction_window,
            arguments={
                "depth": depth,
                "width": width,
                **functions_as_arguments(functions, degree, expressions),
                "attention_width": attention_width,
                "heads": heads,
                "split": as_argument(split, dim),
                "stiefel": stiefel,
                "activation": activation,
                "initial_scale": initial_scale,
                **taper_as_argument(taper),
            },
            reversing_symmetries=reversing_symmetries,
            periodic=periodic,
            shift=shift,
            scale=scale,
            dtype=dtype,
        )
        if functions != "neurons":
            words = feed_forward_words("coupling", functions, degree, expressions)
            self.description = f"{type(self).description}, and {words}"
