"""Loading of systems by name in the catalogue, path, or text, and return maps of systems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vpintegrator.arguments import of_kind
from vpintegrator.catalogue import SYSTEMS, catalogue
from vpintegrator.dynamics.section import ENERGY
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.reading import check_kind
from vpintegrator.storage.toml import MAXIMUM_SIZE, toml_text


def is_path(source: str | os.PathLike[str]) -> bool:
    """Whether a name given by the user means a file: it ends in .toml or holds a separator."""
    return isinstance(source, os.PathLike) or source.endswith(".toml") or os.sep in source


class Description(NamedTuple):
    """A TOML text, the name that goes with it, and the file that it was read from, if any."""

    text: str
    name: str | None
    path: Path | None


def find_description(
    source: str | os.PathLike[str], known: Mapping[str, Any], what: str
) -> Description:
    """Find a description by name in the catalogue, path of a file, or TOML text.

    A name of the catalogue comes first; then text of several lines is TOML, and a file that exists
    is read, whatever its name; of the rest, what looks like a path is one, and what holds ``=`` is
    TOML of one line.

    Parameters
    ----------
    source
        Name, path or text.
    known
        The files of the catalogue by name.
    what
        Noun for messages: ``"system"``.

    Raises
    ------
    InputError
        If nothing is found, or the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"a {what} is given by its name, path or TOML text, not by {type(source).__name__}"
        )
    path = Path(source)
    if isinstance(source, str):
        if source in known:
            return Description(known[source].read_text(encoding="utf-8"), source, None)
        named = source.endswith(".toml") or _is_file(path)
        if "\n" in source or ("=" in source and not named):
            return Description(source, None, None)
        if not named and os.sep not in source:
            hint = nearest(source, known) or f"; there are {', '.join(known)}"
            raise InputError(
                f"there is no {what} '{source}' in the catalogue{hint} (a file of your own is "
                "given by its path, ending in .toml)"
            )
    if _is_file(path):
        check_kind(path, "system", *(("recipe",) if "dataset" in what else ()))
    try:
        if _is_file(path) and path.stat().st_size > MAXIMUM_SIZE:
            raise ValueError(f"it is larger than {MAXIMUM_SIZE} bytes")
        return Description(path.read_text(encoding="utf-8"), path.stem, path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # a folder, no UTF-8, a null character, no permission
        raise InputError(f"cannot read {str(path)!r}: {error}; give a TOML file") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def load_system(source: str | os.PathLike[str], /, **parameters: Any) -> System:
    """Load a system.

    Parameters
    ----------
    source
        A name in the catalogue (:func:`list_systems`), the path of a TOML file, or TOML text.
        A file that exists is read whatever its name is; text is what holds several lines or ``=``.
    **parameters
        Values that replace the file's: numbers, lists for arrays, NumPy's numbers and arrays of
        one dimension, or expressions as text.

    Raises
    ------
    InputError
        If there is no such system, it cannot be understood, or it declares what does not hold.

    Examples
    --------
    >>> system = load_system("rigid-body", I1=3.0)
    >>> system.vector_field([0.0, 0.6, 0.8]).tolist()[0]
    0.24
    """
    if isinstance(source, System):
        raise InputError("load_system was given a System; it is loaded already")
    text, name, path = find_description(source, catalogue(SYSTEMS), "system")
    return System.of_text(text, name, parameters, path.name if path else None)


def return_map(
    system: System | str | os.PathLike[str],
    section: str,
    *,
    energy: float | str | None = None,
    direction: str | None = None,
    crossings: int = 1,
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

    Raises
    ------
    InputError
        If the flow has no such map.

    Examples
    --------
    >>> poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> poincare.components, poincare.kind
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
    text = flow.text.rstrip("\n") + "\n" + toml_text({}, {"return_map": table})
    return System(text, f"{flow.name}-map", flow.definitions, source=f"{flow.name}-map")
