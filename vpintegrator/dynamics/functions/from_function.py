"""Systems of Python functions: recorded as formulas where that is possible, else called."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.expressions import TooLong
from vpintegrator.dynamics.functions.called import called_system
from vpintegrator.dynamics.functions.calls import Values
from vpintegrator.dynamics.functions.description import changed_parameters, component_names
from vpintegrator.dynamics.functions.function_claims import place
from vpintegrator.dynamics.functions.given import GivenFunction
from vpintegrator.dynamics.functions.tracing import NotTraceable
from vpintegrator.dynamics.reading import read_equations
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError

CHECKED = 16  # states at which a function and its formulas are compared
_AGREEMENT = 1e-11  # relative: other orders of the same operations
_AGREEMENT_OF_BESSEL = 1e-5  # with PyTorch's j0 and j1, whose errors are 5e-7
CLAIMS = ("invariants", "reversing_symmetry", "periodic", "divergence_free")


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of :meth:`vpintegrator.System.from_function`, to make the system again."""

    function: Callable[..., Any] | None
    components: list[str]
    claims: Claims
    sample: Any
    step: float | None
    parameters: Mapping[str, Any] | None
    name: str | None

    def made(self, changes: Mapping[str, Any]) -> System:
        """Return the system, with other values of some parameters."""
        values = changed_parameters(self.parameters, self.components, changes)
        request = dataclasses.replace(self, parameters=values)
        given = GivenFunction(
            request.function,
            request.components,
            request.claims,
            request.sample,
            request.step,
            request.parameters,
            request.name,
        )
        return _made(given, request)


def system_from_function(
    function: Callable[..., Any],
    dim: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    sample: Any,
    step: float | None,
    parameters: Mapping[str, Any] | None,
    name: str | None,
) -> System:
    """See :meth:`vpintegrator.System.from_function`."""
    names = component_names(dim, components, claims.hamiltonian is not None)
    if function is None:
        raise InputError("f must be a function, not None")
    return Request(function, names, claims, sample, step, parameters, name).made({})


def system_from_hamiltonian(
    hamiltonian: Callable[..., Any],
    degrees_of_freedom: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    sample: Any,
    step: float | None,
    parameters: Mapping[str, Any] | None,
    name: str | None,
) -> System:
    """See :meth:`vpintegrator.System.from_hamiltonian`."""
    dim = None if degrees_of_freedom is None else 2 * degrees_of_freedom
    names = component_names(dim, components, True)
    if hamiltonian is None:
        raise InputError("the Hamiltonian must be a function, not None")
    if claims.hamiltonian is not None:
        raise InputError("from_hamiltonian takes the Hamiltonian first; leave hamiltonian= out")
    claims = Claims(**{**vars(claims), "hamiltonian": hamiltonian})
    return Request(None, names, claims, sample, step, parameters, name).made({})


def _made(given: GivenFunction, request: Request) -> System:
    whole = [name for name, value in given.parameters.items() if isinstance(value, int)]
    reasons = []
    for fixed in [(), whole] if whole else [()]:
        try:
            return _of_formulas(given, given.recorded_text(fixed))
        except NotTraceable as error:
            reasons.append(str(error))
    return called_system(given, partial(Request.made, request), reasons[0])


def _of_formulas(given: GivenFunction, text: str) -> System:
    """Return the system of recorded formulas, its claims checked, compared with the function."""
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
        # constants of a Python function are rounded, and claims hold to that
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
    table = {key: entry for key, entry in tomllib.loads(text).items() if key not in CLAIMS}
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
    generator = np.random.default_rng(0)
    states = system.sample_initial(CHECKED, generator)
    times = states[:, -1] if system.clock is not None else np.zeros(CHECKED)
    dim = len(given.components)
    called = Values(given.call, dim, given.parameters, states[:, :dim], times)
    with np.errstate(all="ignore"):
        found, expected = called(states[:, :dim], times), system.vector_field(states)[:, :dim]
    undefined = np.isfinite(found).all(axis=1) & ~np.isfinite(expected).all(axis=1)
    if undefined.any():  # as in a branch of where that is not taken
        where = place(given.components, states[int(np.argmax(undefined))])
        raise NotTraceable(f"its formulas have no finite value at {where}")
    rough = called.library == "torch" and re.search(r"\bj[01]\(", system.text)
    agreement = _AGREEMENT_OF_BESSEL if rough else _AGREEMENT
    scale = 1 + np.abs(np.nan_to_num(found)).max(axis=1)
    defect = np.abs(found - expected).max(axis=1) / scale
    if (worst := int(np.nanargmax(np.r_[0, defect])) - 1) >= 0 and defect[worst] > agreement:
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
