"""Systems of functions that no formulas say: their claims are checked, and their text is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.dynamics.functions.calls import FunctionCall, Values
from vpintegrator.dynamics.functions.derivatives import AUTOGRAD, DIFFERENCES
from vpintegrator.dynamics.functions.function_claims import FunctionClaims
from vpintegrator.dynamics.functions.function_system import FunctionSystem
from vpintegrator.dynamics.functions.given import GivenFunction
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError

_STATES = 64  # at which claims are checked
_TIME_SPAN = 10.0  # range of times for checks of systems without a period


def called_system(
    given: GivenFunction, remade: Callable[[Mapping[str, Any]], System], reason: str
) -> FunctionSystem:
    """Return the system of a function that is called, its claims checked.

    Parameters
    ----------
    given
        The function, and what is said of it.
    remade
        Makes it again with other parameters.
    reason
        Why the function is no formula.

    Raises
    ------
    InputError
        If the function cannot be called, or a claim does not hold.
    """
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
    claims = FunctionClaims(field, states, times, given.components, given.source)
    if energy is not None:
        claims.hamiltonian(energy)
    scalars = {
        name: Values(call, 0, given.parameters, states, times)
        for name, call in given.invariants.items()
    }
    for name, scalar in scalars.items():
        claims.invariant(name, scalar)
    free = claims.divergence_free(given.claims.divergence_free)
    formulas: dict[str, Any] = {
        "measured": True,
        "derivatives": AUTOGRAD if field.library == "torch" else DIFFERENCES,
        "divergence_free": free or energy is not None,
    }
    if energy is not None:
        formulas["symplectic"] = True
        if not timed:
            scalars = {"energy": energy, **scalars}
    if (reference := reference_of(given)) is not None:
        formulas["function"] = reference
    known = {name: given.recorded_scalar(scalar.call) for name, scalar in scalars.items()}
    formulas["invariants"] = {name: text for name, text in known.items() if text is not None}
    rest = {name: scalar for name, scalar in scalars.items() if known[name] is None}
    text = given.text(formulas, timed)
    system = FunctionSystem(text, given.name, given.source, field, rest, remade, reason)
    dim = len(given.components)
    for number, rho in enumerate(system.reversing_symmetries, start=1):
        claims.symmetry(number, rho[:dim, :dim])
    periods = np.array([system.periods.get(i, 0.0) for i in range(dim)])
    if system.periods:
        claims.periods(periods, system.period or 0.0)
    return system


def sampled(given: GivenFunction) -> tuple[np.ndarray, np.ndarray]:
    """Return states of the sampling domain, and times, at which claims are checked."""
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
    return HamiltonianField(energy.call.function, energy.call.arguments, given.name)


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
        q, p = slopes.chunk(2, dim=axis)
        found = torch.cat([p, -q], dim=axis)
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
