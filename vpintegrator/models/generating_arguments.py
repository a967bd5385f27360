"""Arguments of generating functions, and the constraints that symmetries impose on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import ReversibleArguments, argument
from vpintegrator.nn.canonical import SignedGroup, form_signs
from vpintegrator.nn.symmetry import generated_group, symmetry_group


@dataclass(frozen=True, kw_only=True)
class GeneratingArguments(ReversibleArguments):
    """Arguments of models that are linear in their coefficients."""

    one_step = True
    functions: str = argument(
        "polynomial",
        "Polynomials, with harmonics of angles.",
        choices=["polynomial"],
        omitted=True,
    )
    degree: int = argument(6, "Of the polynomials, in all components together.")
    repeats: int = argument(
        1,
        "Equal maps in a row, each of an equal part of the step; for autonomous systems.",
        omitted=True,
    )
    expressions: Any = argument(
        (),
        "Functions of the state such as ``log(z[0])`` that the polynomials take as further "
        "variables, see ``GeneratingFunction``.",
        kind="sequence of str",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from vpintegrator.nn.formulas import as_expressions

        self._set("expressions", as_expressions(self.expressions))
        whole("repeats", self.repeats)
        if self.repeats > 1 and self.explicit_time:
            raise InputError("maps in a row know no explicit time: repeats must be 1")

    @property
    def size(self) -> int:
        """Components of a state that move."""
        return self.dim - self.constants

    @property
    def options(self) -> dict[str, Any]:
        """Options of every generating function."""
        return {
            "periodic": [*self.periods],
            "cyclic": self.cyclic,
            "conserved": self.constants,
            "scaling": self.scaling,
        }


def signs_of_symplectic(a: GeneratingArguments) -> SignedGroup:
    r"""Return the group that reversing symmetries generate, and signs :math:`S(g m) = \pm S(m)`.

    Poincare's generating function changes its sign with the direction of time and with the sign of
    the form: a reversing symmetry that turns the form leaves S as it is.

    Raises
    ------
    InputError
        If an element does not keep the form but for its sign, or acts on time both ways.
    """
    dim, n = a.dim, a.size
    even = a.group
    if not len(a.reversing_symmetries):
        return even, torch.ones(len(even), dtype=torch.float64)
    both, time = signs_of_time(a.reversing_symmetries, dim)
    if len(both) != 2 * len(even):
        raise InputError("the reversing symmetries ask that the map is its own inverse")
    form = form_signs(both[:, :n, :n])
    if bool((form == 0).any()) or bool((both[:, :n, n:].abs() > 1e-9).any()):
        raise InputError(
            "the symmetries do not keep the symplectic form; give fewer reversing_symmetries"
        )
    return both, time * form


def signs_of_time(reversing_symmetries: Any, dim: int) -> SignedGroup:
    """Return the group of the reversing symmetries, with sign -1 for time reversal."""
    both, even = (
        generated_group(reversing_symmetries, dim),
        symmetry_group(reversing_symmetries, dim),
    )
    time = [1.0 if bool((even - g).abs().amax((1, 2)).min() < 1e-9) else -1.0 for g in both]
    return both, torch.tensor(time, dtype=torch.float64)


def signs_of_pair(a: GeneratingArguments, i: int, k: int) -> SignedGroup:
    """Return products of reversing symmetries, and their signs on the function of components i, k.

    Raises
    ------
    InputError
        If a symmetry is more than changes of sign.
    """
    group = a.group
    signs = group.diagonal(dim1=1, dim2=2)
    if bool(((group.abs() - torch.eye(a.dim, dtype=group.dtype)).abs() > 1e-9).any()):
        raise InputError(
            "the chain of generating functions respects changes of sign alone; give fewer "
            "reversing_symmetries"
        )
    return group, signs[:, i] * signs[:, k]
