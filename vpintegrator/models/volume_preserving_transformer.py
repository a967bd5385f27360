"""The volume-preserving transformer: attention by rotations, then a volume-preserving network."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import checked_arguments
from vpintegrator.models.base import Integrator
from vpintegrator.models.volume_preserving_feed_forward import (
    feed_forward_words,
    functions_as_arguments,
    taper_as_argument,
    volume_preserving_feed_forward,
)
from vpintegrator.nn.attention import CoupledAttention, VolumePreservingAttention
from vpintegrator.nn.checks import one_of, positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.split import Blocks, as_argument
from vpintegrator.nn.symmetry import invariant_count, symmetry_group
from vpintegrator.nn.time_mixing import TimeMixing


class VolumePreservingTransformer(Integrator):
    """``depth`` units of volume-preserving attention and a volume-preserving feed-forward network.

    With the skew and the coupled weighting the map of windows is exactly volume-preserving and
    explicitly invertible; with reversing symmetries it is also reversible. With the arbitrary
    weighting (as published) it is none of these, and ``volume_preserving`` says so.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2.
    window, prediction_window : int
        Time steps read (at least 2) and predicted, None for all of them. One by default: predicting
        whole windows makes of an orbit as many interleaved ones, which drift apart.
    depth : int
        Number of units.
    width : int
        Hidden units of each coupling.
    functions : {"neurons", "polynomial"}
        What couplings are made of, see ``VolumePreservingFeedForward``.
    degree : int
        Of the polynomials.
    periodic : mapping or sequence of (component, period)
        Components that are angles, for the couplings, see ``VolumePreservingFeedForward``.
    expressions : sequence of str
        Further variables of the polynomials, see ``VolumePreservingFeedForward``.
    weighting : {"auto", "skew", "coupled", "arbitrary"}
        The attention: ``VolumePreservingAttention`` with that weighting, or ``CoupledAttention``.
        "auto" is "skew", or "coupled" where several reversing symmetries leave no skew weighting
        but zero (the sign flips of the rigid body). The attribute ``weighting``, the arguments and
        the description say which it is.
    attention_scale : float, optional
        Factor of the correlations, for "skew" and "arbitrary"; 1 by default.
    features : int
        For "coupled": nonlinear features in the correlations, 0 for the components themselves.
    time_mixing : bool
        Also mix the time steps by a constant rotation in each unit.
    feed_forward : {"coupling", "triangular"}
    blocks, linear, upper_first : int, int, bool
        For "triangular": blocks in a stack, linear pairs in a block, which layer begins each pair.
        The published transformer is weighting = "arbitrary", attention_scale = 1/sqrt(dim),
        depth = 3, blocks = 2, linear = 1.
    split : "coordinates", "halves" or blocks of indices
        What couplings update in turn.
    activation : str
    reversing_symmetries : sequence of (dim, dim)
        Makes the map reversible for each of them; attention and couplings commute with the group
        of their products.
    initial_scale : float
        Size of the initial weights of attention and of the outer weights of couplings.
    taper : float, optional
        Polynomials fade beyond so many standard deviations, see ``VolumePreservingFeedForward``.
    shift, scale : (dim,), optional
        Normalisation, see ``Integrator``.

    Raises
    ------
    InputError
        For sizes that do not fit, symmetries that mix blocks of the split, reversing symmetries
        with the arbitrary weighting, or the skew weighting where they leave only zero.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time series data
    with structure, arXiv 2312.11166.
    """

    name = "vpt"
    description = "volume-preserving transformer: attention by rotations, then couplings"

    @checked_arguments
    def __init__(
        self,
        *,
        dim: int,
        window: int = 3,
        prediction_window: int | None = 1,
        depth: int = 2,
        width: int = 16,
        functions: str = "neurons",
        degree: int = 6,
        periodic: Any = (),
        expressions: Any = (),
        weighting: str = "auto",
        attention_scale: float | None = None,
        features: int = 0,
        time_mixing: bool = False,
        feed_forward: str = "coupling",
        blocks: int = 2,
        linear: int = 1,
        upper_first: bool = False,
        split: Blocks = "coordinates",
        activation: str = "tanh",
        reversing_symmetries: Any = (),
        initial_scale: float = 1e-2,
        taper: float | None = None,
        shift: Any = None,
        scale: Any = None,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        positive("dim", dim, 2)
        positive("window", window, 2)
        group = symmetry_group(reversing_symmetries, dim)
        one_of("weighting", weighting, ["auto", "skew", "coupled", "arbitrary"])
        if weighting == "arbitrary" and len(reversing_symmetries):
            raise InputError(
                'weighting = "arbitrary" has no explicit inverse, so it cannot be made reversible; '
                "use skew or coupled, or no reversing_symmetries"
            )
        if weighting in ("auto", "skew") and not skew_weighting_exists(group):
            if weighting == "skew":
                raise InputError(
                    'weighting = "skew": the reversing symmetries leave no skew weighting but '
                    'zero; use "coupled" (or "auto", which chooses it), or fewer '
                    "reversing_symmetries"
                )
            weighting = "coupled"
        self.weighting = "skew" if weighting == "auto" else weighting

        def attention() -> nn.Module:
            if self.weighting == "coupled":
                return CoupledAttention(
                    dim,
                    window,
                    features=features,
                    split=split,
                    symmetries=group,
                    initial_scale=initial_scale,
                    dtype=dtype,
                )
            return VolumePreservingAttention(
                dim,
                self.weighting,
                scale=attention_scale,
                symmetries=group,
                initial_scale=initial_scale,
                dtype=dtype,
            )

        layers: list[nn.Module] = []
        for _ in range(positive("depth", depth)):
            layers.append(attention())
            if time_mixing:
                layers.append(TimeMixing(window, initial_scale=initial_scale, dtype=dtype))
            layers.append(
                volume_preserving_feed_forward(
                    feed_forward,
                    dim,
                    width=width,
                    functions=functions,
                    degree=degree,
                    periodic=periodic,
                    expressions=expressions,
                    activation=activation,
                    blocks=blocks,
                    linear=linear,
                    upper_first=upper_first,
                    split=split,
                    symmetries=group,
                    initial_scale=initial_scale,
                    taper=taper,
                    dtype=dtype,
                )
            )
        super().__init__(
            Composition(*layers),
            dim=dim,
            window=window,
            prediction_window=prediction_window,
            arguments={
                "depth": depth,
                "width": width,
                **functions_as_arguments(functions, degree, expressions),
                "weighting": self.weighting,
                "attention_scale": attention_scale,
                "features": features,
                "time_mixing": time_mixing,
                "feed_forward": feed_forward,
                "blocks": blocks,
                "linear": linear,
                "upper_first": upper_first,
                "split": as_argument(split, dim),
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
        kind = f"{self.weighting} weighting"
        if not self.volume_preserving:
            kind += ", which does not preserve volume"
        others = feed_forward_words(feed_forward, functions, degree, expressions)
        self.description = (
            f"volume-preserving transformer: attention by rotations ({kind}), then {others}"
        )

    @classmethod
    def arguments_of_file(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """In files of earlier versions "skew" stands for "auto"."""
        if arguments.get("weighting") == "skew":
            group = symmetry_group(arguments.get("reversing_symmetries", ()), arguments["dim"])
            if not skew_weighting_exists(group):
                return arguments | {"weighting": "coupled"}
        return arguments

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, weighting={self.weighting!r}"


def skew_weighting_exists(group: torch.Tensor) -> bool:
    """Whether some skew matrix other than zero is invariant under a group (element, dim, dim)."""
    return len(group) == 1 or invariant_count("skew", group) > 0
