"""Base class of models: layers that map windows of states, in coordinates of states."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import of_kind, real_array, whole
from vpintegrator.dynamics.structure import Structure
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.maps.map import Map
from vpintegrator.models.components import Components, Coordinates
from vpintegrator.models.derivatives import derivative_epsilon, network_jacobian, network_tangent
from vpintegrator.models.family import ROUNDING, STEP, UNITS, FamilyParameters
from vpintegrator.models.iteration import (
    as_parameters,
    as_windows,
    evaluating,
    gradients_off,
    trajectories,
)
from vpintegrator.models.registry import DESCRIPTIONS
from vpintegrator.models.stored import Member, Origin, Record, Stored
from vpintegrator.nn.chart_map import ChartMap
from vpintegrator.nn.composition import Reversible, having, is_invertible
from vpintegrator.nn.invariants import PolynomialInvariants
from vpintegrator.nn.layer import as_dtype, beside, last_size, parameters_for
from vpintegrator.nn.symmetry import fixed_point_projection

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

LARGEST_WINDOW = 10_000  # time steps: correlations in time are matrices of that size
_SEEN = 64  # stored states out of those that a model is adapted to


def check_model(value: Any) -> Model:
    """Return a model of this package, else raise InputError."""
    words = "a model of this package; vp.wrap makes one of a torch module"
    model: Model = of_kind("model", value, Model, words)
    return model


class Model(Stored, Map):
    r"""A network that steps a window of states forward in time.

    ``forward`` takes windows (..., window, dim), a row per time step, to the windows
    ``prediction_window`` time steps later; the last ``prediction_window`` rows are new:

    .. math:: (z_1, \dots, z_T) \mapsto (z_{1+P}, \dots, z_{T+P}), \qquad
        T = \text{window}, \quad P = \text{prediction window}.

    A rollout iterates this map, so ``window = model(window)`` gives the same states. If P = T, the
    network maps whole windows, and the map keeps what the network keeps. If P < T, the window is
    shifted, and only the last P rows are the network's: such a map keeps neither volume nor a form,
    is not reversible and has no explicit inverse. ``core`` is the network itself.

    The layers work in :class:`Coordinates`: states enter as :math:`(z - \text{shift}) /
    \text{scale}` and leave it the other way round. In a chart z are its components, of which the
    volume (or symplectic form) is kept: the volume of states only where the chart keeps it.

    With reversing symmetries the map is :math:`\psi R \psi^{-1} R`, reversible for every one of
    them (see ``vpintegrator.nn.Reversible``), where :math:`\psi` is the core; where there are
    several it must commute with their products.

    A family is one model for every step and parameters of a system, which are its second argument:
    ``family(windows, parameters)`` with parameters (..., p) in the order of ``ranges``. Layers read
    their coefficients in the vector field, such as :math:`h (1/I_3 - 1/I_2)`, normalised, together
    with the time and the constant components of a state.

    A class of models builds its core in ``__init__`` and gives it to this one. What ``__init__`` is
    called with is stored, so its arguments are plain values.

    Parameters
    ----------
    core
        The network on windows in coordinates, in float64.
    components
        Number of components of a state, or :class:`Components` with their symmetries and angles.
    window
        Time steps read.
    prediction_window
        Time steps predicted; by default all of the window.
    dtype
        Type of the weights; they are drawn in float64 and cast.
    description
        One line about the architecture.

    Attributes
    ----------
    name, description : str
        Name on the command line, and one line about the model.
    arguments : dict
        The arguments that make an equal model, JSON-serialisable.
    coordinates : Coordinates
        Chart, normalisation and order of the components.
    family : FamilyParameters or None
        Step and parameters of a family, and their coefficients. Training sets it; without it a
        family takes the coefficients themselves.
    origin : Origin
        System, step and data that the model is for, stored with it; training fills it in.
    record : Record
        Its training, stored with it.
    choices : list of str
        Choices of ``vpintegrator.models.build`` without request, a sentence each.
    invariants : vpintegrator.nn.PolynomialInvariants or None
        Functions of normalised states that a projection keeps, see :meth:`keep`.
    seen : ndarray (state, dim) or None
        Some of the states that the model was adapted to; machine code is checked on them.

    Raises
    ------
    InputError
        If sizes do not fit, or the core cannot be made reversible.

    Examples
    --------
    A class of one's own, with its own arguments:

    >>> import torch, vpintegrator as vp
    >>> class Linear(vp.models.Model):
    ...     def __init__(self, dim: int, *, bias: bool = False) -> None:
    ...         super().__init__(torch.nn.Linear(dim, dim, bias=bias, dtype=torch.float64), dim)
    >>> model = Linear(dim=2, bias=True)
    >>> model.arguments
    {'dim': 2, 'bias': True}
    >>> vp.save(model, "linear.safetensors", overwrite=True)
    >>> vp.load("linear.safetensors", model=Linear).arguments
    {'dim': 2, 'bias': True}
    """

    name: str = ""
    core: Any
    invariants: PolynomialInvariants | None
    linear_in_parameters: ClassVar[bool] = False  # the coefficients, given pairs of states
    canonical: ClassVar[bool] = False  # built for states (q, p)
    fixed_window: ClassVar[int] = 1  # states read by a class without the argument ``window``
    kind: str = "learned"
    description: str = ""

    def __init__(
        self,
        core: nn.Module,
        components: int | Components,
        window: int = 1,
        prediction_window: int | None = None,
        *,
        dtype: str | torch.dtype = "float64",
        description: str = "",
    ) -> None:
        super().__init__()
        known = components if isinstance(components, Components) else Components(components)
        self.dim = known.dim
        self.window = whole("window", window, 1, LARGEST_WINDOW)
        new = window if prediction_window is None else prediction_window
        self.prediction_window = whole("prediction_window", new, 1, window)
        self.reversing_symmetries = known.reversing_symmetries
        self.moving = known.moving
        self.explicit_time = known.explicit_time
        self.parameter_count = known.parameters
        self.vanishing = known.vanishing
        self.description = description or self.description or DESCRIPTIONS.get(self.name, "")
        if self.explicit_time:
            self.register_buffer("time_step", torch.zeros(1, dtype=torch.float64))
        self.core = core
        if len(known.reversing_symmetries) and not getattr(core, "reversible_by_terms", False):
            self.core = Reversible(core, known.reversing_symmetries[0])
        self.origin = Origin()
        self.record = Record()
        self.choices: list[str] = []
        self.family: FamilyParameters | None = None
        if m := self.parameter_count:
            for name, value in zip(UNITS, (0.0, 1.0), strict=True):
                self.register_buffer(name, torch.full((m,), value, dtype=torch.float64))
        self.seen: np.ndarray | None = None
        self.invariants = None
        self.coordinates = Coordinates(known.dim, known.periods)
        self.set_normalisation(0.0, 1.0)
        self.to(as_dtype(dtype))

    def set_coordinates(
        self,
        *,
        order: Sequence[int] | None = None,
        chart: Sequence[str] = (),
        inverse_chart: Sequence[str] = (),
    ) -> None:
        """Let the layers work in other coordinates of states; the normalisation becomes trivial.

        Parameters
        ----------
        order, chart, inverse_chart
            Arguments of :class:`Coordinates`. Symmetries and angles are those of the new
            components, in their order.

        Raises
        ------
        InputError
            As :class:`Coordinates`; or if the chart has angles that the layers are not periodic in.

        Examples
        --------
        >>> model = vp.models.ResidualNetwork(dim=1)
        >>> model.set_coordinates(chart=["log(z[0])"], inverse_chart=["exp(z[0])"])
        >>> model.coordinates.chart.texts
        ['log(z[0])']
        """
        periods = self.coordinates.periods
        new = Coordinates(self.dim, periods, order=order, chart=chart, inverse_chart=inverse_chart)
        angles = set() if new.chart is None else new.chart.angles
        places = {k if new.order is None else new.order[k] for k in periods}
        if angles and not (angles <= places and self.arguments.get("functions") == "polynomial"):
            raise InputError(
                "chart: atan2 jumps from pi to -pi, so the layers must be periodic in its "
                f"components {sorted(angles)}: name them in periodic, and take functions = "
                "polynomial"
            )
        if new.chart is not None:
            self.description += f"; in the coordinates ({', '.join(new.chart.texts)})"
        self.coordinates = new.to(self.scale)
        self.set_normalisation(0.0, 1.0)

    @property
    def shift(self) -> torch.Tensor:
        """Shift (dim,) of the normalisation."""
        return self.coordinates.shift

    @property
    def scale(self) -> torch.Tensor:
        """Scale (dim,) of the normalisation."""
        return self.coordinates.scale

    @property
    def chart(self) -> ChartMap | None:
        """The chart in which the layers work, or None."""
        return self.coordinates.chart

    @property
    def structure(self) -> Structure:
        """Structure that the map of windows that is iterated keeps exactly, at any weights.

        A map that shifts windows keeps none, nor does one that is projected to keep invariants. The
        form of a symplectic map is kept up to a factor
        common to all of it: it is the form of normalised states.
        """
        form = "none"
        rhos = list[Any]()
        if self.measure_preserving and (self.chart is None or self.chart.keeps_volume):
            form = "volume"
        is_canonical = self.chart is None or self.chart.is_canonical
        is_plain = not self.shifts and self.invariants is None
        if self._canonical and is_canonical and is_plain:
            form = "symplectic"
        order = self.coordinates.order or list(range(self.dim))
        half = self.moving // 2
        dim = self.dim
        for rho in self.reversing_symmetries if is_plain else ():
            if torch.equal(rho[dim:, dim:], torch.eye(self.parameter_count).to(rho)):
                rhos.append(rho[:dim, :dim].tolist())
        pairs = zip(order[:half], order[half : 2 * half], strict=True)
        return Structure.of(
            form,
            rhos,
            periods=self.coordinates.periods,
            pairs=pairs if form == "symplectic" else (),
            space="windows" if self.window > 1 else "states",
        )

    @property
    def remark(self) -> str:  # type: ignore[override]
        """Words on the map that its structure does not say; else empty."""
        in_chart = self.measure_preserving and not self.structure.keeps_volume
        words = ["preserves the volume of its chart"] if in_chart else []
        if self.shifts:
            words.append(f"shifts windows by {self.prediction_window} of {self.window} states")
        if count := self.quadratic_invariant_count:
            words.append(f"keeps {count} quadratic invariant{'s' * (count > 1)}")
        if self.invariants is not None:
            words.append(self.invariant_words)
        return ", ".join(words)

    @property
    def quadratic_invariant_count(self) -> int:
        """Number of quadratic functions that the map which is iterated keeps at any weights.

        Projections that keep other invariants move these.
        """
        is_plain = not self.shifts and self.invariants is None
        return len(getattr(self.core, "quadratic_invariants", ())) if is_plain else 0

    @property
    def attention_summary(self) -> str:  # type: ignore[override]
        """Sentence on how far attention is from the identity, written when it was trained."""
        return self.record.attention

    @property
    def provenance(self) -> str:  # type: ignore[override]
        """Source of the trained map in words: states or equations; empty before."""
        return self.record.provenance

    @property
    def machine_epsilon(self) -> float:  # type: ignore[override]
        """Relative rounding error of the precision of the model."""
        return float(torch.finfo(self.scale.dtype).eps)

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative: rounding, and more where it is by differences."""
        return derivative_epsilon(self)

    @property
    def step(self) -> float:
        """Time step of the training.

        Raises
        ------
        InputError
            If the origin of the model has none.
        """
        if self.origin.step is None:
            raise InputError(f"the model {self.name} does not say for which step it is; give step")
        return self.origin.step

    @property
    def domain(self) -> Domain | None:
        """Domain of the training data; None where it is not known."""
        return self.origin.domain

    @property
    def system(self) -> System | None:
        """System that the model is for; None where it is not known."""
        return self.origin.system

    @system.setter
    def system(self, system: System | None) -> None:
        self.origin = replace(self.origin, system=system)

    def map(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        """Map windows (n, window, dim) as arrays of float64, see :meth:`forward`.

        Parameters of a family are given as to :meth:`vpintegrator.maps.Map.map`, by name; or in the
        order of ``ranges``, (p,) or (n, p).
        """
        with evaluating(self), gradients_off():
            given = as_windows(self, windows)
            k = as_parameters(self, parameters, len(given))
            images = self(given) if k is None else self(given, k)
            # a module of a user may give one tensor at each call
            return images.double().cpu().numpy().copy()

    def derivative(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        """Return Jacobian matrices (n, window * dim, window * dim) by differentiation."""
        return network_jacobian(self, windows, parameters)

    def tangent(
        self, windows: np.ndarray, vectors: np.ndarray, parameters: Any = None
    ) -> np.ndarray:
        """Return images of tangent vectors, see :meth:`vpintegrator.maps.Map.tangent`."""
        if 2 * vectors.shape[-1] > vectors.shape[-2]:
            return self.derivative(windows, parameters) @ vectors
        return network_tangent(self, windows, vectors, parameters)

    def advance(
        self,
        windows: np.ndarray,
        steps: int,
        *,
        chunk: int = 1000,
        parameters: Any = None,
    ) -> Iterator[np.ndarray]:
        """Yield the next states, see :meth:`vpintegrator.maps.Map.advance`."""
        k = as_parameters(self, parameters, len(windows))
        for states in trajectories(self, as_windows(self, windows), steps, chunk, parameters=k):
            yield states.double().cpu().numpy()

    @property
    def measure_preserving(self) -> bool:
        """Whether the map exactly preserves volume in the chart's coordinates: that of windows."""
        if self.shifts or self.invariants is not None:
            return False
        return bool(getattr(self.core, "volume_preserving", False))

    @property
    def shifts(self) -> bool:
        """Whether old states stay in the window: fewer are predicted than are read."""
        return self.prediction_window < self.window

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` exists."""
        return not self.shifts and self.invariants is None and is_invertible(self.core)

    def forward(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Map windows (..., window, dim) to the windows ``prediction_window`` steps later.

        These are the windows that a rollout iterates. Where fewer states are predicted than are
        read, the first rows are the last ones of ``window``.

        Parameters
        ----------
        window
            Windows.
        parameters
            Of a family: step and parameters of the system (..., p), in the order of ``ranges``.
            Their leading axes broadcast with those of the windows.

        Raises
        ------
        InputError
            If a family gets no parameters, or another model does; or for other sizes.
        """
        images = self._shifted(window, self._moved(self.core, window, parameters, 1.0))
        if self.invariants is None:
            return images
        before = self.coordinates(window)
        after = self.invariants.kept(before, self.coordinates(images, near=before[..., -1:, :]))
        new = self.coordinates.inverse(after[..., -1:, :])  # (..., 1, dim)
        return torch.cat([images[..., :-1, :], new], -2)  # (..., window, dim)

    def keep(self, invariants: PolynomialInvariants) -> None:
        """Let the map that is iterated keep invariants, by a projection of each new state.

        It keeps neither volume nor a form then. A new normalisation takes the invariants away, as
        they are functions of normalised states.

        Parameters
        ----------
        invariants
            Functions of normalised windows, or of their newest states.

        Raises
        ------
        InputError
            If several states are new in each call, or components do not move, or sizes differ.

        Examples
        --------
        >>> model = vp.models.ResidualNetwork(dim=2)
        >>> radius = vp.nn.PolynomialInvariants(dim=2, degree=2, dtype=torch.float64)
        >>> radius.coefficients[radius.orders.amax(1) == 2] = 1.0  # T_2(x) + T_2(y)
        >>> model.keep(radius)
        >>> states = vp.rollout(model, [[[0.6, 0.8]]], 50)
        >>> bool(np.ptp((states**2).sum(-1)) < 1e-12)
        True
        """
        if self.prediction_window > 1 or self.moving != self.dim or self.parameter_count:
            raise InputError(
                "invariants are kept by maps with one new state in a call, all of whose "
                "components move, and that are no family"
            )
        if invariants.dim != self.dim or invariants.window > self.window:
            raise InputError(
                f"the invariants read {invariants.window} states of {invariants.dim} components, "
                f"the model has {self.window} of {self.dim}"
            )
        self.invariants = invariants.to(self.scale)

    @property
    def invariant_words(self) -> str:
        """Words on the invariants that are kept by projections; else empty."""
        return "" if self.invariants is None else f"keeps {self.invariants.words} found in the data"

    def inverse(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the windows (..., window, dim) that ``forward`` maps to ``window``.

        Raises
        ------
        InputError
            If the architecture is not explicitly invertible, or the map shifts windows.
        """
        if not self.invertible:
            why = ", as it shifts windows" if self.shifts else ""
            raise InputError(f"{type(self).__name__} as built here has no explicit inverse{why}")
        return self._moved(self.core.inverse, window, parameters, -1.0)

    def _shifted(self, window: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """Return the window after a call: old states that stay, then new rows of the images."""
        new = self.prediction_window
        if new == self.window:
            return images
        kept = window[..., new:, :].expand(*images.shape[:-2], -1, -1)
        return torch.cat([kept, images[..., -new:, :]], -2)  # (..., window, dim)

    def _moved(
        self,
        core: Callable[..., torch.Tensor],
        window: torch.Tensor,
        parameters: torch.Tensor | None,
        steps: float,
    ) -> torch.Tensor:
        """Return images of windows by the core, or by its inverse for -1 steps."""
        last_size("window", window, {"window": self.window, "dim": self.dim})
        middle = self.at_time(window, window, 0.5 * steps)
        n = self.moving
        x = self.coordinates(middle)
        k = self.coefficients(parameters)
        if n == self.dim:
            images = core(x, *parameters_for(self.core, k))  # (..., window, dim)
            if len(self.vanishing) and self.chart is None:  # at step zero the identity, bit by bit
                return middle + self.coordinates.restored(images - x) * self.scale
            return self.coordinates.inverse(images)
        images = core(x[..., :n], x[..., -1, n:])  # (..., window, n)
        after = self.coordinates.inverse(torch.cat([images, x[..., n:]], -1))  # (..., window, dim)
        if self.chart is None and self.constant_components == {*range(n, self.dim)}:
            # free of rounding
            after = torch.cat([after[..., :n], middle[..., n:]], -1)
        return self.at_time(after, window, steps)

    def coefficients(self, parameters: torch.Tensor | None) -> torch.Tensor | None:
        """Return the normalised coefficients (..., m) of parameters (..., p) of a family."""
        if parameters is None and not self.parameter_count:
            return None
        if parameters is None or not self.parameter_count:
            names = ", ".join(self.ranges) or f"{self.parameter_count} coefficients"
            told = f"is a family: give {names} as its parameters, or take its model by at"
            raise InputError(
                f"the model {self.name} {told if self.parameter_count else 'takes no parameters'}"
            )
        k = parameters
        family = self.family
        count = self.parameter_count if family is None else len(family.ranges)
        last_size("parameters", parameters, {"parameter": count})
        if family is not None:
            k = torch.stack(family.formulas(parameters), -1)  # (..., m)
        shift, scale = map(self.get_buffer, UNITS)
        return (k - shift) / scale

    def variables(
        self,
        states: torch.Tensor,
        parameters: torch.Tensor | None = None,
        near: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return what the core reads (..., dim + m): states (..., dim) and their coefficients.

        ``near`` is that of :meth:`Coordinates.forward`.
        """
        k = self.coefficients(parameters)
        x = self.coordinates(states, near)
        return x if k is None else beside([x, k])

    @property
    def constant_components(self) -> set[int]:
        """Numbers of the components of states that layers do not move: constants and the time."""
        order = self.coordinates.order or range(self.dim)
        return {*order[self.moving :]}

    def at_time(
        self, states: torch.Tensor, window: torch.Tensor, part: float = 0.5
    ) -> torch.Tensor:
        """Return states with the times of a window, advanced by a part of a step."""
        if not self.explicit_time:
            return states
        times = window[..., -1:] + part * self.get_buffer("time_step")
        return torch.cat([states[..., :-1], times], -1)

    def set_advance(self, time: float) -> None:
        """Set by how much each call moves on the time: that of a state, and of exact flows."""
        if self.explicit_time:
            self.get_buffer("time_step").fill_(time)
        for layer in having(self.core, "set_step"):
            layer.set_step(time)  # type: ignore[operator]

    def in_domain(self, states: Any) -> Any:
        """Return whether states lie in the domain of the training data.

        In the domain each component and each invariant of the system is within its range on the
        training data, by a tenth of its width; angles have no range. A state at which an invariant
        or the model's chart is not defined is outside.

        Parameters
        ----------
        states
            States (..., dim), an array or a tensor.

        Returns
        -------
        numpy.ndarray or torch.Tensor
            Truth values (...), of the kind that is given.

        Raises
        ------
        InputError
            If the model does not say which states it was trained on, or the states have another
            size.

        Examples
        --------
        >>> dataset = vp.generate("pendulum", "swing.h5", count=20, steps=20, overwrite=True)
        >>> model = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
        >>> history = vp.train(model, dataset, epochs=1)
        >>> model.in_domain([[1.5, 0.0], [1.5, 9.0]])
        array([ True, False])
        """
        domain = self.domain
        system = self.system
        if domain is None or system is None:
            raise InputError("the model does not say which states it was trained on; train it")
        given = states if torch.is_tensor(states) else real_array("states", states, None)
        last_size("states", torch.as_tensor(given), {"dim": self.dim})
        inside = domain.holds(system, given)
        if self.chart is not None:
            placed = self.chart(torch.as_tensor(given).to(self.shift)).isfinite().all(-1)
            inside &= placed if torch.is_tensor(states) else placed.cpu().numpy()
        return inside

    def predict(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the new states (..., prediction_window, dim) after windows (..., window, dim)."""
        k = () if parameters is None else (parameters,)  # a forward of one's own may take none
        return self(window, *k)[..., self.window - self.prediction_window :, :]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Training range of the step and each parameter of a family; empty for other models."""
        return {} if self.family is None else dict(self.family.ranges)

    def at(self, **parameters: float) -> Self:
        """Return the model of one step and one set of parameters that a family holds for these.

        A model like any other: its layers have the parameters multiplied out.

        Parameters
        ----------
        **parameters
            ``step``, and parameters by their names; those that are not given have the values of the
            system. Outside of ``ranges`` there is a warning.

        Raises
        ------
        InputError
            If the model is no family, or a parameter is unknown, missing or no number.
        """
        family = self.family
        n = self.dim
        if family is None:
            raise InputError(
                f"the model {self.name} is no family: it has one step and one set of parameters"
            )
        numbers = family.values(parameters)
        if numbers.ndim > 1:
            raise InputError("a model is taken at one number of each parameter")
        values = dict(zip(family.ranges, numbers.tolist(), strict=True))
        with torch.no_grad():
            k = self.coefficients(numbers.to(self.shift.device))
            if k is None or not torch.isfinite(k).all():
                raise InputError("the coefficients of the equations are not finite there")
            result = copy.deepcopy(self)
            result.core = self.core.at(k)
            shift, scale = map(self.get_buffer, UNITS)
            turned = self.reversing_symmetries[:, n:, n:].to(k)
            physical = k * scale + shift
            moved = (turned @ physical - physical).abs().amax(-1)
        stays = moved <= ROUNDING * physical.abs().max()
        result.reversing_symmetries = self.reversing_symmetries[stays.cpu(), :n, :n]
        result.parameter_count = 0
        result.family = None
        system = self.system
        others = {name: value for name, value in values.items() if name != STEP}
        if system is not None and others:
            system = system.with_parameters(others)
        step = values.get(STEP, family.step)
        if step is None or step <= 0:
            step = self.origin.step
        member = Member(family, values)
        result.origin = replace(self.origin, system=system, step=step, member=member)
        return result.eval()

    def set_normalisation(self, shift: Any, scale: Any, spread: Any = None) -> None:
        """Set the normalisation, as near to what is given as symmetries and angles allow.

        A conjugation keeps the map reversible only if it commutes with the symmetries. So the shift
        is projected to the states that all of them leave in place, and scales are averaged
        (geometrically) over components that a symmetry mixes. The scale of an angle is fixed by its
        period. In symplectic models the scale of each
        momentum follows from that of its position: their products are equal, the median of what was
        asked for.

        Parameters
        ----------
        shift, scale : (dim,)
            Shift and scale, for example mean and standard deviation of the training states, in the
            coordinates of the chart if there is one. A scale must be positive; for a constant
            component give 1.
        spread : (dim,), optional
            Standard deviation of the states of a model with a chart, by which errors are weighted.

        Raises
        ------
        InputError
            If a value is not finite or a scale is not positive.
        """
        if self.invariants is not None:
            del self.invariants
        self.invariants = None
        shift, scale = self.coordinates.set_normalisation(
            shift,
            scale,
            spread,
            symmetries=self.reversing_symmetries[:, : self.dim, : self.dim],
            canonical=self.moving if self._canonical or self.canonical else 0,
        )
        if self.parameter_count:
            units = [self.get_buffer(name).double().cpu() for name in UNITS]
            shift = torch.cat([shift, units[0]])
            scale = torch.cat([scale, units[1]])
        for layer in self.core.modules():
            if hasattr(layer, "set_units"):
                layer.set_units(shift, scale)

    def set_parameter_normalisation(self, parameters: torch.Tensor) -> None:
        """Normalise the coefficients of a family by those of given parameters (trajectory, p).

        Scales are the deviations to the nearest power of two. Vanishing coefficients, and such as a
        symmetry turns, are not shifted. :meth:`set_normalisation` comes after.
        """
        k = parameters.double().cpu()
        if self.family is not None:
            k = torch.stack(self.family.formulas(k), -1)  # (trajectory, m)
        n = self.dim
        m = self.parameter_count
        actions = self.reversing_symmetries[:, n:, n:].double().cpu()
        shift = fixed_point_projection(actions, m) @ k.mean(0) if len(actions) else k.mean(0)
        shift[self.vanishing] = 0
        deviation = k.std(0, correction=0)
        scale = 2.0 ** torch.log2(torch.where(deviation > 0, deviation, 1.0)).round()
        for name, value in zip(UNITS, (shift, scale), strict=True):
            self.get_buffer(name).copy_(value)

    def adapt(self, states: torch.Tensor, parameters: torch.Tensor | None = None) -> None:
        """Let layers with variables of their own scale them to the range that states give them.

        Parameters
        ----------
        states : Tensor, (state, dim)
            States, for example some of the training states. The normalisation must be set before.
        parameters : Tensor, (state, p)
            Of a family: parameters of each state.
        """
        if not len(states):
            return
        self.seen = states[:: -(-len(states) // _SEEN)].numpy(force=True)
        normalised = self.variables(states.to(self.scale), parameters)
        if isinstance(self.core, Reversible):  # psi meets reflected states too
            rho = self.core.symmetry.to(normalised)
            normalised = torch.cat([normalised, normalised @ rho.mT])
        for layer in having(self.core, "adapt"):
            layer.adapt(normalised)  # type: ignore[operator]

    @property
    def _canonical(self) -> bool:
        """Whether the network keeps the form of normalised states."""
        return self.moving % 2 == 0 and bool(getattr(self.core, "symplectic", False))

    def doubt(self, windows: np.ndarray, parameters: Any = None) -> str:
        """Return the reason why the map is unreliable at windows (n, window, dim), or empty."""
        return ""

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, window={self.window}, prediction_window={self.prediction_window}, "
            f"structure={str(self.structure)!r}, "
            f"parameters={sum(parameter.numel() for parameter in self.parameters())}"
        )
