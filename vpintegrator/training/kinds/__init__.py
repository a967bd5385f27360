"""Kinds of maps that ``vp.fit`` tries, each in one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.stored import arguments_of
from vpintegrator.training.kinds.additive import AdditiveHamiltonians
from vpintegrator.training.kinds.couplings import Couplings
from vpintegrator.training.kinds.generating import GeneratingFunctions, Splittings
from vpintegrator.training.kinds.hidden import HiddenParameterMaps
from vpintegrator.training.kinds.invariants import KeptInvariants
from vpintegrator.training.kinds.kind import Kind, ModelKind
from vpintegrator.training.kinds.lagrangian import DiscreteLagrangians
from vpintegrator.training.kinds.unstructured import (
    Leapfrogs,
    LinearMaps,
    Network,
    PolynomialRegression,
    WidestNetwork,
)
from vpintegrator.training.options import TrainingOptions

KINDS: tuple[Kind, ...] = (
    LinearMaps(),
    Splittings(),
    GeneratingFunctions(form="symplectic", weighted=False),
    AdditiveHamiltonians(),
    GeneratingFunctions(form="volume", weighted=False),
    PolynomialRegression(),
    GeneratingFunctions(form="symplectic", weighted=True),
    GeneratingFunctions(form="volume", weighted=True),
    HiddenParameterMaps(),
    DiscreteLagrangians(),
    Couplings(form="symplectic"),
    Couplings(form="volume"),
    WidestNetwork(),
    KeptInvariants(),
)


def kinds_of_windows(window: int) -> tuple[Kind, ...]:
    """Return the kinds of maps that read windows of so many states."""
    lagrangians = [DiscreteLagrangians()] if window == DiscreteLagrangianMap.fixed_window else []
    return (
        *lagrangians,
        PolynomialRegression({"window": window}),
        HiddenParameterMaps({"window": window}),
        Leapfrogs({"window": window}),
        Couplings({"window": window}, architecture="vpt"),
        Network({"window": window}, architecture="transformer"),
    )


def regressions(window: int) -> tuple[Kind, ...]:
    """Return the quick solves by which windows of so many states are compared."""
    if window == 1:
        return LinearMaps(), PolynomialRegression()
    return (PolynomialRegression({"window": window}, coefficients=350),)


def search(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    reversible: bool | None = None,
    chart: bool | None = None,
    training: TrainingOptions | None = None,
) -> ModelKind:
    """Return the kind of map that searches the sizes of an architecture.

    Couplings and transformers of them grow in functions, degree and depth; generating functions and
    polynomials in degree, splittings in stages; networks are as wide as the time allows.

    Parameters
    ----------
    name
        Name of the architecture.
    arguments
        Arguments of the architecture that stay as they are, by name.
    reversible, chart
        Arguments of :func:`vpintegrator.models.build`.
    training
        How models that are trained by iterations are trained.

    Raises
    ------
    InputError
        If there is no such architecture, it has no such argument, nothing is left to search, or an
        option has no effect.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> result = vp.fit(dataset, [vp.training.search("sgf")])
    >>> [fit.size for fit in result.tried][:2]
    ['degree 2, 3 coefficients', 'degree 4, 8 coefficients']
    """
    of_kind("name", name, str, "the name of an architecture")
    arguments = dict(arguments or {})
    declared = arguments_of(ARCHITECTURES.find(name))
    if unknown := [key for key in arguments if key not in declared]:
        raise InputError(f"{name} has no argument {unknown[0]}; see vp-show {name}")
    fixed = (arguments, reversible, chart)
    solved: dict[str, ModelKind] = {
        "linear": LinearMaps(*fixed),
        "split": Splittings(*fixed),
        "sgf": GeneratingFunctions(*fixed, form="symplectic"),
        "vpgf": GeneratingFunctions(*fixed, form="volume"),
        "polynomial": PolynomialRegression(*fixed),
        "window-leapfrog": Leapfrogs(*fixed),
        "lagrangian": DiscreteLagrangians(*fixed),
        "hidden-parameter": HiddenParameterMaps(*fixed),
        "additive": AdditiveHamiltonians(*fixed),
    }
    if name in solved:
        if training is not None and training.changed:
            raise InputError(
                f"{name} is found by solves, on which {', '.join(training.changed)} has no effect; "
                "leave it out"
            )
        return solved[name]
    training = training or TrainingOptions()
    if {"functions", "degree", "depth"} <= declared.keys():
        if given := {"functions", "width", "activation"} & arguments.keys():
            raise InputError(
                f"a search of {name} chooses the functions; leave out {', '.join(sorted(given))}, "
                "or train the one model without a search"
            )
        if training.optimizer not in ("auto", "levenberg-marquardt"):
            raise InputError(
                f"a search of {name} trains by levenberg-marquardt, not by {training.optimizer}; "
                "train the one model without a search"
            )
        return Couplings(*fixed, architecture=name, training=training)
    if "width" not in declared or "width" in arguments:
        raise InputError(f"{name} has no sizes left to search; train it without a search")
    return WidestNetwork(*fixed, architecture=name, training=training)
