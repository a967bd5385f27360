"""Systems and maps of Python functions: formulas where NumPy finds them, else they are called."""

from __future__ import annotations

import pickle
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import complex_values, of_kind, one_of, real_array, whole
from vpintegrator.dynamics.claims import Claim, ClaimTrial, check_claims, place
from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.equations import as_given, float_array, is_tensor
from vpintegrator.dynamics.expressions.algebra import TooLong
from vpintegrator.dynamics.properties import Definition
from vpintegrator.dynamics.python_functions import (
    EXACT,
    OF_NOISE,
    BatchFunction,
    PythonCall,
    read_call,
)
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION, plain_value, read_equations
from vpintegrator.dynamics.recording import NotTraceable, record
from vpintegrator.dynamics.system import OF_STACKS, System
from vpintegrator.dynamics.trial_states import MOST_STATES, domain_states, orbit_states
from vpintegrator.errors import InputError, printable
from vpintegrator.names import FORMS
from vpintegrator.storage.toml import toml_text

_TIME = "t"
_AGREEMENT = 1e-11  # relative difference of a function from its formulas
_VALUES = 8192  # components of states for checks of called functions, but for a few states
_TIME_SPAN = 10.0  # range of times for checks
_CLAIMS = {"invariants", "reversing_symmetry", "periodic", "symplectic", "divergence_free"}


