"""Arguments of models that follow from the structure of a system."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.model import Model

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

SYMPLECTIC = ("spff", "spt")  # gradient couplings of states (q, p)
GENERATING = ("sgf", "vpgf")  # linear in their coefficients


def family_arguments(architecture: type[Model], system: System) -> dict[str, Any]:
    """Return the arguments that say how many coefficients of steps and parameters layers read.

    Shears that all vanish with the step are, to first order in it, a sum of shears, and so is the
    field that they can follow. A field of another form needs free shears. A reversing symmetry of
    the step then makes the map of step zero the identity.
    """
    known, family = arguments_of(architecture), system.family
    assert family is not None
    if "parameters" not in known:
        raise InputError(
            f"the model {architecture.name} cannot be one of many steps and parameters; take vpff "
            "or spff"
        )
    implicit = architecture.name in GENERATING  # suited to any field
    free = len(system.reversing_symmetries) > 0 and not implicit
    free = free and not is_sum_of_shears(system, architecture)
    vanishing = {} if free or "vanishing" not in known else {"vanishing": family.vanishing}
    return {"dim": family.system.dim, "parameters": len(family.coefficients)} | vanishing


def is_sum_of_shears(system: System, architecture: type[Model]) -> bool:
    """Whether no component of the field drives itself; of (q, p), neither q each other nor p."""
    driven = system.equations.jacobian
    if architecture.name not in SYMPLECTIC:
        return not any(i == j for i, j in driven)
    assert system.family is not None
    half = system.family.system.dim // 2
    return not any(i // half == j // half for i, j in driven if max(i, j) < 2 * half)


def function_arguments(system: System, architecture: type[Model], functions: Any) -> dict[str, Any]:
    """Return arguments that say which functions of a system stand beside polynomials."""
    if functions == "system":
        if "expressions" not in arguments_of(architecture):
            raise InputError(
                f"{architecture.name} takes no expressions; leave out functions=system"
            )
        return {"functions": "polynomial", "expressions": functions_of(system, architecture)}
    if functions == "hamiltonian":
        formula = hamiltonian_of(system, architecture)
        result = {"functions": "polynomial", "hamiltonian": formula}
        # beyond the times of training exact terms alone are right, unless time is an angle
        beyond = system.explicit_time is not None and system.explicit_time not in system.periods
        return result | {"cyclic": [system.explicit_time]} if beyond else result
    return {}


def functions_of(system: System, architecture: type[Model]) -> list[str]:
    """Return the functions of the potentials for symplectic models, of the forces for others."""
    symplectic = architecture.name in SYMPLECTIC + GENERATING and system.is_canonical
    functions = system.hamiltonian_functions if symplectic else system.functions
    if not functions:
        what = "Hamiltonian" if symplectic else "vector field"
        raise InputError(
            f"functions = system: the {what} of {system.name} is not known, or made of "
            "polynomials and of sines and cosines of its angles alone; take functions = polynomial"
        )
    return functions


def hamiltonian_of(system: System, architecture: type[Model]) -> str:
    if "hamiltonian" not in arguments_of(architecture):
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


def formula_arguments(system: System, known: Collection[str]) -> dict[str, Any]:
    """Return the arguments of models that are made of the formulas of the equations."""
    if not {"hamiltonian", "field"}.issubset(known):
        return {}
    if system.is_canonical and system.hamiltonian_formula:
        return {"hamiltonian": system.hamiltonian_formula}
    if not (formulas := system.field_formulas):
        raise InputError(
            f"no equations of {system.name} are known, or they are too long; take another model"
        )
    return {"field": formulas}
