"""Return maps of systems that are there."""

from __future__ import annotations

import os
from typing import Any

from vpintegrator.arguments import of_kind
from vpintegrator.dynamics.load import load_system
from vpintegrator.dynamics.system import ENERGY, System
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import toml_text


def return_map(
    system: System | str | os.PathLike[str],
    section: str,
    *,
    energy: float | str | None = None,
    direction: str | None = None,
    crossings: int = 1,
    return_times: bool = False,
) -> System:
    r"""Return the map of a flow from a section back to it, as a discrete system.

    Its text is that of the flow with a table ``[return_map]``. Of a Hamiltonian flow its states are
    canonical, and it keeps the form :math:`dq \wedge dp` exactly.

    Parameters
    ----------
    system
        A flow, or its name, path or text.
    section
        A component and its value, such as ``"q[0] = 0"``; the time and its phase, ``"t = 0"``, for
        the stroboscopic map of equations that have a period in time.
    energy
        Energy of a Hamiltonian flow without explicit time, a parameter of the map. States on the
        section have this energy; it determines the momentum of the section's position.
    direction
        Direction of crossings: ``"up"``, the default, or ``"down"``.
    crossings
        Number of returns, or periods, in one step.
    return_times
        Whether the time since the start is a further component of the states.

    Raises
    ------
    InputError
        If the flow has no such map.

    Examples
    --------
    >>> poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> poincare.components, poincare.structure
    (('q[1]', 'p[1]'), 'symplectic map')
    >>> vp.solve(poincare, np.array([[0.1, 0.0]]), np.arange(4)).shape
    (1, 4, 2)
    """
    of_kind("section", section, str, "an equation such as 'q = 0'")
    flow = system if isinstance(system, System) else load_system(system)
    if flow.is_discrete or flow.is_measured or flow.family is not None:
        raise InputError(f"{flow.name} is no flow whose solutions could return to a section")
    flow.require_formulas("a return map")
    table: dict[str, Any] = {"section": section}
    table |= {} if direction is None else {"direction": direction}
    table |= {} if crossings == 1 else {"crossings": crossings}
    table |= {} if energy is None else {ENERGY: energy}
    table |= {"return_times": True} if return_times else {}
    text = flow.text.rstrip("\n") + "\n" + toml_text({}, {"return_map": table})
    return System(text, f"{flow.name}-map", flow.definitions, source=f"{flow.name}-map")
