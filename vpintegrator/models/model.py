"""Base class of models: layers that map windows of states, in coordinates of states."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.dynamics.structure import Structure
from vpintegrator.dynamics.training_domain import Domain, recorded_domain
from vpintegrator.errors import InputError
from vpintegrator.maps.map import Map
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.components import Components, angle_refusal
from vpintegrator.models.coordinates import Coordinates
from vpintegrator.models.descriptions import DESCRIPTIONS
from vpintegrator.models.family import Stepping, conditions_of, extended, member
from vpintegrator.models.iteration import (
    as_windows,
    evaluating,
    network_jacobian,
    network_tangent,
    trajectories,
)
from vpintegrator.nn.chart_map import ChartMap
from vpintegrator.nn.composition import having, is_invertible
from vpintegrator.nn.layer import as_dtype, last_size
from vpintegrator.nn.reversible import Reversible
from vpintegrator.nn.symmetry import as_reversing_symmetries

LARGEST_WINDOW = 10_000  # time steps: correlations in time are matrices of that size
_SEEN = 64  # stored states out of those that a model is adapted to


class Model(Stepping, Map):
    r"""A network that steps a window of states forward in time.

    ``forward`` takes windows (..., window, dim), a row per time step, to the windows
    ``prediction_window`` time steps later; the last ``prediction_window`` rows are new:

    .. math:: (z_1, \dots, z_T) \mapsto (z_{1+P}, \dots, z_{T+P}), \qquad
        T = \text{window}, \quad P = \text{prediction window}.

    The layers work in :class:`Coordinates`: states enter as :math:`(z - \text{shift}) /
    \text{scale}` and leave it the other way round. In a chart z are its components, of which the
    volume (or symplectic form) is kept: the volume of states only where the chart keeps it.

    With reversing symmetries the map is :math:`\psi R \psi^{-1} R`, reversible for every one of
    them (see ``vpintegrator.nn.Reversible``), where :math:`\psi` is the core; where there are
    several it must commute with their products.

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
    metadata : dict of str to str
        Origin of the model, stored with it; training fills it in.
    choices : list of str
        Choices of ``vpintegrator.models.build`` without request, a sentence each.
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

    linear_in_parameters: ClassVar[bool] = False  # the coefficients, given pairs of states
    kind: str = "learned"
    description: str = ""

    def __init__(
        self,
        core: nn.Module,
        components: int | Components,
        *,
        window: int = 1,
        prediction_window: int | None = None,
        dtype: str | torch.dtype = "float64",
        description: str = "",
    ) -> None:
        super().__init__()
        known = components if isinstance(components, Components) else Components(components)
        self.dim, self.window = known.dim, whole("window", window, 1, LARGEST_WINDOW)
        self.prediction_window = whole(
            "prediction_window", window if prediction_window is None else prediction_window
        )
        if self.prediction_window > window:
            raise InputError(
                f"prediction_window = {prediction_window} must not be larger than window = {window}"
            )
        self.reversing_symmetries = known.reversing_symmetries
        self.conserved, self.scaling = known.conserved, known.scaling
        self.explicit_time = known.explicit_time
        self.description = description or self.description or DESCRIPTIONS.get(self.name, "")
        if self.explicit_time:
            self.register_buffer("time_step", torch.zeros(1, dtype=torch.float64))
        self.core = core
        if len(known.reversing_symmetries) and not getattr(core, "reversible_by_terms", False):
            self.core = Reversible(core, known.reversing_symmetries[0])
        self.metadata: dict[str, str] = {}
        self.choices: list[str] = []
        self.seen: np.ndarray | None = None
        self.coordinates = Coordinates(known.dim, known.periods)
        if known.periods:
            self.set_normalisation(0.0, 1.0)
        self.to(as_dtype(dtype))

    @classmethod
    def admits(cls, structure: Structure, arguments: Mapping[str, Any]) -> str | None:
        """Return the reason why a model cannot have a structure built in, or None.

        It is asked before the model is built, and says nothing on functions whose terms the
        symmetries leave out: the constructor does.

        Parameters
        ----------
        structure
            Its reversing symmetries are those of the layers' components.
        arguments
            Arguments of the class, ``dim`` among them.

        Examples
        --------
        >>> body = vp.load_system("rigid-body")
        >>> transformer = vp.models.VolumePreservingTransformer
        >>> transformer.admits(body.structure, {"dim": 3}) is None
        True
        >>> transformer.admits(body.structure, {"dim": 3, "weighting": "arbitrary"})[:34]
        'weighting = "arbitrary" has no exp'
        """
        values = {name: each.default for name, each in arguments_of(cls).items()} | {**arguments}
        names = ("periodic", "cyclic", "conserved", "scaling", "explicit_time")
        own = {name: values[name] for name in names if name in values}
        plain = Components(values["dim"], **own)
        rhos = as_reversing_symmetries(structure.reversing_symmetries, plain.dim)
        if reason := angle_refusal(rhos, plain.periods):
            return reason
        return cls._refusal(Components(plain.dim, rhos, **own), values)

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        """Return why layers of these arguments cannot respect the symmetries, or None."""
        return None

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
        if periods:
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
        """Structure that the map of windows keeps exactly, at any weights.

        The form of a symplectic map is kept up to a factor common to all of it: it is the form of
        normalised states.
        """
        form = "none"
        if self.measure_preserving and (self.chart is None or self.chart.keeps_volume):
            form = "volume"
        if self._canonical and (self.chart is None or self.chart.is_canonical):
            form = "symplectic"
        order = self.coordinates.order or list(range(self.dim))
        half = (self.dim - getattr(self.core, "conserved", 0)) // 2
        pairs = zip(order[:half], order[half : 2 * half], strict=True)
        return Structure.of(
            form,
            self.reversing_symmetries.tolist(),
            periods=self.coordinates.periods,
            pairs=pairs if form == "symplectic" else (),
        )

    @property
    def remark(self) -> str:  # type: ignore[override]
        """Words on the map that its structure does not say; else empty."""
        in_chart = self.measure_preserving and not self.structure.keeps_volume
        words = ["preserves the volume of its chart"] if in_chart else []
        return ", ".join([*filter(None, [self.metadata.get("attention")]), *words])

    @property
    def step(self) -> float:
        """Time step of the training.

        Raises
        ------
        InputError
            If the metadata of the model have none, or no positive number.
        """
        text = self.metadata.get("step")
        if text is None:
            raise InputError(f"the model {self.name} does not say for which step it is; give step")
        try:
            step = float(text)
        except ValueError:
            step = math.nan
        if not (math.isfinite(step) and step > 0):
            raise InputError(
                f"the model {self.name} was trained for the step {text!r}, which is no positive "
                "number; its file is damaged"
            )
        return step

    @property
    def domain(self) -> Domain | None:
        """Domain of the training data; None where it is not known."""
        if "region" not in self.metadata:
            return None
        where = f"the training domain of {self.name}"
        return Domain.from_text(self.metadata["region"], where)

    def map(self, windows: np.ndarray) -> np.ndarray:
        """Map windows (n, window, dim) as arrays of float64, see :meth:`forward`."""
        with evaluating(self), torch.inference_mode():
            return self(as_windows(self, windows)).double().cpu().numpy()

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        """Return Jacobian matrices (n, window * dim, window * dim) by differentiation."""
        return network_jacobian(self, windows)

    def tangent(self, windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return images of tangent vectors, see :meth:`vpintegrator.maps.Map.tangent`."""
        if 2 * vectors.shape[-1] > vectors.shape[-2]:
            return super().tangent(windows, vectors)
        return network_tangent(self, windows, vectors)

    def advance(
        self, windows: np.ndarray, steps: int, *, chunk: int = 1000
    ) -> Iterator[np.ndarray]:
        """Yield the next states, see :meth:`vpintegrator.maps.Map.advance`."""
        for states in trajectories(self, as_windows(self, windows), steps, chunk):
            yield states.double().cpu().numpy()

    @property
    def measure_preserving(self) -> bool:
        """Whether the map exactly preserves the volume of windows in the chart's coordinates."""
        return bool(getattr(self.core, "volume_preserving", False))

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` exists."""
        return is_invertible(self.core)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Map windows (..., window, dim) to the windows ``prediction_window`` steps later."""
        last_size("window", window, {"window": self.window, "dim": self.dim})
        middle = self._at(window, window, 0.5)
        after = self.core(self.coordinates(middle))
        return self._at(self._kept(self.coordinates.inverse(after), middle), window, 1.0)

    def inverse(self, window: torch.Tensor) -> torch.Tensor:
        """Return the windows (..., window, dim) that ``forward`` maps to ``window``.

        Raises
        ------
        InputError
            If the architecture is not explicitly invertible.
        """
        if not self.invertible:
            raise InputError(f"{type(self).__name__} as built here has no explicit inverse")
        last_size("window", window, {"window": self.window, "dim": self.dim})
        middle = self._at(window, window, -0.5)
        before = self.core.inverse(self.coordinates(middle))  # type: ignore[operator]
        return self._at(self._kept(self.coordinates.inverse(before), middle), window, -1.0)

    @property
    def conserved_components(self) -> set[int]:
        """Numbers of the components of states that stay as they are."""
        order = self.coordinates.order
        return {k if order is None else order[k] for k in self.conserved}

    def _kept(self, images: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        """Return images with the conserved components of the window, free of rounding."""
        if not self.conserved or self.chart is not None:
            return images
        moving = [k for k in range(self.dim) if k not in self.conserved_components]
        if moving != list(range(len(moving))):
            return images
        return torch.cat([images[..., : len(moving)], window[..., len(moving) :]], -1)

    def _at(self, states: torch.Tensor, window: torch.Tensor, part: float) -> torch.Tensor:
        """Return states with the times of a window, advanced by a part of a step."""
        if not self.explicit_time:
            return states
        times = window[..., -1:] + part * self.get_buffer("time_step")
        return torch.cat([states[..., :-1], times], -1)

    def in_the_middle(self, window: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Return states with the time in the middle of the step, if time is explicit."""
        return self._at(states, window, 0.5)

    def set_advance(self, time: float) -> None:
        """Set by how much each call moves on the time, where that is the last component."""
        if self.explicit_time:
            self.get_buffer("time_step").fill_(time)

    def in_domain(self, states: Any) -> Any:
        """Return whether states lie in the domain of the training data.

        In the domain each component and each invariant of the system is within its range on the
        training data, by a tenth of its width; angles have no range. A state at which an invariant
        or the model's chart is not defined is outside. Of a family the state itself is judged.

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
        keys = ("region", "system")
        if not all(key in self.metadata for key in keys):
            raise InputError("the model does not say which states it was trained on; train it")
        region, system = recorded_domain(
            *(self.metadata[key] for key in keys),
            self.metadata.get("system_name", "system"),
            self.metadata.get("parameters", "{}"),
        )
        given = states if torch.is_tensor(states) else np.asarray(states, dtype=np.float64)
        last_size("states", torch.as_tensor(given), {"dim": self.dim})
        inside = region.holds(system, given[..., : self.state_dim])
        if self.chart is not None:
            with torch.no_grad():
                images = self.chart(torch.as_tensor(given).to(self.shift))
            placed = images.isfinite().all(-1)
            inside &= placed if torch.is_tensor(states) else placed.cpu().numpy()
        return inside

    def predict(self, window: torch.Tensor) -> torch.Tensor:
        """Return the new states (..., prediction_window, dim) after windows (..., window, dim)."""
        return self(window)[..., self.window - self.prediction_window :, :]

    @property
    def conditions(self) -> dict[str, tuple[float, float]]:
        """Training range of each parameter, and of the step, of a family; empty for other models.

        States of a family are extended: (z, k) with constant components k.
        """
        found = conditions_of(self)
        return {} if found is None else dict(found.ranges)

    @property
    def state_dim(self) -> int:
        """Components of a state itself: ``dim`` but for those that a family adds."""
        found = conditions_of(self)
        return self.dim - (0 if found is None else len(found.coefficients))

    def at(self, **conditions: float) -> Model:
        """Return the model of one step and one set of parameters that a family holds for these.

        A model like any other: its layers have the parameters multiplied out.

        Parameters
        ----------
        **conditions
            ``step``, and parameters by their names; those that are not given have the values of the
            system. Outside of the ranges of ``conditions`` there is a warning.

        Raises
        ------
        InputError
            If the model is no family, or a parameter is unknown, missing or no number.
        """
        return member(self, conditions)

    def extended(self, states: Any, **conditions: Any) -> torch.Tensor:
        """Return extended states (..., dim): states (..., n) with the components k of a family.

        Parameters are numbers or arrays that broadcast with the leading axes of the states, so that
        each trajectory may have its own.

        Raises
        ------
        InputError
            As ``at``; and if the states have another size.
        """
        return extended(self, states, conditions)

    def set_normalisation(self, shift: Any, scale: Any, spread: Any = None) -> None:
        """Set the normalisation, as near to what is given as symmetries and angles allow.

        A conjugation keeps the map reversible only if it commutes with the symmetries. So the shift
        is projected to the states that all of them leave in place, and scales are averaged
        (geometrically) over components that a symmetry mixes. The scale of an angle is fixed by its
        period, and scaling parameters are not shifted. In symplectic models the scale of each
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
        shift, scale = self.coordinates.set_normalisation(
            shift,
            scale,
            spread,
            symmetries=self.reversing_symmetries,
            fixed=self.scaling,
            constants=getattr(self.core, "conserved", 0) if self._canonical else None,
        )
        for layer in self.core.modules():
            if hasattr(layer, "set_units"):
                layer.set_units(shift, scale)  # type: ignore[operator]

    def adapt(self, states: torch.Tensor) -> None:
        """Let layers with variables of their own scale them to the range that states give them.

        Parameters
        ----------
        states : Tensor, (state, dim)
            States, for example some of the training states. The normalisation must be set before.
        """
        if not len(states):
            return
        self.seen = states[:: -(-len(states) // _SEEN)].numpy(force=True)
        normalised = self.coordinates(states.to(self.scale))
        if isinstance(self.core, Reversible):  # psi meets reflected states too
            normalised = torch.cat([normalised, self.core.reflection(normalised)])
        for layer in having(self.core, "adapt"):
            layer.adapt(normalised)  # type: ignore[operator]

    @property
    def _canonical(self) -> bool:
        """Whether the network keeps the form of normalised states."""
        return bool(getattr(self.core, "symplectic", False))

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, window={self.window}, prediction_window={self.prediction_window}, "
            f"structure={str(self.structure)!r}, "
            f"parameters={sum(parameter.numel() for parameter in self.parameters())}"
        )
