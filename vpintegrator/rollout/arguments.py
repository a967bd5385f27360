"""Arguments of a comparison in groups: start, duration, measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic

TRAJECTORIES = 8  # unless told otherwise
_TANGENT_STEPS = 200


@dataclass(frozen=True)
class Start:
    """Initial states of the methods, and the reference that they are compared with.

    Attributes
    ----------
    initial
        Initial states, (trajectory, dim). The default is ``trajectories`` states drawn from the
        distribution that the system suggests.
    dataset
        A dataset, or its file; its first ``trajectories`` test trajectories give the initial
        states.
    reference
        States to compare with. ``"solution"`` is an accurate solution and needs the equations.
        ``"dataset"`` is the test trajectories of ``dataset``, or of the dataset of a model's
        training. An array (trajectory, time, dim) holds states at the time step of the comparison,
        for example measured ones, NaN where unknown. It also gives the initial states. The default
        is the dataset if one is given and the equations are not known, otherwise a solution.
    trajectories, seed
        Number of initial states, and the seed that they are drawn with.
    """

    initial: Any = None
    dataset: Any = None
    reference: Any = None
    trajectories: int = TRAJECTORIES
    seed: int = 0


@dataclass(frozen=True)
class Duration:
    """Length and steps of a comparison; every step is measured.

    Attributes
    ----------
    time, steps
        A time, rounded to whole steps, or a number of steps. The default is the length of the given
        reference, otherwise the ``time`` that the system suggests, otherwise 500 steps.
    step
        Time step; by default the step of the models' training, otherwise the step that the system
        suggests.
    every
        Steps between two states that are kept. By default 1, or as many as keep 10,000 times.
    reference_time
        Time at which the reference, and with it the errors of trajectories, end. The default is
        10,000 steps, because an accurate solution costs more than most methods.
    """

    time: float | None = None
    steps: int | None = None
    step: float | None = None
    every: int | None = None
    reference_time: float | None = None


@dataclass(frozen=True)
class Measures:
    """Measurements of a comparison.

    Attributes
    ----------
    threshold
        Error at which a method is taken to have failed; by default a tenth of the root mean square
        distance of the reference from its mean.
    section
        Poincare section: a component and its value, ``"q[0] = 0"`` passed upwards, ``"-q[0] = 0"``
        downwards; also as a tuple (component, value, direction); None for none. By default the one
        that the system file names, or the first component at 0 for Hamiltonian systems of two
        degrees of freedom.
    tangent_steps
        Number of steps over which phase-space volume and Lyapunov exponents are followed, for the
        first 8 trajectories; 0 for none.
    work_precision
        Whether to run every method at several steps too, for error against cost.
    diagnostics
        Own diagnostics, objects of :class:`~vpintegrator.rollout.diagnostics.Diagnostic`. They are
        measured, stored and tabulated beside those of the package.
    """

    threshold: float | None = None
    section: str | tuple[str, float, int] | None = "auto"
    tangent_steps: int = _TANGENT_STEPS
    work_precision: bool = False
    diagnostics: Sequence[Diagnostic] = ()

    def __post_init__(self) -> None:
        if self.threshold is not None and not (
            math.isfinite(self.threshold) and self.threshold > 0
        ):
            raise InputError(f"threshold = {self.threshold!r} must be a positive number")
        whole_number("tangent_steps", self.tangent_steps)
