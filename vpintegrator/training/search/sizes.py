"""Sizes of models that a search for functions tries: to begin with, and a step larger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, prolong
from vpintegrator.models.growth import freeze_attention, refine
from vpintegrator.nn.symmetry import symmetry_group
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training.initial_scheme import separable_blocks, start_as_splitting
from vpintegrator.training.search.options import Arguments, Make
from vpintegrator.training.training_data import TrainingData

MOST = 1_100  # parameters to end with, at most
_DEPTH = 2  # layers to begin with
FIRST = 500  # parameters to begin with, at most
_LARGEST_DEGREE = 30
_WIDEST = 256
# models initialised by a splitting: degrees, until the relative residual of the field is as small
_DEGREES, _FITTED = (1, 2, 3, 4, 6, 8, 10, 12), 1e-7
_ALIKE = 1.1  # ratio of errors that count as equal: the method's error hides the gain of a degree
_POOR = 0.1  # relative residual of the field beyond which splittings do not initialise models
# depths, of reversible stacks and others, for as many steps, and where that is too large for a few
_STAGES = ((4, 7), (2, 3))
_BASES = (1, 2, 3)
_LARGEST_SPLITTING = 700  # parameters
_OF_FAMILIES = 4  # additional degrees of maps of every step
_RICHER = 450  # parameters up to which one more degree is a good initialisation
_SECONDS = 4e-10  # seconds of an iteration, times the cube of the number of parameters
# iterations with the smallest errors of unstructured networks: in 60 s on rigid body, Henon-Heiles
# resnets err by 2.8e-8 and 6.0e-7, with half as many by 1.3e-7 and 2.8e-6; transformers of 447 and
# of 755 parameters err by 2.4e-6 and 2.0e-6 after 40 s
_ITERATIONS = 900


def smallest(make: Make, sizes: Arguments, functions: str = "polynomial") -> Integrator | None:
    """Return polynomials to begin with, of as high a degree as is cheap; None if none are.

    Parameters
    ----------
    make, sizes
        See :func:`vpintegrator.training.find_functions`.
    functions
        Functions of the model.

    Raises
    ------
    InputError
        If there are no polynomials of a degree that is given.
    """
    for degree in [sizes["degree"]] if "degree" in sizes else [4, 3, 2, 1]:
        arguments = {"functions": functions, "degree": degree}
        try:
            model = make(arguments | {"depth": sizes.get("depth", _DEPTH)})
        except InputError:  # too many terms, or none that the symmetries allow
            if "degree" in sizes and functions == "polynomial":
                raise
            continue
        # a map of each state alone solves the problem wherever states are complete, and
        # attention leads least squares to worse minima: it learns last, what is left
        freeze_attention(model)
        if count(model) <= FIRST or "degree" in sizes:
            return model
    return None


def splitting_of(
    make: Make,
    sizes: Arguments,
    functions: str,
    data: TrainingData,
    scheme: str,
) -> Integrator | None:
    """Return a model initialised by a splitting, of the lowest degree that fits the field.

    Where a component of the field depends on itself, shears along the coordinates are not enough:
    then those of more bases are tried. None where nothing comes near the field, or all is large.

    Raises
    ------
    InputError
        If a method is named and no stack is long enough for it.
    TimeIsUp
        If the time of the search is over.
    """
    if scheme == "none":
        return None
    found: tuple[float, Integrator] | None = None
    more: Integrator | None = None
    refusal: InputError | None = None
    for structure in _structures(make, sizes, data):
        least, stalled = math.inf, 0
        for degree in [sizes["degree"]] if "degree" in sizes else _DEGREES:
            check_time()
            own = {"functions": functions, "degree": degree, **structure}
            model = _of_stages(make, own | sizes)
            if model is None:
                continue
            data.normalise(model)
            try:
                beginning = start_as_splitting(model, data, scheme)
            except InputError as error:  # a named method needs more layers
                refusal = error
                break
            # a degree may add nothing that symmetries allow
            stalled = 0 if beginning.residual < least / 2 else stalled + 1
            if stalled > 1:
                break
            least = min(least, beginning.residual)
            # a better fit pays later, even if the method's own error hides it now
            if beginning.method and (found is None or beginning.error < _ALIKE * found[0]):
                found = beginning.error, model
            if least < _FITTED and found is not None:
                more = (
                    None
                    if "degree" in sizes
                    else _richer(make, own | sizes, data, scheme, found[0])
                )
                return found[1] if more is None else more
    if found is None and refusal is not None:
        raise refusal
    return found[1] if found is not None and least < _POOR else None


def _richer(
    make: Make, own: Arguments, data: TrainingData, scheme: str, error: float
) -> Integrator | None:
    """Return a splitting of more terms than follow the vector field, where they are cheap.

    Brackets of shears, of which the rest is made, have a higher degree than these: with a step as a
    component, by two.
    """
    degree = own["degree"]
    family = data.dataset.system.family is not None
    for higher in range(degree + (_OF_FAMILIES if family else 1), degree, -1):
        model = _of_stages(make, own | {"degree": higher})
        if model is None or count(model) > (FIRST if family else _RICHER):
            continue
        data.normalise(model)
        if start_as_splitting(model, data, scheme).error < _ALIKE * error:
            return model
    return None


def _of_stages(make: Make, own: Arguments) -> Integrator | None:
    """Return the model with layers for several steps of a method, or fewer if too large.

    None if this is too large as well, or cannot be made.
    """
    for reversible, irreversible in _STAGES:
        try:
            model = make({"depth": reversible} | own)
            if "depth" not in own and not len(model.reversing_symmetries):
                model = make({"depth": irreversible} | own)
        except InputError:  # too many terms, or none that the symmetries allow
            return None
        freeze_attention(model)
        if count(model) <= (_LARGEST_SPLITTING if reversible > 2 else MOST):
            return model
    return None


def _structures(make: Make, sizes: Arguments, data: TrainingData) -> Iterator[Arguments]:
    """Arguments of stacks whose shears may add up to the vector field, the fewest shears first."""
    try:
        plain = make({"functions": "polynomial", "degree": 1} | sizes)
    except InputError:
        plain = make(sizes)
    chosen = {"split", "sweep", "bases"} & sizes.keys()
    if chosen or not {"sweep", "bases"} <= plain.Arguments.declared().keys():
        yield {}
        return
    group = symmetry_group(plain.reversing_symmetries, plain.dim)
    system, states = data.dataset.system, torch.from_numpy(data.some_states())
    if plain.chart is not None:
        assert system.chart is not None
        system, states = system.chart.system, plain.chart(states)
    system, states = system.canonical, plain.network_order(states)
    blocks = separable_blocks(system, states.numpy(), group, plain.explicit_time)
    if blocks is not None:
        yield {"split": blocks, "sweep": "symmetric"}
        return
    for bases in _BASES:
        yield {"split": "coordinates", "sweep": "symmetric", "bases": bases}


def larger_ones(
    model: Integrator, make: Make, sizes: Arguments
) -> Iterator[tuple[str, Integrator]]:
    """Yield larger models with the size that grows; those in ``sizes`` are fixed."""
    degree, depth = (model.arguments[name] for name in ("degree", "depth"))
    deeper, higher = depth + max(1, depth // 2), degree + 2
    ways: dict[str, tuple[set[str], Callable[[], Integrator]]] = {
        "identity": ({"depth"}, lambda: prolong(model, depth=depth + 1)),
        "sampled anew": ({"depth"}, lambda: refine(model, deeper)),
        "degree": ({"degree"}, lambda: prolong(model, degree=higher)),
        "both": ({"depth", "degree"}, lambda: prolong(model, degree=higher, depth=depth + 1)),
    }
    for way, (changed, enlarged) in ways.items():
        if changed & sizes.keys() or ("degree" in changed and higher > _LARGEST_DEGREE):
            continue
        try:
            larger = enlarged()
        except InputError:  # too many terms
            continue
        freeze_attention(larger)
        if count(model) < count(larger) <= MOST:
            yield way, larger


def affordable(seconds: float, iterations: int) -> float:
    """Return the largest number of parameters with time for ``iterations`` iterations."""
    return (seconds / iterations / _SECONDS) ** (1 / 3)


def widest(make: Make, dim: int, seconds: float) -> int | None:
    """Return the width of the largest network without structure that there is time to train.

    Parameters
    ----------
    make
        Function that builds the untrained model of a ``width``.
    dim
        Number of components of a state, the smallest width.
    seconds
        Seconds of the training.

    Returns
    -------
    int or None
        Width, or None if there is no time for any network.
    """
    most, found = affordable(seconds, _ITERATIONS), None
    for width in range(dim, _WIDEST + 1):
        try:
            size = count(make({"width": width}))
        except InputError:  # such as a number of heads that does not divide it
            continue
        if found is not None and size > most:
            break
        found = width
    return found


def count(model: Integrator) -> int:
    """Return the number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def describe(model: Integrator) -> str:
    """Return the sizes of a model in words."""
    arguments = model.arguments
    what = arguments.get("functions", "neurons")
    if what != "neurons":
        what += f"s of degree {arguments['degree']}"
        if expressions := arguments.get("expressions"):
            what += f" with {len(expressions)} of the system's functions"
    depth = arguments.get("depth")
    return f"{what}, depth {depth}, {count(model)} parameters"
