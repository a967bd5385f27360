"""What every neural integrator is: a map of windows with a normalisation round it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.checks import as_dtype, last_size, plain, positive
from vpintegrator.nn.composition import is_invertible
from vpintegrator.nn.reversible import Reversible
from vpintegrator.nn.symmetry import TOLERANCE, as_reversing_symmetries, fixed_point_projection

LARGEST_WINDOW = 10_000  # time steps: correlations in time are matrices of that size


class Integrator(nn.Module):
    """A network that steps a window of states forward in time.

    ``forward`` takes windows (..., window, dim), a row per time step, to the windows
    ``prediction_window`` time steps later; the last ``prediction_window`` rows are new.

    States enter the network as (z - shift) / scale and leave it the other way round. This is a
    conjugation, so it changes neither the determinant nor the inverse nor the reversibility.

    With ``reversing_symmetries`` the map is psi R psi^-1 R, reversible for every one of them (see
    ``vpintegrator.nn.Reversible``), where psi is the network given as ``psi``.

    Parameters
    ----------
    psi : Module
        The network on normalised windows; where there are several reversing symmetries it must
        commute with their products.
    dim, window, prediction_window : int
        Components of a state, time steps read, time steps predicted (window by default).
    arguments : dict
        Constructor arguments of the architecture, JSON-serialisable, that make an equal model.
    reversing_symmetries : sequence of (dim, dim)
        Matrices rho with f(rho z) = -rho f(z); for psi with an explicit inverse only.
    periodic : mapping or sequence of (component, period), optional
        Components that are angles, by number. They enter the network in radians: their scale is
        period / (2 pi).
    shift, scale : sequence of float, optional
        Normalisation of each component; by default 0 and 1. See ``set_normalisation``.
    dtype : torch.dtype or str

    Attributes
    ----------
    name, description : str
        Name on the command line, and one line about the architecture; that of a model may say more
        than that of its class.
    metadata : dict of str to str
        What a saved model says about its origin; training fills it in.

    Raises
    ------
    InputError
        If sizes do not fit, or psi cannot be made reversible.
    """

    name: ClassVar[str] = ""
    description: str = ""
    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self,
        psi: nn.Module,
        *,
        dim: int,
        window: int,
        prediction_window: int | None,
        arguments: dict[str, Any],
        reversing_symmetries: Any = (),
        periodic: Any = (),
        shift: Any = None,
        scale: Any = None,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        dtype = as_dtype(dtype)
        self.dim = positive("dim", dim)
        self.window = positive("window", window)
        if window > LARGEST_WINDOW:
            raise InputError(f"window = {window} must be at most {LARGEST_WINDOW}")
        self.prediction_window = window if prediction_window is None else prediction_window
        if positive("prediction_window", self.prediction_window) > window:
            raise InputError(
                f"prediction_window = {prediction_window} must not be larger than window = {window}"
            )
        self.reversing_symmetries = as_reversing_symmetries(reversing_symmetries, dim)
        self.periods = as_periods(periodic, dim)
        for i, j in self._connected().nonzero().tolist() if self.periods else ():
            if self.periods.get(i) != self.periods.get(j):
                raise InputError(
                    f"a reversing symmetry connects the components {i} and {j}, which are not "
                    "angles of the same period; leave out the symmetry, or periodic"
                )
        self.core = psi
        if len(self.reversing_symmetries):
            self.core = Reversible(psi, self.reversing_symmetries[0], dtype=dtype)
        self.arguments: dict[str, Any] = {
            "dim": dim,
            "window": window,
            "prediction_window": self.prediction_window,
            **arguments,
        }
        if len(self.reversing_symmetries):
            self.arguments["reversing_symmetries"] = self.reversing_symmetries.tolist()
        if self.periods:
            self.arguments["periodic"] = [list(pair) for pair in self.periods.items()]
        self.metadata: dict[str, str] = {}
        self.register_buffer("shift", torch.zeros(dim, dtype=dtype))
        self.register_buffer("scale", torch.ones(dim, dtype=dtype))
        if shift is not None or scale is not None or self.periods:
            self.set_normalisation(
                torch.zeros(dim) if shift is None else shift,
                torch.ones(dim) if scale is None else scale,
            )

    @property
    def volume_preserving(self) -> bool:
        """Whether the map of windows preserves the volume of the space of windows exactly."""
        return bool(getattr(self.core, "volume_preserving", False))

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` exists."""
        return is_invertible(self.core)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Windows (..., window, dim) to the windows ``prediction_window`` steps later."""
        last_size("window", window, {"window": self.window, "dim": self.dim})
        return self.core((window - self.shift) / self.scale) * self.scale + self.shift

    def inverse(self, window: torch.Tensor) -> torch.Tensor:
        """The windows (..., window, dim) that ``forward`` maps to ``window``.

        Raises
        ------
        InputError
            If the architecture is not explicitly invertible.
        """
        if not self.invertible:
            raise InputError(f"{type(self).__name__} as built here has no explicit inverse")
        last_size("window", window, {"window": self.window, "dim": self.dim})
        normalised = (window - self.shift) / self.scale
        return self.core.inverse(normalised) * self.scale + self.shift  # type: ignore[operator]

    def predict(self, window: torch.Tensor) -> torch.Tensor:
        """The new states (..., prediction_window, dim) after windows (..., window, dim)."""
        return self(window)[..., self.window - self.prediction_window :, :]

    def set_normalisation(self, shift: Any, scale: Any) -> None:
        """Set the normalisation, as near to what is given as symmetries and angles allow.

        A conjugation keeps the map reversible only if it commutes with the symmetries. So the shift
        is projected to the states that all of them leave in place, and scales are averaged
        (geometrically) over components that a symmetry mixes. The scale of an angle is fixed by its
        period.

        Parameters
        ----------
        shift, scale : (dim,)
            For example the mean and standard deviation of the training states. A scale must be
            positive; where a component is constant, give 1.

        Raises
        ------
        InputError
            If a value is not finite or a scale is not positive.
        """
        shift_, scale_ = self._vector("shift", shift), self._vector("scale", scale)
        if not (scale_ > 0).all():
            raise InputError(f"scale must be positive in every component, not {scale_.tolist()}")
        if len(self.reversing_symmetries):
            shift_ = fixed_point_projection(self.reversing_symmetries, self.dim) @ shift_
            scale_ = self._averaged_over_mixed_components(scale_)
        scale_ = scale_.clone()
        for component, period in self.periods.items():
            scale_[component] = period / (2 * math.pi)
        with torch.no_grad():
            self.shift.copy_(shift_)
            self.scale.copy_(scale_)
        for layer in self.core.modules():
            if isinstance(layer, BasisCoupling):
                layer.set_units(shift_, scale_)

    def _vector(self, argument: str, value: Any) -> torch.Tensor:
        try:
            vector = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"{argument} must hold {self.dim} numbers, not {value!r}") from None
        if vector.ndim == 0:
            vector = vector.expand(self.dim)
        if vector.shape != (self.dim,) or not torch.isfinite(vector).all():
            raise InputError(
                f"{argument} must hold {self.dim} finite numbers (dim = {self.dim}), not "
                f"{vector.tolist()}"
            )
        return vector

    def _connected(self) -> torch.Tensor:
        """Which components (dim, dim) a symmetry takes to which."""
        return (self.reversing_symmetries.abs() > TOLERANCE).any(0)

    def _averaged_over_mixed_components(self, scale: torch.Tensor) -> torch.Tensor:
        """Geometric means over sets of components that the symmetries connect."""
        connected = self._connected()
        connected = (connected | connected.mT | torch.eye(self.dim, dtype=torch.bool)).double()
        component = torch.linalg.matrix_power(connected, self.dim) > 0
        return torch.stack([scale[members].log().mean().exp() for members in component])

    @classmethod
    def arguments_of_file(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Stored arguments, of earlier versions too, as they are to be given now."""
        return arguments

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, window={self.window}, prediction_window={self.prediction_window}, "
            f"volume_preserving={self.volume_preserving}, "
            f"reversing_symmetries={len(self.reversing_symmetries)}"
        )


def as_periods(periodic: Any, dim: int) -> dict[int, float]:
    """Periods of the components that are angles, by number, from pairs (component, period)."""
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
