"""Classical methods: what they are, and the map of a method with its system and step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, final
from weakref import WeakKeyDictionary

import numpy as np

from vpintegrator.arguments import real_array, whole
from vpintegrator.dynamics import Structure, System
from vpintegrator.errors import InputError
from vpintegrator.maps.map import DIFFERENCES, Map, OpenParameters, Parameters, Values
from vpintegrator.runtime.interrupts import check_time

if TYPE_CHECKING:
    from torch import Tensor

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ClassicalMethod(ABC):
    r"""A numerical method for systems :math:`\dot z = f(z)`, sampled at a fixed step.

    If equations depend on time, the time is a component of z with the rate 1. A Runge-Kutta method
    evaluates the field at the times :math:`t + c_i h` then, as :math:`c_i = \sum_j a_{ij}`.

    A method holds its coefficients and no state, so one instance serves every system.

    Attributes
    ----------
    name
        Name on the command line, such as ``implicit-midpoint``.
    title
        Name in tables and figures.
    order
        Order of convergence; of an adaptive method, the highest order of its formulas.
    form
        ``"symplectic"`` if the map :math:`\Phi_h` of a step is symplectic for every Hamiltonian
        system the method applies to; ``"volume"`` if :math:`\det D\Phi_h = 1` for every
        divergence-free system; ``"none"``.
    symmetric
        Whether :math:`\Phi_{-h}` is the inverse of :math:`\Phi_h`.
    source
        Paper or book, with the equation or section.
    """

    needs_formulas: ClassVar[bool] = False  # and not values of the field alone

    name: str
    title: str
    order: int
    form: Literal["symplectic", "volume", "none"] = "none"
    symmetric: bool = False
    source: str

    @final
    def require(self, system: System) -> None:
        """Say why the method cannot run on a system, if it cannot.

        Raises
        ------
        InputError
            If the system has no vector field, or no formulas where the method needs them, or the
            method does not apply.
        """
        system.require_vector_field(self.name)
        if self.needs_formulas:
            system.require_formulas(self.name)
        self.check(system)

    def check(self, system: System) -> None:  # noqa: B027 (most methods apply to every system)
        """Say why the method does not apply to a system, if it does not.

        Raises
        ------
        InputError
            If it does not.
        """

    def structure(self, system: System) -> Structure:
        """Return the structure that the method keeps of a system it applies to.

        In the plane a divergence-free field is Hamiltonian, and a map that preserves area is
        symplectic. A symmetric method keeps the reversing symmetries that map each of its
        :meth:`blocks` to itself.
        """
        plane = system.phase_dim == 2 and system.divergence_free
        form = "volume" if self.form == "volume" and system.divergence_free else "none"
        if self._is_symplectic(system) or (plane and self.form != "none"):
            form = "symplectic"
        blocks = self.blocks(system) if self.symmetric else ()
        rhos = [
            rho
            for rho in system.reversing_symmetries
            if self.symmetric and not any(np.delete(rho[block], block, 1).any() for block in blocks)
        ]
        pairs = zip(*system.equations.halves, strict=True) if form == "symplectic" else ()
        return Structure.of(form, rhos, periods=system.periods, pairs=pairs)

    def _is_symplectic(self, system: System) -> bool:
        return self.form == "symplectic" and system.is_canonical

    def blocks(self, system: System) -> Sequence[list[int]]:
        """Return components that the method treats alike: it commutes with their linear maps."""
        return [list(range(system.dim))]

    def evaluations(self, system: System) -> float | None:
        """Return the evaluations of the vector field in a step; None if they depend on the state.

        A method that evaluates single components counts each as one part in all of them. Other
        evaluations, such as those of the Jacobian matrix, are not counted; nor is the rate of a
        time component.
        """
        return None

    def is_same_map(self, other: ClassicalMethod) -> bool:
        """Whether the two differ by no more than their names."""
        renamed = replace(other, name=self.name, title=self.title, source=self.source)
        return renamed == self

    def at_tolerance(self, tolerance: float, name: str) -> ClassicalMethod:
        """Return the method at another tolerance, with another name, if the method has one.

        Raises
        ------
        InputError
            If it has none, or not this one.
        """
        raise InputError(
            f"{name}: {self.name} has a fixed step and no tolerance; adaptive methods have one, "
            "such as dop853"
        )

    @abstractmethod
    def iterate(
        self, system: System, initial: np.ndarray, step: float, parameters: Values = ()
    ) -> Iterator[np.ndarray]:
        """Yield states (trajectory, dim) after one step after another, without end.

        A trajectory that is no longer finite is NaN from there on. ``parameters`` are the values of
        open parameters of the system, one by one: numbers, or arrays (trajectory,).
        """


@dataclass(frozen=True, kw_only=True)
class OneStepMethod(ClassicalMethod):
    r"""A method that is a map :math:`z \mapsto \Phi_h(z)`, the same at every step."""

    @abstractmethod
    def increment(self, system: System, state: Any, step: float, parameters: Values = ()) -> Any:
        r"""Return the increment of states in a step as a new array (dim, trajectory).

        The increment is :math:`\Phi_h(z) - z` for states z (dim, trajectory), arrays or tensors.
        Tensors are differentiable, so operations in place change only new sums.

        The components come first, because NumPy is fastest on long rows. The method returns the
        increment rather than the new state, so that the sum can be compensated for rounding. A
        trajectory whose step cannot be computed gets NaN. Each trajectory must be computed by
        itself, to the last bit. So use elementwise operations. Sum in an order that does not depend
        on the number of trajectories: no product of matrices with the trajectories as one
        dimension.
        """

    def derivative(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        r"""Return :math:`D\Phi_h(z)`, (trajectory, dim, dim), exact up to rounding.

        By default PyTorch differentiates :meth:`increment`, which takes tensors then. The methods
        of the package need no tensors: the system's own Jacobian goes through the same formulas as
        the vector field does (the method applied to the variational equation).

        Raises
        ------
        InputError
            By default, if the system is a function of NumPy.
        """
        import torch

        values = [torch.from_numpy(np.array(value, dtype=np.float64)) for value in parameters]
        rows = torch.from_numpy(np.array(state.T, dtype=np.float64))  # (dim, trajectory)

        def total(rows: Tensor) -> Tensor:  # each trajectory is computed by itself
            return self.increment(system, rows, step, values).sum(-1)

        slopes = torch.func.jacrev(total)(rows).movedim(-1, 0)  # (trajectory, dim, dim)
        return np.eye(system.dim) + slopes.numpy()

    def step(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        r"""Return :math:`\Phi_h(z)` for states (..., dim); NaN where the step fails."""
        state = real_array("state", state, None)
        components = np.array(state.reshape(-1, system.dim).T, order="C")
        with np.errstate(all="ignore"):
            components += self.increment(system, components, step, parameters)
        return np.ascontiguousarray(components.T).reshape(state.shape)

    @final
    def iterate(
        self, system: System, initial: np.ndarray, step: float, parameters: Values = ()
    ) -> Iterator[np.ndarray]:
        """Yield z, Phi_h(z), Phi_h(Phi_h(z)), ... but for the first.

        The increments are added up by compensated summation, so that rounding errors grow like
        those of a single addition per step (Hairer, Lubich, Wanner, Geometric Numerical
        Integration, section VIII.5; Hairer, McLachlan, Razakarivony, BIT 48 (2008) 231-243).
        Trajectories that are no longer finite cost nothing any more.
        """
        state = np.array(real_array("initial", initial, None).T, order="C")  # (dim, trajectory)
        carry = np.zeros_like(state)
        alive = np.isfinite(state).all(axis=0)
        state[:, ~alive] = np.nan
        while True:
            check_time()
            if alive.all():
                state, carry = self._summed(system, state, carry, step, parameters)
            elif alive.any():
                some = np.compress(alive, state, axis=1), np.compress(alive, carry, axis=1)
                values = [p[alive] if np.ndim(p) else p for p in parameters]
                state = np.full_like(state, np.nan)
                state[:, alive], carry[:, alive] = self._summed(system, *some, step, values)
            # the sum is finite in all but absurd cases where all terms are, and far cheaper
            if not math.isfinite(np.add.reduce(state, axis=None)):
                alive = np.isfinite(state).all(axis=0)
                state[:, ~alive] = np.nan
            yield state.T

    def _summed(
        self,
        system: System,
        state: np.ndarray,
        carry: np.ndarray,
        step: float,
        parameters: Values,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the next states and their rounding errors, both (dim, trajectory)."""
        increment = self.increment(system, state, step, parameters)
        increment += carry
        new = state + increment
        # exact, as the increment is smaller than the state; else harmless
        increment -= new - state
        return new, increment


