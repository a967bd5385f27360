"""Base class of neural integrators: a map of normalised windows."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from vpintegrator.dynamics.structure import Structure
from vpintegrator.dynamics.training_domain import recorded_domain
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import IntegratorArguments, ReversibleArguments
from vpintegrator.models.built_in import BUILT_IN
from vpintegrator.models.declaration import show_arguments
from vpintegrator.models.family import conditions_of, extended, member
from vpintegrator.models.normalisation import (
    Normalised,
    averaged_over_connected,
    chart_of,
    check_angles,
    order_of,
    positive,
    vector,
)
from vpintegrator.nn.canonical import canonical_scale
from vpintegrator.nn.composition import having, is_invertible
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.reversible import Reversible
from vpintegrator.nn.symmetry import as_reversing_symmetries, fixed_point_projection
from vpintegrator.nn.tensor_arguments import as_dtype, last_size

_SEEN = 64  # stored states out of those that a model is adapted to


class Integrator(Normalised):
    r"""A network that steps a window of states forward in time.

    ``forward`` takes windows (..., window, dim), a row per time step, to the windows
    ``prediction_window`` time steps later; the last ``prediction_window`` rows are new:

    .. math:: (z_1, \dots, z_T) \mapsto (z_{1+P}, \dots, z_{T+P}), \qquad
        T = \text{window}, \quad P = \text{prediction window}.

    States enter the network as :math:`(z - \text{shift}) / \text{scale}` and leave it the other way
    round. This is a conjugation, so it changes neither the determinant nor the inverse nor the
    reversibility. With a ``chart`` z are the components of that chart, of which the volume (or
    symplectic form) is kept: the volume of states only where the chart keeps it.

    With ``reversing_symmetries`` the map is :math:`\psi R \psi^{-1} R`, reversible for every one of
    them (see ``vpintegrator.nn.Reversible``), where :math:`\psi` is the network on normalised
    windows; where there are several reversing symmetries it must commute with their products.

    A class of models names its arguments, a dataclass ``Arguments``, and builds its :math:`\psi`
    from them in ``network``; or ``psi`` is given here.

    Parameters
    ----------
    psi : Module, optional
        The network on normalised windows, of a class that does not build it.
    arguments
        As keywords, those that ``Arguments`` declares; some for all models:

        ``dim``, ``window``, ``prediction_window``: components of a state, time steps read, time
        steps predicted (window by default).

        ``reversing_symmetries``: matrices :math:`\rho` (dim, dim) with
        :math:`f(\rho z) = -\rho f(z)`; for ``psi`` with an explicit inverse only.

        ``periodic``: components that are angles, by number, with their periods. They enter the
        network in radians: their scale is period / (2 pi).

        ``shift``, ``scale``: normalisation of each component; by default 0 and 1. See
        ``set_normalisation``.

        ``component_order``: numbers of the components in the order in which the network takes them,
        where states have another one; symplectic models take all positions and then their momenta.

        ``chart``, ``inverse_chart``: other coordinates in which the network works, as expressions
        of the components of a state, and these as expressions of the new ones.

        ``dtype``: type of the weights; they are drawn in float64 and cast.

    Attributes
    ----------
    name, description : str
        Name on the command line, and one line about the architecture; that of a model may say more
        than that of its class.
    arguments : dict
        The arguments that make an equal model, JSON-serialisable.
    metadata : dict of str to str
        Origin of the model, stored with it; training fills it in.
    choices : list of str
        Choices of ``vpintegrator.models.build`` without request, a sentence each.
    seen : ndarray (state, dim) or None
        Some of the states that the model was adapted to; machine code is checked on them.

    Raises
    ------
    InputError
        If an argument is unknown or of the wrong kind, sizes do not fit, or psi cannot be made
        reversible.

    Examples
    --------
    A class of one's own; ``vpintegrator.models.register`` makes it known by its name.

    >>> from dataclasses import dataclass
    >>> import torch, vpintegrator as vp
    >>> class Linear(vp.models.Integrator):
    ...     @dataclass(frozen=True, kw_only=True)
    ...     class Arguments(vp.models.IntegratorArguments):
    ...         bias: bool = vp.models.argument(False, "Whether the origin moves.")
    ...
    ...     def network(self, a):
    ...         return torch.nn.Linear(a.dim, a.dim, bias=a.bias, dtype=torch.float64)
    >>> Linear(dim=2, bias=True).arguments
    {'dim': 2, 'window': 1, 'prediction_window': 1, 'bias': True}
    """

    Arguments: ClassVar[type[IntegratorArguments]] = ReversibleArguments
    attention_mixes_alone: ClassVar[bool] = False  # all other layers take states one by one
    linear_in_parameters: ClassVar[bool] = False  # the coefficients, given pairs of states
    description: str = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name in BUILT_IN and "name" in cls.__dict__:
            cls.description = BUILT_IN[cls.name].description
        if {"Arguments", "network"} & cls.__dict__.keys():
            show_arguments(cls)

    def __init__(self, psi: nn.Module | None = None, **arguments: Any) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = arguments.pop("arguments", {})
        a = self.Arguments.given(type(self).__name__, arguments)
        dtype = as_dtype(a.dtype)
        self.dim, self.window = a.dim, a.window
        self.prediction_window: int = a.prediction_window or a.window
        self.arguments = a.stored() | self.arguments
        rhos = as_reversing_symmetries(getattr(a, "reversing_symmetries", ()), a.dim)
        self.reversing_symmetries = rhos
        self.periods: dict[int, float] = getattr(a, "periods", {})
        check_angles(self.periods, rhos)
        self.conserved: list[int] = list(getattr(a, "conserved", ()))
        self.scaling: list[int] = list(getattr(a, "scaling", ()))
        if self.conserved and self.attention_mixes_alone:
            raise InputError(
                "attention reads no conserved components; take a model of one step, such as vpff"
            )
        self.component_order = order_of(a.component_order, a.dim)
        self.chart = chart_of(a, self.periods, self.component_order)
        self.explicit_time: bool = getattr(a, "explicit_time", False)
        if self.explicit_time:
            self.register_buffer("advance", torch.zeros(1, dtype=torch.float64))
        with default_dtype(torch.float64):
            self.core = self.network(a) if psi is None else psi
        if len(rhos):
            if not getattr(self.core, "reversible_by_terms", False):
                self.core = Reversible(self.core, rhos[0])
            self.arguments["reversing_symmetries"] = rhos.tolist()
        if self.chart is not None:
            self.description += f"; in the coordinates ({', '.join(self.chart.texts)})"
        if self.periods:
            self.arguments["periodic"] = [list(pair) for pair in self.periods.items()]
        self.metadata: dict[str, str] = {}
        self.choices: list[str] = []
        self.seen: np.ndarray | None = None
        self.register_buffer("shift", torch.zeros(a.dim, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(a.dim, dtype=torch.float64))
        if self.chart is not None:
            self.register_buffer("spread", torch.ones(a.dim, dtype=torch.float64))
        if a.shift is not None or a.scale is not None or self.periods:
            self.set_normalisation(
                torch.zeros(a.dim) if a.shift is None else a.shift,
                torch.ones(a.dim) if a.scale is None else a.scale,
            )
        self.to(dtype)

    def network(self, a: Any) -> nn.Module:
        """Build the network on normalised windows, in float64, from the checked arguments.

        It may set ``description`` and other attributes, and put what it chose into ``arguments``.
        """
        raise NotImplementedError(f"{type(self).__name__} builds no network, and none was given")

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
        order = self.component_order or list(range(self.dim))
        half = (self.dim - getattr(self.core, "conserved", 0)) // 2
        pairs = zip(order[:half], order[half : 2 * half], strict=True)
        return Structure.of(
            form,
            self.reversing_symmetries.tolist(),
            periods=self.periods,
            pairs=pairs if form == "symplectic" else (),
        )

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
        after = self.core(self.normalised(middle))
        return self._at(self._kept(self.denormalised(after), middle), window, 1.0)

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
        before = self.core.inverse(self.normalised(middle))  # type: ignore[operator]
        return self._at(self._kept(self.denormalised(before), middle), window, -1.0)

    @property
    def conserved_components(self) -> set[int]:
        """Numbers of the components of states that stay as they are."""
        order = self.component_order
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
        times = window[..., -1:] + part * self.get_buffer("advance")
        return torch.cat([states[..., :-1], times], -1)

    def in_the_middle(self, window: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Return states with the time in the middle of the step, if time is explicit."""
        return self._at(states, window, 0.5)

    def set_advance(self, time: float) -> None:
        """Set by how much each call moves on the time, where that is the last component."""
        if self.explicit_time:
            self.get_buffer("advance").fill_(time)

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

    def at(self, **conditions: float) -> Integrator:
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
        shift_, scale_ = vector("shift", shift, self.dim), positive("scale", scale, self.dim)
        shift_, scale_ = self.network_order(shift_), self.network_order(scale_)
        if len(rhos := self.reversing_symmetries):
            shift_ = fixed_point_projection(rhos, self.dim) @ shift_
            scale_ = averaged_over_connected(scale_, rhos)
        shift_, scale_ = shift_.clone(), scale_.clone()
        shift_[self.scaling] = 0
        for component, period in self.periods.items():
            scale_[component] = period / (2 * math.pi)
        if self._canonical:
            scale_ = canonical_scale(scale_, getattr(self.core, "conserved", 0))
        with torch.no_grad():
            self.shift.copy_(self.state_order(shift_))
            self.scale.copy_(self.state_order(scale_))
            if self.chart is not None and spread is not None:
                self.state_scale.copy_(positive("spread", spread, self.dim))
        for layer in self.core.modules():
            if hasattr(layer, "set_units"):
                layer.set_units(shift_, scale_)  # type: ignore[operator]

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
        normalised = self.normalised(states.to(self.scale))
        if isinstance(self.core, Reversible):  # psi meets reflected states too
            normalised = torch.cat([normalised, self.core.reflection(normalised)])
        for layer in having(self.core, "adapt"):
            layer.adapt(normalised)  # type: ignore[operator]

    def normalise_like(self, other: Integrator) -> None:
        """Take the normalisation of a model of the same states and kind of layers."""
        self.set_normalisation(other.shift, other.scale, other.state_scale)
        if self.explicit_time:
            self.set_advance(other.get_buffer("advance").item())
        like = next(having(other.core, "adapt"), None)
        for layer in having(self.core, "adapt"):
            layer.adapt_like(like)  # type: ignore[operator]

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
