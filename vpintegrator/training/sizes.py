"""Sizes of models that a search for functions tries: to begin with, and a step larger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, grown
from vpintegrator.models.growth import refined, rest_attention
from vpintegrator.training.splitting_start import begin_as_splitting
from vpintegrator.training.training_data import TrainingData

MOST = 1_100  # parameters to end with, at most
DEPTHS = (2, 3, 4)  # to begin with
_FIRST = 500  # parameters to begin with, at most
_LARGEST_DEGREE = 30
# of models that begin as a splitting: degrees until its vector field is that of the system so far
_DEGREES, _FITTED = (4, 6, 8, 10, 12), 1e-7
_STAGES = 3

Make = Callable[[dict[str, Any]], Integrator]


def smallest(
    make: Make, sizes: dict[str, Any], functions: str = "polynomial", depth: int = DEPTHS[0]
) -> Integrator | None:
    """Polynomials to begin with, of as high a degree as is cheap; None if none are.

    Parameters
    ----------
    make, sizes
        See :func:`vpintegrator.training.find_functions`.
    functions, depth
        What to make, the depth where ``sizes`` leave it open.

    Raises
    ------
    InputError
        If there are no polynomials of a degree that is given.
    """
    for degree in [sizes["degree"]] if "degree" in sizes else [4, 3, 2, 1]:
        arguments = {"functions": functions, "degree": degree}
        try:
            model = make(arguments | {"depth": sizes.get("depth", depth)})
        except InputError:  # too many terms, or none that the symmetries allow
            if "degree" in sizes and functions == "polynomial":
                raise
            continue
        if count(model) <= _FIRST or "degree" in sizes:
            # a map of each state alone solves the problem wherever states are complete, and
            # attention leads least squares to worse minima: it learns last, what is left
            rest_attention(model)
            return model
    return None


def begin(
    make: Make, sizes: dict[str, Any], functions: str, data: TrainingData
) -> Integrator | None:
    """A model to begin with: of bodies a splitting of the system, of as low a degree as is one.

    Else the smallest; parameters and errors as there.
    """
    first = smallest(make, sizes, functions)
    if first is None or "degree" in sizes or not first.bodies:
        return first  # as a whole a state has too many terms to begin with a high degree
    least = math.inf
    for degree in _DEGREES:
        own = {"functions": functions, "degree": degree, "depth": sizes.get("depth", _STAGES)}
        try:
            model = make(own)
        except InputError:  # too many terms
            break
        rest_attention(model)
        data.normalise(model)
        misfit = begin_as_splitting(model, data)
        if count(model) > _FIRST or not misfit < least / 2:
            break
        first, least = model, misfit
        if misfit < _FITTED:
            break
    return first


def larger_ones(
    model: Integrator, make: Make, sizes: dict[str, Any]
) -> Iterator[tuple[str, Integrator]]:
    """Models a step larger, by the way in which they are; ``sizes`` are those to leave as is."""
    degree, depth = (model.arguments[name] for name in ("degree", "depth"))
    deeper, higher = depth + max(1, depth // 2), degree + 2
    ways: dict[str, tuple[set[str], Callable[[], Integrator]]] = {
        "at rest": ({"depth"}, lambda: grown(model, depth=depth + 1)),
        "sampled anew": ({"depth"}, lambda: refined(model, deeper)),
        "degree": ({"degree"}, lambda: grown(model, degree=higher)),
        "both": ({"depth", "degree"}, lambda: grown(model, degree=higher, depth=depth + 1)),
    }
    for way, (changed, enlarged) in ways.items():
        if model.bodies and way != "both":
            continue
        if changed & sizes.keys() or ("degree" in changed and higher > _LARGEST_DEGREE):
            continue
        try:
            larger = enlarged()
        except InputError:  # too many terms
            continue
        rest_attention(larger)
        if count(model) < count(larger) <= MOST:
            yield way, larger
    if model.bodies and not sizes:
        # further steps of a splitting lead elsewhere than layers after the last
        own = {"degree": min(higher, _LARGEST_DEGREE), "depth": depth + 3}
        another = make({"functions": model.arguments["functions"]} | own)
        rest_attention(another)
        if count(another) <= MOST:
            yield "splitting", another


def count(model: Integrator) -> int:
    """Number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def describe(model: Integrator) -> str:
    """The sizes of a model in words."""
    arguments = model.arguments
    what = arguments.get("functions", "neurons")
    if what != "neurons":
        what += f"s of degree {arguments['degree']}"
        if expressions := arguments.get("expressions"):
            what += f" with {len(expressions)} of the system's functions"
    depth = arguments.get("depth")
    return f"{what}, depth {depth}, {count(model)} parameters"
