"""Systems of Python functions: recorded as formulas where that is possible, else called."""

from __future__ import annotations

import pickle
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.dynamics.arrays import as_given, float_array
from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.expressions import TooLong
from vpintegrator.dynamics.functions.calls import FunctionCall, Values
from vpintegrator.dynamics.functions.derivatives import (
    AUTOGRAD,
    DIFFERENCES,
    BatchFunction,
    ScalarOfStates,
    derivatives,
)
from vpintegrator.dynamics.functions.function_checks import FunctionChecks, place
from vpintegrator.dynamics.functions.given import GivenFunction, component_names
from vpintegrator.dynamics.functions.tracing import NotTraceable
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.dynamics.reading import read_equations
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError

_AGREEMENT = 1e-11  # relative: other orders of the same operations
DECLARED = ("invariants", "reversing_symmetry", "periodic", "divergence_free")
_STATES = 64  # of the checks
_TIME_SPAN = 10.0  # range of times for checks of systems without a period


class CalledFunction(SystemProperties):
    """Properties of systems and maps whose function is called, as no formulas say it.

    Attributes
    ----------
    remade
        Makes the system again with other parameters.
    reason
        Why the function is no formula.
    """

    remade: Callable[[Mapping[str, Any]], System]
    reason: str

    @property
    def is_measured(self) -> bool:
        return False

    def require_formulas(self, what: str) -> None:
        raise InputError(
            f"{what} needs formulas, but {self.name} is a Python function that was not recorded as "
            f"formulas ({self.reason})"
        )

    def with_parameters(self, values: Mapping[str, Any]) -> System:
        return self.remade(values)

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.dumps(self.remade)
        except Exception:
            raise InputError(
                f"{self.name} cannot be sent to other processes, as its function is no function of "
                "a module; define it at the top of a file, or take one worker"
            ) from None
        return self.remade, ({},)


class FunctionSystem(CalledFunction, System):
    """A system of a function that is called; made by :meth:`vpintegrator.System.from_function`.

    Its text says its name and its declared properties, and no code.

    Parameters
    ----------
    text, name, source
        Arguments of :class:`vpintegrator.System`.
    field
        The vector field of states (state, dim) without the time, and times.
    scalars
        Invariants that no formulas say, by name.
    remade
        Makes it again with other parameters.
    reason
        Why the function is no formula.
    """

    def __init__(
        self,
        text: str,
        name: str,
        source: str,
        field: Values,
        scalars: Mapping[str, Any],
        remade: Callable[[Mapping[str, Any]], System],
        reason: str,
    ) -> None:
        super().__init__(text, name, source=source)
        self._values: BatchFunction = field
        self.remade, self.reason = remade, reason
        timed = self.explicit_time is not None
        for key, values in scalars.items():
            self.invariants[key] = ScalarOfStates(values, self.phase_dim, timed, key)

    @property
    def structure(self) -> str:
        if self.is_canonical:
            return "Hamiltonian"
        return "divergence-free" if self.divergence_free else "not divergence-free"

    def vector_field(self, state: Any, parameters: Any = None) -> Any:
        array = float_array(self.checked_state(state))
        return as_given(self._rates(array.reshape(-1, self.dim)).reshape(array.shape), state)

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        rows = components.reshape(self.dim, -1).T
        return np.ascontiguousarray(self._rates(rows).T).reshape(components.shape)

    def jacobian(self, state: Any) -> Any:
        array = float_array(self.checked_state(state))
        found = self._slopes(array.reshape(-1, self.dim))
        return as_given(found.reshape(*array.shape, self.dim), state)

    def jacobian_by_component(self, components: np.ndarray) -> np.ndarray:
        found = self._slopes(components.reshape(self.dim, -1).T)
        return np.moveaxis(found, 0, -1).reshape(self.dim, *components.shape)

    def hamiltonian(self, state: Any) -> Any:
        if "energy" in self.invariants and self.is_canonical:
            return self.invariants["energy"](state)
        return super().hamiltonian(state)

    @cached_property
    def canonical(self) -> System:
        if not self.canonical_order:
            return self
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        SystemProperties.__init__(found, self.definition.in_canonical_order(), self.family)
        found._values = _Reordered(self._values, [*self.canonical_order[: self.phase_dim]])
        found.remade = partial(_canonical, self.remade)
        return found

    def divergence(self, state: Any) -> Any:
        slopes = self.jacobian(state)
        return slopes.diagonal(0, -2, -1).sum(-1)

    def _timed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        times = np.zeros(len(rows)) if self.explicit_time is None else rows[:, -1]
        return rows[:, : self.phase_dim], times

    def _rates(self, rows: np.ndarray) -> np.ndarray:
        result = np.ones((len(rows), self.dim))
        if len(rows):
            result[:, : self.phase_dim] = self._values(*self._timed(rows))
        return result

    def _slopes(self, rows: np.ndarray) -> np.ndarray:
        result = np.zeros((len(rows), self.dim, self.dim))
        if len(rows):
            found = derivatives(self._values, *self._timed(rows))
            result[:, : self.phase_dim] = found[..., : self.dim]
        return result


