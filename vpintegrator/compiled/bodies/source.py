"""C++ source of loops over clusters of shears, and the tables that the loops read.

The source does not depend on the number of bodies: models of eight and of a thousand bodies share a
library. Units that differ only in their weights share a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from vpintegrator.compiled.bodies.cluster_function import ClusterFunction, cluster_function
from vpintegrator.compiled.bodies.kinds import Kind, choice, write_kind
from vpintegrator.compiled.bodies.shears import Shear, shears_of
from vpintegrator.compiled.bodies.tables import PlacedPotential, Tables
from vpintegrator.compiled.calling import REALS
from vpintegrator.compiled.source import header, prelude, translation_units

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_FEW = 6  # clusters of a shear up to which straight code is faster
_SHORT = 20_000  # operations that compile within seconds


@dataclass(frozen=True)
class LoopsSource:
    """C++ of loops over clusters, and the numbers of one model.

    Attributes
    ----------
    units
        The source, see ``rollout.h`` and ``adjoint.h``.
    constants
        Number of constants that ``constants`` computes from the weights.
    operations, backward
        Number of sums, products and the like in a step, and from derivatives back.
    functions
        Number of functions such as tanh in a step.
    values
        The weights.
    trained
        Places among the weights of the model's trained parameters, in the model's order.
    """

    units: list[str]
    constants: int
    operations: int
    backward: int
    functions: int
    values: np.ndarray
    trained: np.ndarray
    _shears: list[Shear]
    _potentials: list[int]
    _placed: list[PlacedPotential]
    _normalisation: tuple[np.ndarray, np.ndarray]

    @property
    def forward(self) -> int:
        """Number of operations in a step."""
        return self.operations

    def tables(self, lanes: int, narrow: bool = False) -> Tables:
        """Return the tables that the library reads, for vectors of ``lanes`` numbers."""
        dimension = max(_dimension(shear.potential) for shear in self._shears)
        return Tables(
            self._shears,
            self._potentials,
            self._placed,
            np.argsort(self.trained),
            self._normalisation,
            dimension=dimension,
            lanes=lanes,
            narrow=narrow,
        )


def _dimension(potential: nn.Module) -> int:
    """Return components of a body."""
    return getattr(getattr(potential, "features", None), "dimension", 1)


def loops_of(model: Integrator, derivatives: bool) -> LoopsSource | None:
    """Return the loops of a model, or None without clusters, or if straight code is faster.

    Parameters
    ----------
    model
        The model.
    derivatives
        Whether the source is for residuals and their derivatives; else it iterates the model.

    Raises
    ------
    NotCompilable
        If the function of a cluster uses operations that are not known, or is too large.
    """
    shears = shears_of(model)
    if shears is None:
        return None
    source = _loops(model, shears, derivatives)
    few = sum(len(shear.read) for shear in shears) < _FEW * len(shears)
    return None if few and source.operations + source.backward < _SHORT else source


def _loops(model: Integrator, shears: Sequence[Shear], derivatives: bool) -> LoopsSource:
    """Write the loops of a model that is made of some shears."""
    potentials: dict[int, int] = {}
    for shear in shears:
        potentials.setdefault(id(shear.potential), len(potentials))
    owners: dict[int, nn.Module] = {id(shear.potential): shear.potential for shear in shears}
    functions = [cluster_function(owner, not derivatives) for owner in owners.values()]
    kinds: dict[Any, tuple[int, Kind]] = {}
    placed: list[PlacedPotential] = []
    values: list[np.ndarray] = []
    weights = constants = first = 0
    for function in functions:
        key = function.kind
        if key not in kinds:
            kinds[key] = len(kinds), write_kind(function, len(kinds), derivatives)
        number, kind = kinds[key]
        trained = len(function.trained)
        sizes = (function.size, function.outputs, trained)
        placed.append(PlacedPotential(number, weights, constants, first, *sizes))
        values.append(function.values)
        weights += len(function.values)
        first += trained
        constants += kind.constants
    numbers = [potentials[id(shear.potential)] for shear in shears]
    written = [kind for _, kind in kinds.values()]
    used = [written[placed[number].kind] for number in numbers]
    of_shear = list(zip(used, [len(shear.read) for shear in shears], strict=True))
    together = np.concatenate(values)
    shift, scale = (
        numbers.numpy().astype(together.dtype) for numbers in (model.shift, model.scale)
    )
    return LoopsSource(
        _units(written, REALS[together.dtype], derivatives),
        constants,
        sum(kind.forward * count for kind, count in of_shear),
        sum(kind.backward * count for kind, count in of_shear),
        sum(kind.functions * count for kind, count in of_shear),
        together,
        _trained(model, functions, placed) if derivatives else np.empty(0, np.int64),
        list(shears),
        numbers,
        placed,
        (shift, scale),
    )


def _units(kinds: Sequence[Kind], real: str, derivatives: bool) -> list[str]:
    names = ["residuals.h", "bodies/adjoint.h"] if derivatives else ["bodies/rollout.h"]
    headers = [header(name) for name in ["bodies/shears.h", *names]]
    parts = [part for kind in kinds for part in kind.parts]
    frame = [*(kind.text for kind in kinds), choice(len(kinds)), *headers]
    return translation_units(prelude(real, narrow=False), parts, frame)


def _trained(
    model: Integrator, functions: Sequence[ClusterFunction], placed: Sequence[PlacedPotential]
) -> np.ndarray:
    """Return the places of a model's trained parameters among the weights of all functions."""
    found: dict[int, np.ndarray] = {}
    for function, place in zip(functions, placed, strict=True):
        start = 0
        for parameter in function.parameters:
            here = np.array(function.trained[start : start + parameter.numel()], np.int64)
            found[id(parameter)] = place.weights + here
            start += parameter.numel()
    own = [found[id(p)] for p in model.parameters() if p.requires_grad]
    return np.concatenate([np.empty(0, np.int64), *own])
