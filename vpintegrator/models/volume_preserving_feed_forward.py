"""The volume-preserving feed-forward network: a one-step map."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import checked_arguments
from vpintegrator.models.base import Integrator, as_periods
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.checks import one_of, positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.couplings import AdditiveCoupling
from vpintegrator.nn.formulas import as_expressions
from vpintegrator.nn.split import Blocks, as_argument
from vpintegrator.nn.symmetry import symmetry_group
from vpintegrator.nn.triangular import IdleComponents, TriangularFeedForward, idle_components

FEED_FORWARDS = ["coupling", "triangular"]
FUNCTIONS = ["neurons", "polynomial"]
_SHOWN = 3  # expressions in a description


def coupling_by_functions(
    functions: str,
    dim: int,
    *,
    width: int,
    degree: int,
    periodic: Any,
    expressions: Any,
    split: Blocks,
    symmetries: torch.Tensor,
    activation: str,
    initial_scale: float,
    taper: float | None,
    dtype: torch.dtype | str,
) -> nn.Module:
    """One sweep of couplings by the functions of this name."""
    periods, expressions = as_periods(periodic, dim), as_expressions(expressions)
    if one_of("functions", functions, FUNCTIONS) == "polynomial":
        return BasisCoupling(
            dim,
            degree,
            periodic=list(periods),
            expressions=expressions,
            split=split,
            symmetries=symmetries,
            initial_scale=initial_scale / 10,
            taper=taper,
            dtype=dtype,
        )
    if taper is not None:
        raise InputError("taper is for functions = polynomial; neurons do not run off")
    if periods or expressions:
        raise InputError(
            "periodic and expressions are for functions = polynomial; neurons take neither"
        )
    return AdditiveCoupling(
        dim,
        width,
        split=split,
        symmetries=symmetries,
        activation=activation,
        initial_scale=initial_scale,
        dtype=dtype,
    )


def volume_preserving_feed_forward(
    kind: str,
    dim: int,
    *,
    width: int,
    functions: str,
    degree: int,
    periodic: Any,
    expressions: Any,
    activation: str,
    blocks: int,
    linear: int,
    upper_first: bool,
    split: Blocks,
    symmetries: torch.Tensor,
    initial_scale: float,
    taper: float | None,
    dtype: torch.dtype | str,
) -> nn.Module:
    """One sweep of couplings, or the published stack of triangular layers."""
    if one_of("feed_forward", kind, FEED_FORWARDS) == "coupling":
        return coupling_by_functions(
            functions,
            dim,
            width=width,
            degree=degree,
            periodic=periodic,
            expressions=expressions,
            split=split,
            symmetries=symmetries,
            activation=activation,
            initial_scale=initial_scale,
            taper=taper,
            dtype=dtype,
        )
    if taper is not None:
        raise InputError("taper is for couplings; triangular layers do not run off")
    one_of("functions", functions, FUNCTIONS)
    if as_periods(periodic, dim) or as_expressions(expressions):
        raise InputError("periodic and expressions are for couplings; triangular layers take none")
    idle = idle_components(symmetries, dim)
    if idle:
        warnings.warn(
            f"triangular layers that respect all of the reversing symmetries never move the "
            f'components {idle} (counted from 0); use couplings (feed_forward="coupling") or '
            "fewer reversing_symmetries",
            IdleComponents,
            stacklevel=3,
        )
    return TriangularFeedForward(
        dim,
        blocks=blocks,
        linear=linear,
        upper_first=upper_first,
        activation=activation,
        symmetries=symmetries,
        dtype=dtype,
    )


def functions_as_arguments(functions: str, degree: int, expressions: Any) -> dict[str, Any]:
    """As they are stored; not at all for neurons, which is how earlier versions wrote models."""
    if functions == "neurons":
        return {}
    further = {"expressions": list(expressions)} if len(expressions) else {}
    return {"functions": functions, "degree": degree, **further}


def taper_as_argument(taper: float | None) -> dict[str, Any]:
    """As it is stored; not at all where there is none."""
    return {} if taper is None else {"taper": taper}


def feed_forward_words(kind: str, functions: str, degree: int, expressions: Any) -> str:
    """What ``volume_preserving_feed_forward`` makes, for descriptions."""
    if kind != "coupling":
        return "triangular layers"
    if functions == "neurons":
        return "couplings"
    what = f"couplings of {functions}s of degree {degree}"
    shown = [*expressions[:_SHOWN], *(["..."] if len(expressions) > _SHOWN else [])]
    return f"{what} in the components and {', '.join(shown)}" if shown else what


class VolumePreservingFeedForward(Integrator):
    """A one-step map made of couplings, or of triangular layers as published.

    Exactly volume-preserving and explicitly invertible; with reversing symmetries also reversible.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2.
    window, prediction_window : int
        1: the map takes one state to the next.
    depth : int
        Number of coupling sweeps, or of triangular stacks.
    width : int
        Hidden units of each coupling.
    functions : {"neurons", "polynomial"}
        What couplings are made of: a hidden layer, see ``AdditiveCoupling``, or polynomials, see
        ``BasisCoupling``. Polynomials are far more accurate and cheaper where the flow is smooth
        and states stay where the model was trained; they run off elsewhere.
    degree : int
        Of the polynomials, in all components together.
    periodic : mapping or sequence of (component, period)
        Components that are angles, by number: polynomials have their sines and cosines in place of
        powers, the order of the harmonic counting as the degree.
    expressions : sequence of str
        Functions of the state such as ``exp(z[0] - z[1])`` that polynomials take as further
        variables, see ``BasisCoupling``.
    feed_forward : {"coupling", "triangular"}
    blocks, linear, upper_first : int, int, bool
        For "triangular": blocks in a stack, linear pairs in a block, which layer begins each pair.
        The published network is depth = 1 with its ``n_blocks`` and ``n_linear`` here.
    split : "coordinates", "halves" or blocks of indices
        What a coupling updates in turn.
    activation : str
    reversing_symmetries : sequence of (dim, dim)
        Makes the map reversible for each of them; couplings are averaged over the group of
        their products. Triangular layers only respect diagonal matrices, and in few components
        little of them survives the average (of three, under all sign flips, one never moves, and
        a warning says so): use couplings where there are several.
    initial_scale : float
        Size of the initial outer weights of couplings.
    taper : float, optional
        Polynomials fade beyond so many standard deviations of the training states, see
        ``BasisCoupling``: far away the map is the identity, and still exact in what it keeps.
    shift, scale : (dim,), optional
        Normalisation, see ``Integrator``.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that mix blocks of the split.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 3.2; Dinh et al., arXiv 1410.8516.
    """

    name = "vpff"
    description = (
        "volume-preserving feed-forward network: one step by couplings or triangular layers"
    )

    @checked_arguments
    def __init__(
        self,
        *,
        dim: int,
        window: int = 1,
        prediction_window: int | None = None,
        depth: int = 3,
        width: int = 16,
        functions: str = "neurons",
        degree: int = 6,
        periodic: Any = (),
        expressions: Any = (),
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
        if window != 1:
            raise InputError(
                f"{type(self).__name__} is a one-step map: window must be 1, not {window!r}"
            )
        positive("dim", dim)
        group = symmetry_group(reversing_symmetries, dim)
        layers = [
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
            for _ in range(positive("depth", depth))
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
        self.description = (
            "volume-preserving feed-forward network: one step by "
            f"{feed_forward_words(feed_forward, functions, degree, expressions)}"
        )
