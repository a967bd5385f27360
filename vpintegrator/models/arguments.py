"""Groups of arguments that models share.

Nothing here needs torch, so that command lines are quick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from vpintegrator.arguments import plain
from vpintegrator.errors import InputError
from vpintegrator.models.declaration import Arguments, Blocks, argument, kinds_of
from vpintegrator.names import ACTIVATIONS

if TYPE_CHECKING:
    import torch

LARGEST_WINDOW = 10_000  # time steps: correlations in time are matrices of that size
_SHOWN = 3  # expressions in a description


@dataclass(frozen=True, kw_only=True)
class IntegratorArguments(Arguments):
    """Arguments of every model that steps windows of states forward in time."""

    one_step: ClassVar[bool] = False  # whether windows are of one state

    dim: int = argument(help="Components of a state.", least=1)
    window: int = argument(1, "Time steps read.", least=1, flag="Time steps that the model reads.")
    prediction_window: int | None = argument(
        None,
        "Time steps predicted; window by default.",
        least=1,
        flag="How many of its output are new.  [default: 1 for transformers, else window]",
    )
    shift: Any = argument(None, "Normalisation, see ``Integrator``; by default 0.", kind="(dim,)")
    scale: Any = argument(None, "Normalisation, see ``Integrator``; by default 1.", kind="(dim,)")
    dtype: Any = argument("float64", "Weights are drawn in float64.", kind="torch.dtype or str")
    component_order: Any = argument(
        None,
        "Numbers of the components in the order in which the network takes them: for symplectic "
        "models all positions and then their momenta. Other arguments number components so; "
        "by default the order of states.",
        kind="sequence of int",
        omitted=True,
    )
    chart: Any = argument(
        (),
        "Coordinates in which the network works, as expressions of the components of a state such "
        "as ``log(z[0])``. Normalisation, symmetries and angles are those of the new components.",
        kind="sequence of str",
        omitted=True,
    )
    inverse_chart: Any = argument(
        (),
        "The components of a state, as expressions of the new ones.",
        kind="sequence of str",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.one_step and self.window != 1:
            raise InputError(
                f"a map of one step: window must be 1, not {self.window}; take a model of windows, "
                "such as vpt or spt"
            )
        for name in ("chart", "inverse_chart"):
            if isinstance(given := getattr(self, name), tuple):
                self._set(name, list(given))  # as it comes from a file
        if self.window > LARGEST_WINDOW:
            raise InputError(f"window = {self.window} must be at most {LARGEST_WINDOW}")
        if self.prediction_window is None:
            self._set("prediction_window", self.window)
        elif self.prediction_window > self.window:
            raise InputError(
                f"prediction_window = {self.prediction_window} must not be larger than window = "
                f"{self.window}"
            )


@dataclass(frozen=True, kw_only=True)
class ConservedArguments(IntegratorArguments):
    """Arguments of models whose states include constants of motion."""

    conserved: Any = argument(
        (),
        "Components that stay as they are, bit by bit, and that the others depend on: the last "
        "ones, or any where couplings are by polynomials.",
        kind="sequence of int",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("conserved", as_components("conserved", self.conserved, self.dim))

    @property
    def constants(self) -> int:
        """Number of conserved components, which must be the last ones.

        Raises
        ------
        InputError
            If they are not the last ones.
        """
        return last_components("conserved", self.conserved, self.dim)


@dataclass(frozen=True, kw_only=True)
class PeriodicArguments(IntegratorArguments):
    """Arguments of models that know angles."""

    periodic: Any = argument(
        (),
        "Components that are angles, by number: polynomials have their sines and cosines in place "
        "of powers, the order of the harmonic counting as the degree.",
        kind="mapping or sequence of (component, period)",
    )

    @cached_property
    def periods(self) -> dict[int, float]:
        """The period of each component that is an angle."""
        return as_periods(self.periodic, self.dim)


@dataclass(frozen=True, kw_only=True)
class ReversibleArguments(ConservedArguments, PeriodicArguments):
    """Arguments of models with built-in symmetries and angles."""

    reversing_symmetries: Any = argument(
        (),
        "Matrices rho with f(rho z) = -rho f(z). The map is made reversible for each of them; "
        "layers are averaged over the group of their products, or commute with it.",
        kind="sequence of (dim, dim)",
    )
    cyclic: Any = argument(
        (),
        "Components, by number, that polynomials do not depend on.",
        kind="sequence of int",
        omitted=True,
    )
    scaling: Any = argument(
        (),
        "Conserved components without which nothing moves, as a step is: terms of polynomials, "
        "functions of neurons and weightings of attention vanish with them, so that where all of "
        "them are zero the map is the identity.",
        kind="sequence of int",
        omitted=True,
    )
    explicit_time: bool = argument(
        False,
        "Whether the last component is the time: every call moves it on by the same, and all else "
        "as one in which it stays what it is in the middle of the step.",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cyclic", "scaling"):
            self._set(name, as_components(name, getattr(self, name), self.dim))
        if self.explicit_time:
            self._set("conserved", sorted({*self.conserved, self.dim - 1}))
        if not {*self.scaling}.issubset(self.conserved):
            raise InputError(
                f"scaling must be among the conserved components {self.conserved}, not "
                f"{self.scaling}"
            )

    @cached_property
    def group(self) -> torch.Tensor:
        """The symmetries (element, dim, dim) that are products of two reversing ones."""
        from vpintegrator.nn.symmetry import symmetry_group

        return symmetry_group(self.reversing_symmetries, self.dim)


@dataclass(frozen=True, kw_only=True)
class StackArguments(IntegratorArguments):
    """Arguments of models that are a stack of layers."""

    depth: int = argument(2, "Number of units.", least=1, flag="Blocks.")
    width: int | None = argument(
        16,
        "Hidden units.",
        flag="Hidden units.  [default: of resnet and transformer as many as there is time for]",
    )


@dataclass(frozen=True, kw_only=True)
class FunctionArguments(StackArguments, ReversibleArguments):
    """Arguments of the functions in couplings."""

    width: int = argument(16, "Hidden units of each coupling.")
    functions: str = argument(
        "neurons",
        "What couplings are made of: a hidden layer, see ``AdditiveCoupling``, or polynomials, see "
        "``BasisCoupling``. Polynomials are far more accurate and cheaper where the flow is smooth "
        "and states stay where the model was trained; they run off elsewhere.",
        choices=["neurons", "polynomial"],
        omitted=True,
        flag="What couplings are made of: neurons; polynomial, more accurate where the flow is "
        "smooth, and only there where the data are; system, polynomials also in the functions that "
        "the system's equations are made of; hamiltonian, for sgf, polynomials beside exact terms "
        "of a known Hamiltonian; or auto, which tries neurons and prolonged polynomials for some "
        "half of the budget.  [default: auto where the model has the choice]",
    )
    degree: int = argument(
        6,
        "Of the polynomials, in all components together.",
        flag="Of polynomials.  [default: found by --functions auto]",
    )
    expressions: Any = argument(
        (),
        "Functions of the state such as ``exp(z[0] - z[1])`` that polynomials take as further "
        "variables, see ``BasisCoupling`` and ``BasisPotential``.",
        kind="sequence of str",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from vpintegrator.nn.formulas import as_expressions

        self._set("expressions", as_expressions(self.expressions))

    def check_neurons(self, *names: str) -> None:
        """Raise InputError if arguments of polynomials are given where functions are neurons."""
        declared = self.declared()
        if self.functions == "neurons" and any(
            getattr(self, name) not in ([], {}, declared[name].default) for name in names
        ):
            raise InputError(
                f"{' and '.join(names)} are for functions = polynomial; neurons take neither"
            )

    @property
    def polynomials(self) -> str:
        """Description of the polynomials in words."""
        what = f"polynomials of degree {self.degree}"
        shown = [*self.expressions[:_SHOWN], *(["..."] if len(self.expressions) > _SHOWN else [])]
        return f"{what} in the components and {', '.join(shown)}" if shown else what

    def stored(self) -> dict[str, Any]:
        """Return the arguments to store; of neurons without the degree of polynomials."""
        left_out = {"degree", "expressions"} if self.functions == "neurons" else set()
        return {name: value for name, value in super().stored().items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class HeadArguments(FunctionArguments):
    """Arguments of multihead attention inside couplings."""

    attention_width: int = argument(4, "Width of the attention, divisible by its heads.")
    heads: int = argument(2, "Heads of the attention.", flag="Attention heads.")


@dataclass(frozen=True, kw_only=True)
class RotationArguments(FunctionArguments):
    """Arguments of attention whose weights are rotations."""

    weighting: str = argument(
        "auto",
        "The attention: ``VolumePreservingAttention`` with that weighting, or "
        '``CoupledAttention``. "auto" is "skew", or "coupled" where several reversing symmetries '
        "leave no skew weighting but zero (the sign flips of the rigid body). The attribute "
        "``weighting``, the arguments and the description say which it is.",
        choices=["auto", "skew", "coupled", "arbitrary"],
        flag="Attention weighting: skew, coupled, arbitrary, or auto, which is skew where the "
        "symmetries allow it, else coupled.",
    )
    attention_scale: float | None = argument(
        None, 'Factor of the correlations, for "skew" and "arbitrary"; 1 by default.'
    )
    time_mixing: bool = argument(
        False, "Also mix the time steps by a constant rotation in each unit."
    )


@dataclass(frozen=True, kw_only=True)
class TriangularArguments(FunctionArguments):
    """Arguments of feed-forward layers: couplings or, as published, triangular layers."""

    feed_forward: str = argument(
        "coupling",
        "Sweeps of couplings, or the published stacks of triangular layers. Those only respect "
        "diagonal symmetries, and in few components little of them survives the average (of "
        "three, under all sign flips, one never moves, and a warning says so).",
        choices=["coupling", "triangular"],
        flag="Feed-forward layers: coupling, triangular.",
    )
    blocks: int = argument(2, 'For "triangular": blocks in a stack.')
    linear: int = argument(1, 'For "triangular": linear pairs in a block.')
    upper_first: bool = argument(False, 'For "triangular": which layer begins each pair.')


@dataclass(frozen=True, kw_only=True)
class CouplingArguments(FunctionArguments):
    """Arguments of couplings: division of a state, initial weights, window function."""

    split: Blocks = argument(
        "coordinates",
        "What a coupling updates in turn.",
        kind='"coordinates", "halves" or blocks of indices',
    )
    bases: int = argument(
        1,
        "Bases of directions along which polynomials shear: the coordinates, and as many rotated "
        "ones as make up this number, see ``Rotated``. For vector fields of which a component "
        "depends on itself.",
        least=1,
        omitted=True,
    )
    sweep: str = argument(
        "forward",
        "Whether each unit updates all blocks once, or to and fro, as symmetric splitting methods "
        "do.",
        choices=["forward", "symmetric"],
        omitted=True,
    )
    activation: str = argument(
        "tanh",
        "Of hidden layers.",
        choices=ACTIVATIONS,
        flag="Activation function, such as tanh.",
    )
    initial_scale: float = argument(
        1e-2, "Size of the initial weights of attention and of the outer weights of couplings."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.split, str):
            self._set("split", self.split_blocks)

    @property
    def split_blocks(self) -> list[list[int]]:
        """All blocks, those of conserved components too."""
        from vpintegrator.nn.split import as_blocks

        return as_blocks(self.split, self.dim, self.conserved)

    @property
    def moving_blocks(self) -> list[list[int]]:
        """The blocks of components that move."""
        return [block for block in self.split_blocks if not {*block}.issubset(self.conserved)]


# in the order in which vp-train lists their flags
GROUPS = (
    IntegratorArguments,
    StackArguments,
    FunctionArguments,
    HeadArguments,
    RotationArguments,
    TriangularArguments,
    CouplingArguments,
)


def flagged() -> dict[str, tuple[Any, str]]:
    """Return kind and text of the arguments that have a flag of their own."""
    return {
        each.name: (kinds_of(group)[each.name][0], each.metadata["flag"])
        for group in GROUPS
        for each in fields(group)
        if each.metadata["flag"]
    }


def as_components(name: str, numbers: Any, dim: int) -> list[int]:
    """Return numbers of components, each once."""
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise InputError(f"{name} must be a list of components, not {numbers!r}")
    found = [plain(f"a component of {name}", number, (int,)) for number in numbers]
    if len({*found}) < len(found) or not all(0 <= number < dim for number in found):
        raise InputError(f"{name} must name components 0 ... {dim - 1}, each once, not {found}")
    return found


def last_components(name: str, numbers: list[int], dim: int) -> int:
    """Return the number of named components, which must be the last ones, and not all."""
    count = len(numbers)
    if sorted(numbers) != list(range(dim - count, dim)) or count == dim:
        raise InputError(
            f"{name} must name the last of {dim} components, and not all of them, not {numbers}"
        )
    return count


def as_periods(periodic: Any, dim: int) -> dict[int, float]:
    """Return the periods of angles by number, from pairs (component, period)."""
    pairs = periodic.items() if isinstance(periodic, Mapping) else periodic
    periods: dict[int, float] = {}
    for pair in pairs if isinstance(pairs, Iterable) else [pairs]:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"periodic must hold pairs (component, period), not {pair!r}")
        component = plain("a component of periodic", pair[0], (int,))
        period = plain("a period of periodic", pair[1], (float,))
        if not 0 <= component < dim or component in periods:
            raise InputError(
                f"periodic must name components 0 ... {dim - 1}, each once, not {component}"
            )
        if period <= 0:
            raise InputError(f"periodic: a period must be positive, not {period}")
        periods[component] = period
    return periods