@dataclass
class GivenFunction:
    """A function with all that is said of it, which becomes a system file.

    Attributes
    ----------
    function
        The vector field or the map; None where only a Hamiltonian is given.
    components
        Names of the components.
    hamiltonian, divergence_free, invariants, reversing_symmetries, periodic, period, sample, step
        Arguments of :meth:`vpintegrator.System.from_function`.
    parameters, name
        The same.
    structure
        Argument of :meth:`vpintegrator.System.from_map`.
    is_map
        Whether the function is a map.
    """

    function: Callable[..., Any] | None
    components: list[str]
    hamiltonian: Any = None
    divergence_free: Any = None
    reversing_symmetries: Any = ()
    invariants: Any = None
    periodic: Any = None
    period: Any = None
    sample: Any = None
    step: Any = None
    parameters: Any = None
    name: Any = None
    structure: Any = None
    is_map: bool = False
    scalars: dict[str, PythonCall] = field(init=False)

    def __post_init__(self) -> None:
        half = len(self.components) // 2
        order = list(range(len(self.components)))
        if self.hamiltonian is not None or self.structure == "symplectic":
            order = list(canonical_order(self.components, "components")) or order
        self.halves = order[:half], order[half:]
        self.parameters = plain_value(_named("parameters", self.parameters), "parameters")
        self.call = self.energy = None
        if self.function is not None:
            what, kind = ("turn", "map") if self.is_map else ("f", "field")
            self.call = self._read(self.function, what, kind)
        if self.hamiltonian is not None:
            self.energy = self._read(self.hamiltonian, "hamiltonian")
        named = _named("invariants", self.invariants)
        self.scalars = {str(k): self._read(f, f"invariants, {k}") for k, f in named.items()}
        if self.structure is not None:
            one_of("structure", self.structure, FORMS)
        first = self.hamiltonian if self.function is None else self.function
        usual = getattr(first, "__name__", type(first).__name__).replace("_", "-").strip("-<>")
        self.name = usual if self.name is None else str(self.name)
        self.source = f"function {self.name}"

    def _read(self, function: Any, what: str, kind: str = "scalar") -> PythonCall:
        return read_call(function, what, self.parameters, self.halves, kind)

    def _text(self, timed: bool = False, fixed: Sequence[str] = (), **keys: Any) -> str:
        """Return a system file with formulas, or other keys in their place."""
        angles = {} if self.periodic is None else self.periodic
        if not isinstance(angles, Mapping):
            names = [angles] if isinstance(angles, str) else angles
            of_kind("periodic", names, (list, tuple), "periods by names of components, or names")
            angles = {str(name): "2*pi" for name in names}
        step = 1.0 if self.is_map and "measured" in keys else self.step
        entries: dict[str, Any] = {
            "title": printable(self.name),
            "state": self.components,
            "time": _TIME if timed else None,
            "period": self.period if timed else None,
            "divergence_free": True if self.structure == "volume" else self.divergence_free,
            "symplectic": True if self.structure == "symplectic" else None,
            "reversing_symmetry": _symmetry_tables(self.reversing_symmetries, self.components),
            "parameters": {k: v for k, v in self.parameters.items() if k not in fixed},
            "periodic": angles,
            "initial_conditions": _initial_table(self.sample),
            "defaults": {} if step is None else {"step": step},
        }
        entries = {k: plain_value(v, k) for k, v in (entries | keys).items() if v is not None}
        tables = {key: entry for key, entry in entries.items() if isinstance(entry, Mapping)}
        return toml_text({k: v for k, v in entries.items() if k not in tables}, tables)

    def _measured(self, timed: bool = False) -> System:
        """Return a system of the same states without equations."""
        return System(self._text(timed, measured=True), self.name, source=self.source)

    def system(self) -> System:
        """Return the system or map of the function, with its claims checked."""
        reason = ""
        counts = [name for name, value in self.parameters.items() if isinstance(value, int)]
        for fixed in ([], counts)[: 1 + bool(counts)]:  # whole numbers may count
            try:
                return self._recorded(fixed)
            except NotTraceable as error:
                reason = reason or str(error)
        return self._called(reason)

    def _recorded(self, fixed: Sequence[str]) -> System:
        """Return the system of the formulas that the functions are.

        Raises
        ------
        NotTraceable
            If no formulas say what they do.
        """
        first = (self.call, len(self.components)) if self.energy is None else (self.energy, 1)
        calls: Any = [first, *((call, 1) for call in self.scalars.values())]
        texts, timed = record(calls, self.components, _TIME, self.parameters, fixed)
        if self.energy is not None:
            keys: dict[str, Any] = {"hamiltonian": texts.pop(0)}
        else:
            rates = {name: texts.pop(0) for name in self.components}
            keys = {"map" if self.is_map else "vector_field": rates}
        keys["invariants"] = dict(zip(self.scalars, texts, strict=True))
        # constants of Python functions are rounded, and declared properties hold to that
        text = self._text(timed, fixed, rounded=True, **keys)
        table = {k: v for k, v in tomllib.loads(text).items() if k not in _CLAIMS}
        try:  # the formulas of a function may be longer than those of files
            read_equations(table, self.source, {})
        except (InputError, TooLong, RecursionError, ArithmeticError) as error:
            raise NotTraceable(f"its formulas cannot be read: {error}") from None
        system = System(text, self.name, source=self.source)
        if self.call is not None:
            self._compare(system, self.call)
        return system

    def _sample(self) -> tuple[np.ndarray, Definition]:
        """Return points (point, dim + 1) of the sampling domain, states and times, and this."""
        domain = self._measured()
        count = int(np.clip(_VALUES // domain.dim, MOST_STATES // 8, MOST_STATES))
        states = domain_states(domain.definition, count)
        assert states is not None
        times = np.linspace(0.0, 0.0 if self.is_map else _TIME_SPAN, len(states))
        return np.column_stack([states, times]), domain.definition

    def _compare(self, system: System, call: PythonCall) -> None:
        """Compare a function with its formulas; InputError where the Hamiltonian is another's."""
        (points, _) = self._sample()
        dim = len(self.components)
        function = BatchFunction(call, dim, self.parameters, points)
        with np.errstate(all="ignore"):
            images = function(points)
            of_formulas = system.map if self.is_map else system.vector_field
            known = of_formulas(points[:, : system.dim])[:, :dim]
        size = 1 + np.abs(np.nan_to_num(images)).max(axis=1)
        defect = np.abs(images - known).max(axis=1)
        # formulas must have a value wherever the function has one
        defect = np.where(np.isfinite(images).all(axis=1), np.nan_to_num(defect, nan=np.inf), 0)
        worst = int(np.argmax(defect / size))
        if defect[worst] > _AGREEMENT * size[worst]:
            where = f"{defect[worst]:.3g} at {place(self.components, points[worst, :dim])}"
            if self.energy is not None:
                raise InputError(
                    f"{self.source}, hamiltonian: f is not (dH/dp, -dH/dq), they differ by {where}"
                )
            raise NotTraceable(f"its formulas differ from it by {where}")

    def _called(self, reason: str) -> System:
        """Return the system that calls the function; its text says its properties, and no code."""
        points, domain = self._sample()

        def batch(call: PythonCall, count: int = 0) -> BatchFunction:
            return BatchFunction(call, count, self.parameters, points)

        energy = None if self.energy is None else batch(self.energy)
        call = self.call
        if call is None:
            assert self.energy is not None and energy is not None
            if energy.library != "torch":
                raise InputError(
                    f"{self.source} was not recorded as formulas ({reason}), and needs "
                    "derivatives: write it with torch's functions, or give the vector field too, "
                    "with System.from_function"
                )
            call = _HamiltonianField(**vars(self.energy))
        values = batch(call, len(self.components))

        def image(states: np.ndarray) -> np.ndarray:
            return values(_points(states, None))

        def field(components: np.ndarray) -> np.ndarray:
            return image(components.T).T

        points = points[np.isfinite(values(points)).all(axis=1)]
        if not len(points):
            raise InputError(
                f"{self.source} has no finite value at states of its sampling domain; give "
                "sample=(low, high), a box in which it has"
            )
        law = image if self.is_map else field
        orbits = orbit_states(domain, law, points[:, :-1], is_map=self.is_map)
        points = np.vstack([points, _points(orbits, None)])
        points = points[np.isfinite(values(points)).all(axis=1)]
        timed = not self.is_map and _depends_on_time(values, points)
        scalars = {name: batch(scalar) for name, scalar in self.scalars.items()}
        if energy is not None and not timed:
            scalars = {"energy": energy, **scalars}
        system = CalledFunction(self, self._text(timed, measured=True), values, scalars, reason)
        trial = _CalledTrial(system, points)
        if energy is not None:
            trial.check_hamiltonian(energy)
        free, symplectic = check_claims(trial, self.source)
        texts = {}
        for name, scalar in scalars.items():
            with suppress(NotTraceable):  # files hold invariants that are formulas
                formulas, _ = record([(scalar.call, 1)], self.components, _TIME, self.parameters)
                texts[name] = formulas[0]
        if values.noise:
            warnings.warn(_of_precision(self, system), stacklevel=4)
        text = self._text(
            timed,
            measured=True,
            derivatives="autograd" if values.library == "torch" else "finite differences",
            divergence_free=free,
            symplectic=True if symplectic or energy is not None else None,
            function=_reference_of(call.function),
            invariants=texts,
        )
        return CalledFunction(self, text, values, scalars, reason)


class CalledFunction(System):
    """A system or map of a function that is called.

    Parameters
    ----------
    given
        The function and its claims.
    text
        System file with the properties, and no code.
    values, scalars
        The function, and its invariants by name.
    reason
        Reason why no formulas say what the function does.
    """

    is_measured = False

    def __init__(
        self,
        given: GivenFunction,
        text: str,
        values: BatchFunction,
        scalars: Mapping[str, BatchFunction],
        reason: str,
    ) -> None:
        self.given = given
        self.values = values
        self.scalars = scalars
        self._reason = reason
        super().__init__(text, given.name, source=given.source)
        for name in scalars.keys() - self.invariants.keys():
            self.invariants[name] = partial(self.at, scalars[name])

    @property
    def is_discrete(self) -> bool:
        return self.given.is_map

    @property
    def is_exact(self) -> bool:
        return self.given.is_map

    @property
    def smallest_tolerance(self) -> float:
        return max(super().smallest_tolerance, OF_STACKS * self.values.noise)

    @property
    def conserved(self) -> list[int]:
        return [] if self.given.is_map else super().conserved

    def require_formulas(self, what: str) -> None:
        raise InputError(
            f"{what} needs formulas, but {self.name} is a Python function that was not recorded as "
            f"formulas ({self._reason})"
        )

    def with_parameters(self, values: Mapping[str, Any]) -> System:
        if unknown := [name for name in values if name not in self.parameters]:
            known = ", ".join(self.parameters) or "none"
            raise InputError(f"the function has no parameter '{unknown[0]}' (it has: {known})")
        given = replace(self.given, parameters={**self.given.parameters, **values})
        return given.system()

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.dumps(self.given)
        except Exception:
            raise InputError(
                f"{self.name} cannot be sent to other processes, as its function is no function of "
                "a module; define it at the top of a file, or take one worker"
            ) from None
        return GivenFunction.system, (self.given,)

    def at(self, function: Callable[[np.ndarray], np.ndarray], state: Any) -> Any:
        """Return values (..., value) of a function of points at states (..., dim)."""
        array = float_array(self.checked_state(state))
        values = function(_points(array.reshape(-1, self.dim), self.explicit_time))
        return as_given(values.reshape((*array.shape[:-1], *values.shape[1:])), state)

    def rates(self, points: np.ndarray) -> np.ndarray:
        """Return the vector field, or the image, at points: (point, dim), 1 for the time."""
        return np.hstack([self.values(points), np.ones((len(points), self.dim - self.phase_dim))])

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """Return the Jacobian matrices at points, (point, dim, dim)."""
        clock = np.zeros((len(points), self.dim - self.phase_dim, self.dim))
        return np.concatenate([self.values.slopes(points)[..., : self.dim], clock], axis=1)

    def vector_field(self, state: Any, parameters: Any = None) -> Any:
        self.require_vector_field("this")
        return self.at(self.rates, state)

    def vector_field_by_component(self, components: Any, parameters: Sequence[Any] = ()) -> Any:
        if is_tensor(components):
            return self._tensor_rates(components)
        return np.moveaxis(self.vector_field(np.moveaxis(components, 0, -1)), -1, 0)

    def _tensor_rates(self, components: Any) -> Any:
        """Return rates (dim, ...) at a tensor (dim, ...), with a graph for autograd."""
        import torch

        if self.values.library != "torch":
            self.require_formulas("a gradient")
        rows = components.flatten(1).T  # (point, dim)
        states = rows[:, : self.phase_dim]
        clock = rows[:, self.phase_dim :]
        times = clock[:, 0] if clock.shape[1] else states.new_zeros(len(states))
        rates = torch.cat([self.values.evaluate(states, times), torch.ones_like(clock)], dim=1)
        return rates.T.reshape(components.shape)

    def jacobian(self, state: Any) -> Any:
        self.require_vector_field("the Jacobian matrix")
        return self.at(self.slopes, state)

    def jacobian_by_component(self, components: Any, parameters: Sequence[Any] = ()) -> Any:
        if is_tensor(components) and components.requires_grad:
            self.require_formulas("a derivative of the Jacobian matrix")
        slopes = self.jacobian(np.moveaxis(float_array(components), 0, -1))
        return as_given(np.moveaxis(slopes, (-2, -1), (0, 1)), components)

    def hamiltonian(self, state: Any) -> Any:
        if "energy" in self.invariants and self.is_canonical:
            return self.invariants["energy"](state)
        return super().hamiltonian(state)

    def divergence(self, state: Any) -> Any:
        return self.jacobian(state).diagonal(0, -2, -1).sum(-1)

    def map(self, state: Any, parameters: Sequence[Any] = ()) -> Any:
        self.require_map()
        if is_tensor(state) and state.requires_grad:
            return self._tensor_rates(state.movedim(-1, 0)).movedim(0, -1)
        return self.at(self.rates, state)

    def map_jacobian(self, state: Any, parameters: Sequence[Any] = ()) -> np.ndarray:
        self.require_map()
        return self.at(self.slopes, state)

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        return None


class _CalledTrial(ClaimTrial):
    """States of the sampling domain of a function that is called, in double precision."""

    def __init__(self, system: CalledFunction, points: np.ndarray) -> None:
        self.equations = system.equations
        self.is_map = system.is_discrete
        self.halves = system.given.halves
        self._dim = system.phase_dim
        self._system = system
        self._points = points
        self.states = points[:, : system.dim]
        self.values = self.at(self.states)
        noises = [system.values.noise, *(each.noise for each in system.scalars.values())]
        self.tolerance = max(EXACT, OF_NOISE * max(noises))
        self.domain = self.states.min(axis=0), self.states.max(axis=0)
        self.slope_tolerance = system.values.slope_tolerance
        self.scalars = {name: partial(system.at, f) for name, f in system.scalars.items()}

    def at(self, states: np.ndarray) -> np.ndarray:
        values: np.ndarray = self._system.at(self._system.rates, states)
        return values

    def rate_terms(self, name: str) -> np.ndarray:
        slopes = self._system.scalars[name].sound_slopes(self._points)[:, 0]
        return slopes * np.column_stack([self.values[:, : self._dim], np.ones(len(slopes))])

    def divergence_terms(self) -> np.ndarray:
        return np.diagonal(self.derivative(), axis1=1, axis2=2)

    def derivative(self) -> np.ndarray:
        return self._system.values.sound_slopes(self._points)[..., : self._dim]

    def check_hamiltonian(self, energy: BatchFunction) -> None:
        """Raise InputError where the vector field is not (dH/dp, -dH/dq)."""
        (positions, momenta) = self.halves
        values = self.values[:, : self._dim]
        slopes = energy.sound_slopes(self._points)[:, 0]
        expected = np.empty_like(values)
        expected[:, positions] = slopes[:, momenta]
        expected[:, momenta] = -slopes[:, positions]
        defects = np.abs(values - expected).max(axis=1)
        what = "f is not (dH/dp, -dH/dq), they differ by {}"
        where = f"{self._system.given.source}, hamiltonian"
        sizes = 1 + np.abs(values).max(axis=1)
        self.require(Claim(where, what, defects, sizes, energy.slope_tolerance))


class _HamiltonianField(PythonCall):
    """The vector field (dH/dp, -dH/dq) of a Hamiltonian in PyTorch, by autograd."""

    def __call__(self, t: Any, y: Any, parameters: Mapping[str, Any], axis: int = 0) -> Any:
        import torch

        if not isinstance(y, torch.Tensor):
            raise TypeError("a Hamiltonian in PyTorch takes tensors")
        with torch.enable_grad():
            y = y if y.requires_grad else y.detach().requires_grad_()
            energy = super().__call__(t, y, parameters, axis)
            if energy.is_complex():
                raise complex_values(self.name)
            slopes = torch.autograd.grad(energy.sum(), y, create_graph=True)[0].movedim(axis, 0)
            order = np.argsort([*self.halves[0], *self.halves[1]])
            rates = torch.cat([slopes[self.halves[1]], -slopes[self.halves[0]]])[order]
        rates = rates.movedim(0, axis)
        return rates if torch.is_grad_enabled() else rates.detach()


def system_of(function: Any, dim: Any, components: Any, letter: str, **claims: Any) -> System:
    """Return the system of a function, or of a Hamiltonian alone, see :class:`GivenFunction`.

    ``letter`` is that of the default names of components; q for positions and momenta.
    """
    names = _component_names(dim, components, letter)
    return GivenFunction(function, names, **claims).system()


def _of_precision(given: GivenFunction, system: System) -> str:
    """Return the warning for a function of lower than double precision."""
    call = given.energy if given.call is None else given.call
    assert call is not None
    noise = system.values.noise  # type: ignore[attr-defined]
    single = ", as in single precision" if 1e-8 < noise < 1e-6 else ""
    limit = "" if given.is_map else f", and solutions to {system.smallest_tolerance:.0e} at best"
    return (
        f"values of {call.name} are accurate to {noise:.0e}{single}{limit}; for more, compute in "
        "double precision: net.double() in PyTorch, jax.config.update('jax_enable_x64', True)"
    )


def _points(states: np.ndarray, explicit_time: int | None) -> np.ndarray:
    """Return states (state, dim) with the time as the last column."""
    return states if explicit_time is not None else np.column_stack([states, np.zeros(len(states))])


def _depends_on_time(values: BatchFunction, points: np.ndarray) -> bool:
    if values.reads_time(points[0, :-1]):  # as for a force that acts at other times
        return True
    times = (0.0, 0.618, 2.718, 7.389)
    first, *others = (values(np.c_[points[:, :-1], np.full(len(points), t)]) for t in times)
    return not all(np.array_equal(first, each, equal_nan=True) for each in others)


def _reference_of(function: Any) -> str | None:
    """Return ``module:name`` of the function, where it has one."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<>")
    if module == "__main__":
        module = getattr(sys.modules["__main__"], "__file__", None)
        module = None if module is None else Path(module).stem
    known = isinstance(module, str) and "<" not in name and "." not in name
    return f"{module}:{name}" if known else None


def _component_names(dim: Any, components: Any, letter: str) -> list[str]:
    """Names of components: those given, or ``y1, y2, ...``; for q also the momenta."""
    if isinstance(components, str):
        components = [name.strip() for name in components.split(",")]
    if components is None:
        if dim is None:
            raise InputError("say how many components a state has: dim=2, or components=['q', 'p']")
        half, odd = divmod(whole("dim", dim, 1, MAXIMUM_DIMENSION), 2)
        if letter == "q" and not odd:
            return ["q", "p"] if half == 1 else [f"{x}{i + 1}" for x in "qp" for i in range(half)]
        return [f"{'y' if letter == 'q' else letter}{i + 1}" for i in range(dim)]
    of_kind("components", components, (list, tuple), "a list of names")
    if dim is not None and len(components) != dim:
        raise InputError(f"dim = {dim}, but there are {len(components)} names of components")
    return [str(name) for name in components]


def _named(argument: str, values: Any) -> Mapping[str, Any]:
    """Return values by name, without any for None."""
    words = "a dictionary, as in {'k': 1.0}"
    return dict(of_kind(argument, {} if values is None else values, Mapping, words))


def _initial_table(sample: Any) -> dict[str, Any]:
    """Return the table ``[initial_conditions]`` that ``sample`` means."""
    given = plain_value((-1, 1) if sample is None else sample, "sample")
    if isinstance(given, Mapping):
        return dict(given)
    if sample is None or (isinstance(sample, tuple) and len(sample) == 2):
        return {"distribution": "uniform", "low": given[0], "high": given[1]}
    return {"distribution": "points", "points": given}


def _symmetry_tables(symmetries: Any, components: Sequence[str]) -> list[dict[str, str]] | None:
    """Return reversing symmetries as tables of expressions, None without any."""
    dim = len(components)
    tables = []
    words = f"a list of matrices ({dim}, {dim}), or of the {dim} signs on their diagonals"
    for given in of_kind("reversing_symmetries", symmetries, (list, tuple, np.ndarray), words):
        matrix = real_array("reversing_symmetries", given, None)
        matrix = np.diag(matrix) if matrix.shape == (dim,) else matrix
        if matrix.shape != (dim, dim):
            raise InputError(f"reversing_symmetries must be {words}, not {printable(repr(given))}")
        images = {}
        for name, row, same in zip(components, matrix, np.eye(dim), strict=True):
            terms = [f"({c!r})*{z}" for z, c in zip(components, row.tolist(), strict=True) if c]
            if not np.array_equal(row, same):
                images[name] = " + ".join(terms) or "0"
        tables.append(images)
    return tables or None
