"""Classical methods by name, and the maps that they are with a system and a step.

A method of a family that is there is an entry in its module; a new family is a module, named here.
"""

from __future__ import annotations

import os
import re

from vpintegrator.arguments import is_number, of_kind, shown, whole
from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError, nearest
from vpintegrator.maps import adaptive, boris, explicit, gauss_legendre, splitting
from vpintegrator.maps.base import ClassicalMap, ClassicalMethod
from vpintegrator.maps.map import ExactMap
from vpintegrator.maps.period import PeriodMap, period_flow_of
from vpintegrator.names import method_name

_FAMILIES = (explicit, gauss_legendre, splitting, boris, adaptive)
METHODS: dict[str, ClassicalMethod] = {
    method.name: method
    for family in _FAMILIES
    for value in vars(family).values()
    for method in (value if isinstance(value, list) else [value])
    if isinstance(method, ClassicalMethod)
}


_WITH_TOLERANCE = re.compile(r"(.+?)-(\d+(?:\.\d+)?(?:e-\d+)?)")


def find_method(name: str) -> ClassicalMethod:
    """Return the classical method of a name, which may end in a tolerance.

    Parameters
    ----------
    name
        Such as ``rk4``, or ``dop853-1e-10``. Other names of the literature lead to the same method:
        ``leapfrog`` and ``velocity-verlet`` to ``stoermer-verlet``, ``symplectic-euler`` to
        ``coordinate-splitting``.

    Raises
    ------
    InputError
        If there is none; the message names the nearest, or all of them.

    Examples
    --------
    >>> vp.rollout.find_method("rk4").order
    4
    >>> vp.rollout.find_method("dop853-1e-10").rtol
    1e-10
    >>> vp.rollout.find_method("leapfrog").name
    'stoermer-verlet'
    """
    of_kind("method", name, str, "the name of a classical method")
    name = method_name(name)
    if name in METHODS:
        return METHODS[name]
    parts = _WITH_TOLERANCE.fullmatch(name)
    if parts and parts[1] in METHODS:
        return METHODS[parts[1]].at_tolerance(float(parts[2]), name)
    hint = nearest(name.lower().replace("_", "-"), METHODS) or f"; there are {', '.join(METHODS)}"
    raise InputError(f"there is no classical method '{name}'{hint}")


def applicable_methods(system: System) -> tuple[dict[str, ClassicalMethod], dict[str, str]]:
    """Return the classical methods for a system, and the reasons why others do not apply.

    If two names give the same map, only the first is returned. For a stroboscopic map the methods
    are those for its flow.

    Parameters
    ----------
    system
        The system.

    Examples
    --------
    >>> methods, others = vp.rollout.applicable_methods(vp.load_system("rigid-body"))
    >>> "implicit-midpoint" in methods, others["stoermer-verlet"]
    (True, 'stoermer-verlet needs a Hamiltonian H(q, p) = T(p) + V(q), ...')
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    methods: dict[str, ClassicalMethod] = {}
    reasons = {}
    system = period_flow_of(system) or system
    for name, method in METHODS.items():
        try:
            method.require(system)
        except InputError as error:
            reasons[name] = str(error)
            continue
        same = next((n for n, m in methods.items() if m.is_same_map(method)), None)
        if same is None:
            methods[name] = method
        else:
            reasons[name] = f"{name} is the same map as {same}"
    return methods, reasons


def classical(
    method: str | ClassicalMethod,
    system: System | str | os.PathLike[str],
    step: float | None = None,
    *,
    substeps: int = 1,
) -> ClassicalMap | ExactMap | PeriodMap:
    """Return a classical method with a system and a step, which is a map.

    Parameters
    ----------
    method
        A name in ``METHODS``, such as ``"implicit-midpoint"``, or a method. ``"rk4@4"`` takes 4
        substeps in a step; for a stroboscopic map, ``"rk4@64"`` takes 64 steps in a period.
        ``"exact"`` is the map of a discrete system itself.
    system
        The system, its name in the catalogue, or its file.
    step
        Time step, not zero; negative goes back in time. By default the step that the system
        suggests; that of a discrete system is 1.
    substeps
        Number of equal steps of the method in a step, as behind the ``@`` of a name.

    Raises
    ------
    InputError
        If there is no such method, it does not apply to the system, or the step is wrong.

    Examples
    --------
    >>> rk4 = vp.classical("rk4", "pendulum", 0.1)
    >>> rk4.step, rk4.window, rk4.map(np.zeros((1, 1, 2))).shape
    (0.1, 1, (1, 1, 2))
    """
    of_kind("method", method, (str, ClassicalMethod), "a classical method or its name")
    if not isinstance(system, System):
        system = load_system(system)
    if method == "exact":
        return ExactMap(system)
    steps = whole("substeps", substeps) if substeps != 1 else None
    if isinstance(method, str):
        plain, at, count = method.partition("@")
        if at:
            steps = int(count) if count.isdecimal() else 0
            if not 1 <= steps <= 1_000_000:
                raise InputError(f"{method}: give the number of substeps behind @, as rk4@64")
        method = find_method(plain)
    if system.flow is not None and period_flow_of(system) is not None:
        return PeriodMap(method, system, steps)
    step = system.defaults.get("step") if step is None else step
    if step is None:
        method.require(system)
        raise InputError(f"{system.name} suggests no step; give step")
    if not is_number(step) or step == 0:
        raise InputError(f"step = {shown(step)} must be a finite number other than zero")
    return ClassicalMap(method, system, step, steps or 1)