class ClassicalMap(Map):
    """Classical method with its system and step, which may be several equal substeps.

    Methods take values of some ``parameters`` of the system by name, each a number or of the shape
    (...) of the states; the others keep their values.

    Parameters
    ----------
    method, system, step
        The method, the system, and the time step, not zero.
    substeps
        Number of equal steps of the method in a time step.

    Raises
    ------
    InputError
        If the method does not apply to the system, ``substeps`` is no positive whole number, or a
        method with an adaptive step size is given several.

    Examples
    --------
    >>> fine = vp.classical("rk4", "pendulum", 0.1, substeps=4)
    >>> fine.name, fine.step, fine.at_step(0.2).substeps
    ('rk4@4', 0.1, 4)
    """

    kind = "classical"
    provenance = "made from the equations"
    reads_equations = True
    system: System

    def __init__(
        self, method: ClassicalMethod, system: System, step: float, substeps: int = 1
    ) -> None:
        method.require(system)
        self.method = method
        self.system = system
        self.step = float(step)
        self.substeps = whole("substeps", substeps)
        self.dim = system.dim
        self.name = method.name
        self.title = method.title
        if substeps > 1:
            self._fixed_step()
            self.name = f"{method.name}@{substeps}"
            self.title = f"{method.title}, {substeps} substeps"
        self.description = method.source
        self.order = method.order
        self.structure = method.structure(system)
        self.differentiable = isinstance(method, OneStepMethod)
        self._parameters = OpenParameters(system)

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative; more where that of the field is by differences."""
        exact = self.system.derivatives != "finite differences"
        return (self.machine_epsilon if exact else DIFFERENCES) * math.sqrt(self.substeps)

    @property
    def substep(self) -> float:
        """Time of a substep."""
        return self.step / self.substeps

    def at_step(self, step: float, substeps: int | None = None) -> ClassicalMap:
        """Return the same method with another step, and other ``substeps`` if they are given."""
        return ClassicalMap(self.method, self.system, step, substeps or self.substeps)

    def __call__(self, states: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Return the states one step later, differentiable in states and parameters.

        Derivatives of any order are those of the formulas of the method; those of an implicit
        method follow from the implicit function theorem.

        Parameters
        ----------
        states
            A tensor (..., dim) of floating-point numbers; windows (..., 1, dim) are such states.
        parameters
            Values of parameters of the system by name: numbers, or tensors that broadcast to the
            shape (...) of the states. The others keep the values of the system.

        Raises
        ------
        InputError
            If the states are no such tensor, the method has an adaptive step size, or a parameter
            does not exist or has another shape.

        Examples
        --------
        >>> import torch
        >>> midpoint = vp.classical("implicit-midpoint", "pendulum", 0.1)
        >>> g = torch.tensor(9.81, dtype=torch.float64, requires_grad=True)
        >>> state = torch.tensor([1.0, 0.0], dtype=torch.float64)
        >>> torch.autograd.grad(midpoint(state, {"g": g})[1], g)[0].round(decimals=3)
        tensor(-0.0820, dtype=torch.float64)
        """
        method = self._fixed_step()
        system, values = self._parameters.tensors(parameters, states)
        for _ in range(self.substeps):
            rows = states.reshape(-1, self.dim).T  # (dim, trajectory)
            for value in values:  # under vmap of parameters, methods add to states in place
                rows = rows + value.new_zeros(value.shape)
            change = method.increment(system, rows, self.substep, values)
            states = states + change.T.reshape(states.shape)
        return states

    def map(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        if isinstance(self.method, OneStepMethod) and self.substeps == 1:
            system, states, values = self._parameters.arrays(parameters, windows)
            return self.method.step(system, states, self.step, values)[:, None]
        return next(self.states(windows, parameters))

    def derivative(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        """Return Jacobian matrices from the formulas of the method, exact up to rounding.

        Raises
        ------
        InputError
            If the method is no fixed map: SciPy's adaptive solvers.
        """
        method = self._fixed_step()
        system, states, values = self._parameters.arrays(parameters, windows)
        with np.errstate(all="ignore"):
            result = method.derivative(system, states, self.substep, values)  # (n, dim, dim)
            for _ in range(self.substeps - 1):
                states = method.step(system, states, self.substep, values)
                result = method.derivative(system, states, self.substep, values) @ result
        return result

    def states(
        self, windows: np.ndarray, parameters: Parameters | None = None
    ) -> Iterator[np.ndarray]:
        system, states, values = self._parameters.arrays(parameters, windows)
        substates = self.method.iterate(system, states, self.substep, values)
        for state in islice(substates, self.substeps - 1, None, self.substeps):
            yield state[:, None]

    def _fixed_step(self) -> OneStepMethod:
        if isinstance(self.method, OneStepMethod):
            return self.method
        raise InputError(
            f"{self.name} has an adaptive step size, so it is no fixed map and has no derivative "
            "and no substeps; take a method with a fixed step"
        )


def once_per_system(function: Callable[[System], Result]) -> Callable[[System], Result]:
    """Cache the result of a function for each system, as long as the system is alive.

    The result must not refer to the system: the reference would keep the system alive.
    """
    results: WeakKeyDictionary[System, Result] = WeakKeyDictionary()

    @wraps(function)
    def remembered(system: System) -> Result:
        if system not in results:
            results[system] = function(system)
        return results[system]

    return remembered


def check_initial(system: System, initial: Any) -> np.ndarray:
    """Return initial states as a float64 array (trajectory, dim), or raise InputError."""
    array = real_array("initial", initial, None)
    if array.ndim != 2 or array.shape[1] != system.dim or len(array) == 0:
        raise InputError(
            f"initial has shape {array.shape}, but the initial states of {system.name} have shape "
            f"(trajectory, {system.dim})"
        )
    if not np.isfinite(array).all():
        raise InputError("initial holds a value that is not finite")
    return array
