"""Arguments of models that follow from the structure of a system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.models.base import Integrator
from vpintegrator.models.generating_arguments import GeneratingArguments
from vpintegrator.models.symplectic_layers import SymplecticArguments

if TYPE_CHECKING:
    from vpintegrator.dynamics import System


def family_arguments(architecture: type[Integrator], system: System) -> dict[str, Any]:
    """Return the arguments that say which components stand for steps and parameters.

    Shears that all vanish with the scaling parameters are, to first order in the step, a sum of
    shears, and so is the field that they can follow. A field of another form needs free shears.
    A reversing symmetry of the scaling parameters then makes the map of scaling zero the identity.
    """
    known, family = known_arguments(architecture), system.family
    assert family is not None
    if "conserved" not in known:
        raise InputError(
            f"the model {architecture.name} cannot be one of many steps and parameters; take vpff "
            "or spff"
        )
    implicit = issubclass(architecture.Arguments, GeneratingArguments)  # suited to any field
    free = len(system.reversing_symmetries) > 0 and not implicit
    free = free and not is_sum_of_shears(system, architecture)
    vanishing = {} if free or "scaling" not in known else {"scaling": family.scaling}
    return {"conserved": family.places} | vanishing


def is_sum_of_shears(system: System, architecture: type[Integrator]) -> bool:
    """Whether no component of the field drives itself; of (q, p), neither q each other nor p."""
    driven = system.equations.jacobian
    if not issubclass(architecture.Arguments, SymplecticArguments):
        return not any(i == j for i, j in driven)
    assert system.family is not None
    half = system.family.system.dim // 2
    return not any(i // half == j // half for i, j in driven if max(i, j) < 2 * half)


def known_arguments(architecture: type[Integrator]) -> Iterable[str]:
    return architecture.Arguments.declared()


def body_arguments(
    system: System,
    architecture: type[Integrator],
    symmetries: bool | None,
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments of models that describe bodies and their symmetries."""
    if "bodies" in arguments:
        return {}
    solved = issubclass(architecture.Arguments, GeneratingArguments)
    if solved and not symmetries and {"expressions", "hamiltonian"} & {*arguments}:
        return {}  # formulas stand in place of clusters
    bodies, reason = system.bodies, ""
    if bodies is None:
        reason = f"the file of {system.name} declares no symmetries of bodies"
    elif "bodies" not in known_arguments(architecture):
        reason = f"the model {architecture.name} knows no bodies, as spff does"
    if bodies is None or reason or symmetries is False:
        if symmetries:
            raise InputError(f"{reason}; leave out --symmetries")
        return {}
    given: dict[str, Any] = {"bodies": bodies.count, "topology": bodies.topology}
    if bodies.topology and len(set(bodies.species)) > 1:
        given["species"] = bodies.species
    if "bounded" in known_arguments(architecture):
        given["bounded"] = arguments.get("bounded", True)
    return given | {"translations": bodies.translations, "rotations": bodies.rotations}


def invariant_arguments(system: System, functions: str) -> dict[str, Any]:
    """Return arguments that make a generating function one of the invariants of bodies.

    Under rotations about the origin these are the length of q, the part of p along q, and the
    length of p; angular momentum is conserved then.
    """
    bodies, n = system.bodies, system.dim // 2
    if bodies is not None and bodies.count > 1 and functions == "hamiltonian":
        # exact terms have all of its symmetries; one further function that has them, too
        momenta = " + ".join(f"z[{n + i}]**2" for i in range(n))
        return {"expressions": [momenta], "cyclic": list(range(system.dim)), "degree": 1}
    if bodies is None or bodies.count != 1 or not bodies.rotations or bodies.translations:
        return {}
    lengths, product, momenta = (
        " + ".join(f"z[{i + a}]*z[{i + b}]" for i in range(n)) for a, b in ((0, 0), (0, n), (n, n))
    )
    along = f"({product})/sqrt({lengths})"
    if len(system.reversing_symmetries):  # symmetries change the sign of the product
        along = f"({product})**2/({lengths})"
    return {
        "expressions": [f"log({lengths})", along, momenta],
        "cyclic": list(range(system.dim)),
    }


def function_arguments(
    system: System, architecture: type[Integrator], functions: Any
) -> dict[str, Any]:
    """Return arguments that say which functions of a system stand beside polynomials."""
    if functions == "system":
        return {"functions": "polynomial", "expressions": functions_of(system, architecture)}
    if functions == "hamiltonian":
        found = {"functions": "polynomial", "hamiltonian": hamiltonian_of(system, architecture)}
        # beyond the times of training exact terms alone are right, unless time is an angle
        beyond = system.explicit_time is not None and system.explicit_time not in system.periods
        return found | {"cyclic": [system.explicit_time]} if beyond else found
    return {}


def functions_of(system: System, architecture: type[Integrator]) -> list[str]:
    """Return the functions of the potentials for symplectic models, of the forces for others."""
    symplectic = issubclass(architecture.Arguments, SymplecticArguments | GeneratingArguments)
    symplectic = symplectic and system.is_canonical
    functions = system.hamiltonian_functions if symplectic else system.functions
    if not functions:
        what = "Hamiltonian" if symplectic else "vector field"
        raise InputError(
            f"functions = system: the {what} of {system.name} is not known, or made of "
            "polynomials and of sines and cosines of its angles alone; take functions = polynomial"
        )
    return functions


def hamiltonian_of(system: System, architecture: type[Integrator]) -> str:
    if "hamiltonian" not in known_arguments(architecture):
        raise InputError(
            f"functions = hamiltonian is for generating functions of Hamiltonian systems, sgf; "
            f"{architecture.name} has no such terms"
        )
    if not (formula := system.hamiltonian_formula):
        raise InputError(
            f"functions = hamiltonian: no Hamiltonian of {system.name} is known, or it is too "
            "long; take functions = polynomial"
        )
    return formula


def structure_arguments(
    system: System, known: Iterable[str], functions: Any = None
) -> dict[str, Any]:
    """Return the arguments of models that are made of formulas, or that take any structure."""
    if {"hamiltonian", "field"} <= {*known}:
        return _formula_arguments(system)
    row = system.sites
    if {"sites", "reach"} <= {*known} and row is not None and row.topology == "ring":
        return {"sites": row.count} if functions == "polynomial" else {}
    if "structure" not in known:
        return {}
    if system.is_canonical and system.explicit_time is None:
        return {"structure": "symplectic"}
    return {"structure": "volume-preserving" if system.may_preserve_volume else "none"}


def _formula_arguments(system: System) -> dict[str, Any]:
    if system.is_canonical and system.hamiltonian_formula:
        return {"hamiltonian": system.hamiltonian_formula}
    if not (formulas := system.field_formulas):
        raise InputError(
            f"no equations of {system.name} are known, or they are too long; take another model"
        )
    return {"field": formulas}