def _canonical(remade: Callable[[Mapping[str, Any]], System], changes: Mapping[str, Any]) -> System:
    return remade(changes).canonical


class _Reordered:
    """A vector field of states with their components in another order."""

    def __init__(self, field: BatchFunction, order: list[int]) -> None:
        self.field, self.library, self.order = field, field.library, order
        self.back = sorted(range(len(order)), key=order.__getitem__)

    def __call__(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        return self.field(states[:, self.back], times)[:, self.order]

    def tensors(self, states: Any, times: Any) -> Any:
        return self.field.tensors(states[:, self.back], times)[:, self.order]


def system_from_function(
    function: Callable[..., Any] | None,
    dim: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    *rest: Any,
) -> System:
    """See :meth:`vpintegrator.System.from_function`; rest: sample, step, parameters, name."""
    names = component_names(dim, components, claims.hamiltonian is not None)
    if function is None:
        raise InputError("f must be a function, not None")
    return _made(GivenFunction(function, names, claims, *rest))


def system_from_hamiltonian(
    hamiltonian: Callable[..., Any] | None,
    degrees_of_freedom: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    *rest: Any,
) -> System:
    """See :meth:`vpintegrator.System.from_hamiltonian`; ``rest`` as for a function."""
    dim = None if degrees_of_freedom is None else 2 * degrees_of_freedom
    names = component_names(dim, components, True)
    if hamiltonian is None:
        raise InputError("the Hamiltonian must be a function, not None")
    if claims.hamiltonian is not None:
        raise InputError("from_hamiltonian takes the Hamiltonian first; leave hamiltonian= out")
    return _made(GivenFunction(None, names, replace(claims, hamiltonian=hamiltonian), *rest))


def _made(given: GivenFunction) -> System:
    reasons = []
    for fixed in given.recordings():
        try:
            return _of_formulas(given, given.recorded_text(fixed))
        except NotTraceable as error:
            reasons.append(str(error))
    return _called_system(given, reasons[0])


def _changed(given: GivenFunction, changes: Mapping[str, Any]) -> System:
    return _made(given.changed(changes))


def _of_formulas(given: GivenFunction, text: str) -> System:
    """Return the system of recorded formulas, checked and compared with the function."""
    require_readable(given, text)
    system, exact = None, None
    try:
        system = System(text, given.name, source=given.source)
        if system.divergence_free or given.claims.divergence_free is False:
            exact = system
    except InputError as error:
        exact = None
        problem = error
    if exact is None:
        # constants of a Python function are rounded, and declared properties hold to that
        try:
            rounded = System(f"rounded = true\n{text}", given.name, source=given.source)
        except InputError:
            if system is None:
                raise problem from None
            rounded = system
        exact = rounded if system is None or rounded.divergence_free else system
    _compare_with_function(given, exact)
    return exact


def require_readable(given: GivenFunction, text: str) -> None:
    """Raise NotTraceable where recorded formulas are longer than those of files may be."""
    table = {key: entry for key, entry in tomllib.loads(text).items() if key not in DECLARED}
    try:
        read_equations(table, given.source, {})
    except (InputError, TooLong, RecursionError, ArithmeticError) as error:
        raise NotTraceable(f"its formulas cannot be read: {error}") from None


def _compare_with_function(given: GivenFunction, system: System) -> None:
    """Compare a function with the formulas that were recorded.

    Raises
    ------
    InputError
        If the Hamiltonian that was given is that of another vector field.
    NotTraceable
        If the function is none of its arguments alone.
    """
    if given.call is None:
        return
    states, times = sampled(given)  # also those at which formulas have no value
    if system.explicit_time is not None:
        states = np.column_stack([states, times])
    dim = len(given.components)
    called = Values(given.call, dim, given.parameters, states[:, :dim], times)
    with np.errstate(all="ignore"):
        found, expected = called(states[:, :dim], times), system.vector_field(states)[:, :dim]
    undefined = np.isfinite(found).all(axis=1) & ~np.isfinite(expected).all(axis=1)
    if undefined.any():  # as in a branch of where that is not taken
        where = place(given.components, states[int(np.argmax(undefined))])
        raise NotTraceable(f"its formulas have no finite value at {where}")
    scale = 1 + np.abs(np.nan_to_num(found)).max(axis=1)
    defect = np.abs(found - expected).max(axis=1) / scale
    if (worst := int(np.nanargmax(np.r_[0, defect])) - 1) >= 0 and defect[worst] > _AGREEMENT:
        where = place(given.components, states[worst])
        if given.hamiltonian is not None:
            raise InputError(
                f"{given.source}, hamiltonian: f is not (dH/dp, -dH/dq), they differ by "
                f"{defect[worst] * scale[worst]:.3g} at {where}"
            )
        raise NotTraceable(
            f"two calls with one state do not give the same, they differ by "
            f"{defect[worst] * scale[worst]:.3g} at {where}"
        )


def _called_system(given: GivenFunction, reason: str) -> FunctionSystem:
    """Return the system of a function that is called for a reason, with its properties checked."""
    states, times = sampled(given)
    energy = None
    if given.hamiltonian is not None:
        energy = Values(given.hamiltonian, 0, given.parameters, states, times)
    call = given.call
    if call is None:
        assert energy is not None
        call = _field_of(given, energy, reason)
    field = Values(call, len(given.components), given.parameters, states, times)
    timed = _depends_on_time(field, states)
    checks = FunctionChecks(field, states, times, given.components, given.source)
    if energy is not None:
        checks.hamiltonian(energy, given.halves)
    scalars = {
        name: Values(call, 0, given.parameters, states, times)
        for name, call in given.invariants.items()
    }
    for name, scalar in scalars.items():
        checks.invariant(name, scalar)
    free = checks.divergence_free(given.claims.divergence_free)
    if energy is not None and not timed:
        scalars = {"energy": energy, **scalars}
    kept = {"divergence_free": free or energy is not None, "symplectic": energy is not None}
    text, rest = called_text(given, field, scalars, kept, timed)
    remade = partial(_changed, given)
    system = FunctionSystem(text, given.name, given.source, field, rest, remade, reason)
    dim = len(given.components)
    for number, rho in enumerate(system.reversing_symmetries, start=1):
        checks.symmetry(number, rho[:dim, :dim])
    periods = np.array([system.periods.get(i, 0.0) for i in range(dim)])
    if system.periods:
        checks.periods(periods, system.period or 0.0)
    return system


def called_text(
    given: GivenFunction,
    values: Values,
    scalars: Mapping[str, Values],
    kept: Mapping[str, bool],
    timed: bool = False,
) -> tuple[str, dict[str, Values]]:
    """Return the text of a system whose function is called, and the scalars without formulas.

    Parameters
    ----------
    given, values
        The function as it was given, and as it is called.
    scalars
        Invariants by name.
    kept
        Whether ``divergence_free`` and ``symplectic`` hold.
    timed
        Whether the function depends on time.
    """
    found: dict[str, Any] = {
        "measured": True,
        "derivatives": AUTOGRAD if values.library == "torch" else DIFFERENCES,
        "divergence_free": kept["divergence_free"],
    }
    if kept["symplectic"]:
        found["symplectic"] = True
    if (reference := reference_of(given)) is not None:
        found["function"] = reference
    known = {name: given.recorded_scalar(scalar.call) for name, scalar in scalars.items()}
    found["invariants"] = {name: text for name, text in known.items() if text is not None}
    rest = {name: scalar for name, scalar in scalars.items() if known[name] is None}
    return given.text(found, timed), rest


def sampled(given: GivenFunction) -> tuple[np.ndarray, np.ndarray]:
    """Return states of the sampling domain, and times for the checks."""
    text = given.text({"measured": True}, timed=False)
    domain = System(text, given.name, source=given.source)
    generator = np.random.default_rng(20231219)
    available = domain.initial_conditions.available
    count = _STATES if available is None else min(_STATES, available)
    states = domain.sample_initial(count, generator)
    return states, generator.uniform(0.0, _TIME_SPAN, count)


def _depends_on_time(field: Values, states: np.ndarray) -> bool:
    if "t" not in field.call.arguments:
        return False
    values = [field(states, np.full(len(states), t)) for t in (0.0, 0.618, 2.718, 7.389)]
    return not all(np.array_equal(values[0], other, equal_nan=True) for other in values[1:])


def _field_of(given: GivenFunction, energy: Values, reason: str) -> FunctionCall:
    """Return the vector field of a Hamiltonian in PyTorch, by autograd."""
    if energy.library != "torch":
        raise InputError(
            f"{given.source} was not recorded as formulas ({reason}), and needs derivatives: write "
            "it with torch's functions, or give the vector field too, with System.from_function"
        )
    call = energy.call
    return HamiltonianField(call.function, call.arguments, given.name, given.halves)


class HamiltonianField(FunctionCall):
    """The vector field (dH/dp, -dH/dq) of a Hamiltonian in PyTorch, by autograd."""

    def __call__(self, t: Any, y: Any, parameters: Mapping[str, Any], axis: int = 0) -> Any:
        import torch

        if not isinstance(y, torch.Tensor):
            raise TypeError("a Hamiltonian in PyTorch takes tensors")
        with torch.enable_grad():
            y = y if y.requires_grad else y.detach().requires_grad_()
            energy = super().__call__(t, y, parameters, axis)
            slopes = torch.autograd.grad(energy.sum(), y, create_graph=True)[0]
        assert self.halves is not None
        positions, momenta = self.halves
        slopes = slopes.movedim(axis, 0)
        found = torch.empty_like(slopes)
        found[positions], found[momenta] = slopes[momenta], -slopes[positions]
        found = found.movedim(0, axis)
        return found if torch.is_grad_enabled() else found.detach()


def reference_of(given: GivenFunction) -> str | None:
    """Return ``module:name`` of the function, where it has one."""
    function: Any = given.call.function if given.call is not None else given.hamiltonian.function  # type: ignore[union-attr]
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<>")
    if not isinstance(module, str) or "<" in name or "." in name:
        return None
    if module == "__main__":
        path = getattr(sys.modules["__main__"], "__file__", None)
        if path is None:
            return None
        module = Path(path).stem
    return f"{module}:{name}"
