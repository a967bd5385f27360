"""Models around others: torch modules of the user, and families whose windows hold parameters."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import ComplexValues, complex_values, of_kind, positive, shown
from vpintegrator.errors import InputError
from vpintegrator.models.iteration import evaluating
from vpintegrator.models.model import Model
from vpintegrator.nn.layer import beside, last_size

_TRIED = 3  # states of a trial beyond the components, so that no shape is ambiguous


def wrap(
    module: nn.Module,
    dim: int,
    step: float | None = None,
    *,
    window: int = 1,
    prediction_window: int = 1,
) -> Model:
    """Make an integrator of a torch module: states in, states out.

    With ``window = 1`` the module maps states (n, dim) to the states one step later, of the same
    shape. With a longer window it maps windows (n, window, dim) to the windows
    ``prediction_window`` steps later, or to the new states (n, prediction_window, dim) alone, or
    to (n, dim) where it predicts one state.

    A function of NumPy or JAX arrays is a map: :meth:`vpintegrator.System.from_map`.

    Parameters
    ----------
    module
        The module. It is not copied: training changes its parameters. Attributes
        ``volume_preserving = True`` and ``symplectic = True`` of it are believed.
    dim
        Components of a state.
    step
        Time step, where no dataset or comparison tells it.
    window, prediction_window
        States read, and states predicted.

    Returns
    -------
    Model
        A model in the precision of the module.

    Raises
    ------
    InputError
        If this is no module, sizes do not fit, or its states have another shape.

    Examples
    --------
    >>> net = torch.nn.Sequential(
    ...     torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
    ... )
    >>> model = vp.wrap(net, dim=2, step=0.1)
    >>> vp.rollout(model, np.zeros((3, 2)), 10).shape
    (3, 11, 2)
    """
    of_kind(
        "model",
        module,
        nn.Module,
        "a model or a torch module; vp.System.from_map makes a map of a function of states",
    )
    if isinstance(module, Model):
        return module
    model = WrappedModel(module, dim, window=window, prediction_window=prediction_window)
    if step is not None:
        model.metadata["step"] = repr(positive("step", step))
    return model


class WrappedModel(Model):
    """A torch module as an integrator; see :func:`wrap`."""

    def __init__(
        self, module: nn.Module, dim: int, *, window: int = 1, prediction_window: int = 1
    ) -> None:
        dtypes = [p.dtype for p in module.parameters() if p.is_floating_point()]
        super().__init__(
            module,
            dim,
            window,
            prediction_window,
            dtype=dtypes[0] if dtypes else torch.float64,
            description=f"torch module {type(module).__qualname__}",
        )
        self.__dict__["name"] = type(module).__name__
        self._try()

    def forward(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Map windows (..., window, dim) to the windows ``prediction_window`` steps later."""
        self.coefficients(parameters)  # refuses any
        last_size("window", window, {"window": self.window, "dim": self.dim})
        flat = window.reshape(-1, self.window, self.dim)
        images = self.core(flat[:, 0] if self.window == 1 else flat)
        if images.ndim == 2:
            images = images[:, None]
        if images.shape[1] < self.window:  # new states alone
            images = torch.cat([flat[:, self.prediction_window :], images], 1)
        return images.reshape(window.shape)

    def _try(self) -> None:
        """Raise InputError if states have another shape than they should have."""
        count, n, new = self.dim + _TRIED, self.dim, self.prediction_window
        given: tuple[int, ...] = (count, n) if self.window == 1 else (count, self.window, n)
        wanted = [given, *([] if self.window == 1 else [(count, new, n)])]
        try:
            with evaluating(self), torch.no_grad():
                images = self.core(torch.zeros(given).to(self.shift))
            shape = tuple(getattr(images, "shape", ()))
            if torch.is_tensor(images) and images.is_complex():
                raise complex_values(self.name)
            if shape in wanted or (new == 1 and shape == (count, n)):
                return
            answer = f"gives {f'shape {shape}' if torch.is_tensor(images) else shown(images)}"
        except ComplexValues:
            raise
        except Exception as error:  # whatever a module of the user raises
            answer = f"raises {type(error).__name__}: {error}"
        raise InputError(
            f"{self.name} must map {'states' if self.window == 1 else 'windows'} of shape {given} "
            f"to {' or '.join(map(str, wanted))}, but it {answer}"
        )


class WithParameters(Model):
    """A family as a map of windows (..., window, dim + p): states, and the parameters of each.

    Machine code reads one array. Parameters stay as they are.

    Parameters
    ----------
    family
        A trained family, with ``ranges``.
    """

    def __init__(self, family: Model) -> None:
        low, high = torch.tensor([*family.ranges.values()], dtype=torch.float64).unbind(1)  # (p,)
        super().__init__(
            family,
            family.dim + len(low),
            window=family.window,
            prediction_window=family.prediction_window,
            dtype=family.scale.dtype,
        )
        self.__dict__["name"] = family.name
        self.state_dim = family.dim
        width = torch.where(high > low, (high - low) / 4, 1e-3 * low.abs() + 1e-6)
        shift = torch.cat([family.shift.cpu(), (low + high) / 2])
        self.set_normalisation(shift, torch.cat([family.scale.cpu(), width]))
        self.to(family.scale)

    def forward(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Map windows (..., window, dim + p) to the windows ``prediction_window`` steps later."""
        states, k = window[..., : self.state_dim], window[..., self.state_dim :]
        return beside([self.core(states, k[..., -1, :]), k])  # (..., window, dim + p)
