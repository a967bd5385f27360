"""Models around others: torch modules of the user, and families whose windows hold parameters."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import complex_values, of_kind, positive, shown
from vpintegrator.errors import InputError, first_line
from vpintegrator.models.iteration import evaluating, gradients_off, leave_inference, modes_kept
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Origin
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
    to (n, dim) where it predicts one state. Where it predicts fewer states than it reads, the model
    shifts the window: of what the module returns the new states count.

    A function of NumPy or JAX arrays is a map: :meth:`vpintegrator.System.from_map`.

    Parameters
    ----------
    module
        The module. It is not copied: training changes its parameters. Attributes
        ``volume_preserving = True`` and ``symplectic = True`` of it are believed where it predicts
        as many states as it reads.
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
        model.origin = Origin(step=positive("step", step))
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
        leave_inference(self)
        self.needs_gradient = False  # whether it differentiates inside its forward
        self._try()

    def forward(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Map windows (..., window, dim) to the windows ``prediction_window`` steps later."""
        self.coefficients(parameters)  # refuses any
        last_size("window", window, {"window": self.window, "dim": self.dim})
        flat = window.reshape(-1, self.window, self.dim)
        images = self._images(flat[:, 0] if self.window == 1 else flat).to(window.dtype)
        if images.ndim == 2:
            images = images[:, None]
        return self._shifted(flat, images).reshape(window.shape)

    def _images(self, states: torch.Tensor) -> Any:
        """Return what the module gives for states (n, dim), or windows (n, window, dim)."""
        without_gradient = not torch.is_grad_enabled()
        if self.needs_gradient:
            with torch.enable_grad():
                if not states.requires_grad:
                    states = states.detach().clone().requires_grad_()
                images = self.core(states.clone())
        else:
            images = self.core(states.clone())  # the module may change them in place
        if without_gradient and torch.is_tensor(images) and images.requires_grad:
            return images.detach()
        return images

    def _try(self) -> None:
        """Raise InputError if states have another shape than they should have.

        Warn where the module is no map of each window by itself.
        """
        count = self.dim + _TRIED
        n = self.dim
        new = self.prediction_window
        given: tuple[int, ...] = (count, n) if self.window == 1 else (count, self.window, n)
        wanted = [given, *([] if self.window == 1 else [(count, new, n)])]
        with gradients_off(), _left_alone(self), evaluating(self):
            answer = ""
            for self.needs_gradient in (False, True):
                try:
                    images = self._images(torch.zeros(given).to(self.shift))
                except Exception as error:  # whatever a module of the user raises
                    if not answer or "grad" in answer:  # the second time there are gradients
                        answer = f"raises {type(error).__name__}: {error}"
                    continue
                shape = tuple(getattr(images, "shape", ()))
                if torch.is_tensor(images) and images.is_complex():
                    raise complex_values(self.name)
                if shape in wanted or (new == 1 and shape == (count, n)):
                    self._check_each_by_itself(given)
                    return
                answer = f"gives {f'shape {shape}' if torch.is_tensor(images) else shown(images)}"
                break
        raise InputError(
            f"{self.name} must map {'states' if self.window == 1 else 'windows'} of shape {given} "
            f"to {' or '.join(map(str, wanted))}, but it {answer}"
        )

    def check_trainable(self, windows: torch.Tensor) -> None:
        """Raise InputError unless images of windows (n, window, dim) depend on the parameters."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        reason = ""
        windows = windows[:: -(-len(windows) // 16)]
        with evaluating(self), torch.enable_grad():
            for part in (windows, *windows.split(1)):  # a network may branch
                try:
                    total = self(part).sum()
                    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
                except Exception as error:  # whatever it raises
                    reason = first_line(error)
                    continue
                if any(gradient is not None for gradient in gradients):
                    return
                reason = (
                    "its states do not depend on its parameters; torch.autograd.grad inside a "
                    "forward needs create_graph=True"
                )
        raise InputError(f"{self.name} cannot be trained: {reason}")

    def _check_each_by_itself(self, shape: tuple[int, ...]) -> None:
        """Warn if the module is random, remembers its calls, or mixes the states of a batch."""
        states = torch.linspace(-0.5, 0.5, math.prod(shape)).reshape(shape).sin().to(self.shift)
        reason = ""
        with suppress(Exception):  # outside of the domain of the module
            if not _are_close(*(self._images(states) for _ in range(2))):
                reason = (
                    "gives other states when it is called again with the same ones: it is random, "
                    "or depends on earlier calls"
                )
            elif not _are_close(self._images(states)[:1], self._images(states[:1])):
                reason = (
                    f"gives other states for a batch {shape} than for each of its entries: the "
                    "first axis counts trajectories, so attention and recurrent layers need "
                    "batch_first=True"
                )
        if reason:
            warnings.warn(f"{self.name} {reason}", stacklevel=4)


def _are_close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.allclose(first.double(), second.double(), 1e-3, 1e-5, equal_nan=True)


@contextmanager
def in_training(model: WrappedModel) -> Iterator[None]:
    """Keep the modes of the network of a user, and say in one sentence how it fails."""
    with modes_kept(model.core):
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # whatever it raises
            raise InputError(f"{model.name} cannot be trained: {first_line(error)}") from error


@contextmanager
def _left_alone(model: WrappedModel) -> Iterator[None]:
    """Try a copy of the module, where there can be one: it may remember its calls."""
    module = model.core
    with suppress(Exception):  # tensors with a history cannot be copied
        model.core = copy.deepcopy(module)
    try:
        yield
    finally:
        model.core = module


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
        states = window[..., : self.state_dim]
        k = window[..., self.state_dim :]
        images = beside([self.core(states, k[..., -1, :]), k])  # (..., window, dim + p)
        return self._shifted(window, images)
