"""Networks and functions of others as integrators: torch modules, NumPy and JAX callables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import positive
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import IntegratorArguments
from vpintegrator.models.base import Integrator
from vpintegrator.nn.tensor_arguments import last_size

NAME = "wrapped"
_MORE = 3  # states of a trial beyond the components, so that no shape is ambiguous
_SEED = 20240607
_OF_A_MODEL = ("dim", "window", "prediction_window", "predict")  # attributes of a model
_SAME = 1e-6  # relative difference of images of one state alone and among others


def wrap(
    module: Any,
    dim: int,
    step: float | None = None,
    *,
    window: int = 1,
    prediction_window: int = 1,
) -> Integrator:
    """Make an integrator of a torch module or of any function: states in, states out.

    With ``window = 1`` the function maps states (n, dim) to the states one step later, of the same
    shape. A function of a single state (dim,), of states (dim, n) or of windows (n, 1, dim) is
    recognised. With a longer window it maps windows (n, window, dim) to the windows
    ``prediction_window`` steps later, or to the new states (n, prediction_window, dim) alone. Its
    shapes are tried when it is first used.

    A function of torch tensors is differentiated by torch. A function of NumPy or JAX arrays is
    called with NumPy arrays; its derivatives are central differences, and it is not trained.

    Parameters
    ----------
    module
        A ``torch.nn.Module`` or a callable. It is not copied: training changes its parameters.
        Attributes ``volume_preserving = True`` and ``symplectic = True`` of it are believed.
    dim
        Components of a state.
    step
        Time step, where no dataset or comparison tells it.
    window, prediction_window
        States read, and states predicted.

    Returns
    -------
    Integrator
        A model in the precision of the module, float64 for functions.

    Raises
    ------
    InputError
        If ``module`` cannot be called, or sizes do not fit; on first use, if its states have
        another shape.

    Examples
    --------
    >>> net = torch.nn.Sequential(
    ...     torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
    ... )
    >>> model = vp.wrap(net, dim=2, step=0.1)
    >>> vp.rollout(model, np.zeros((3, 2)), 10).shape
    (3, 11, 2)
    """
    if isinstance(module, Integrator):
        return module
    return WrappedModel(module, dim=dim, step=step, window=window, predicted=prediction_window)


class WrappedModel(Integrator):
    """A torch module, or a function, as an integrator; see :func:`wrap`.

    Attributes
    ----------
    differentiable
        Whether torch differentiates it.
    """

    Arguments: ClassVar[type[IntegratorArguments]] = IntegratorArguments
    description = "a network or function of its own"

    def __init__(
        self, module: Any, dim: int, step: float | None, window: int, predicted: int
    ) -> None:
        if not callable(module) or isinstance(module, type):
            raise InputError(
                f"a model is a torch module or a function of states, not {_described(module)}"
            )
        weights = module.parameters() if isinstance(module, nn.Module) else ()
        dtypes = [p.dtype for p in weights if p.is_floating_point()]
        super().__init__(
            _Function(module, dim),
            dim=dim,
            window=window,
            prediction_window=predicted,
            dtype=dtypes[0] if dtypes else torch.float64,
        )
        self.__dict__["name"] = name_of(module)
        if isinstance(module, nn.Module):
            self.description = f"torch module {type(module).__qualname__}"
        else:
            self.description = f"function {self.name}"
        if step is not None:
            self.metadata["step"] = repr(positive("step", step))

    @property
    def class_name(self) -> str:
        """Module and name of the wrapped class or function."""
        own = self.function
        own = type(own) if isinstance(own, nn.Module) else own
        name = getattr(own, "__qualname__", type(own).__qualname__)
        return f"{getattr(own, '__module__', '')}.{name}"

    @property
    def function(self) -> Any:
        """The module or function that was given."""
        return self._core.function

    @property
    def differentiable(self) -> bool:
        """Whether torch differentiates the function; it is tried now if it was not used before."""
        return self._core.form(self).of_tensors

    @property
    def precision(self) -> float:
        """Relative rounding error of the function's numbers."""
        return self._core.form(self).precision

    @property
    def _core(self) -> _Function:
        assert isinstance(self.core, _Function)
        return self.core

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Map windows (..., window, dim) to the windows ``prediction_window`` steps later."""
        last_size("window", window, {"window": self.window, "dim": self.dim})
        form, new = self._core.form(self), self.prediction_window
        flat = window.reshape(-1, self.window, self.dim)
        images = form(self.function, flat)
        if form.only_new and new < self.window:
            images = torch.cat([flat[:, new:], images], 1)
        return images.reshape(window.shape)


class _Function(nn.Module):
    """Function of others, and its call form once known."""

    def __init__(self, function: Any, dim: int) -> None:
        super().__init__()
        self.function = function  # a torch module becomes a part of this one
        self.dim = dim
        self._form: _Form | None = None

    @property
    def volume_preserving(self) -> bool:
        return getattr(self.function, "volume_preserving", False) is True

    @property
    def symplectic(self) -> bool:
        return self.dim % 2 == 0 and getattr(self.function, "symplectic", False) is True

    def form(self, model: WrappedModel) -> _Form:
        """Return the call form of the function, found with random states the first time."""
        if self._form is None:
            training = self.training
            self.eval()
            try:
                # derivatives are tried, also where a rollout needs none
                with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
                    warnings.simplefilter("ignore")
                    self._form = _find_form(self.function, model)
            finally:
                self.train(training)
        return self._form


@dataclass(frozen=True)
class _Form:
    """Call form of a function: its input from windows (n, window, dim), and its output.

    Attributes
    ----------
    shape
        ``states`` (n, dim), ``columns`` (dim, n), ``windows`` (n, window, dim) or ``state`` (dim,).
    of_tensors
        Whether the function takes and returns tensors; else NumPy arrays.
    predicted
        Number of states to predict.
    only_new
        Whether the function returns only new states.
    precision
        Relative rounding error of the results: JAX has single precision by default.
    """

    shape: str
    of_tensors: bool
    predicted: int
    only_new: bool = False
    precision: float = float(np.finfo(np.float64).eps)

    def __call__(self, function: Callable[[Any], Any], windows: torch.Tensor) -> torch.Tensor:
        if self.shape == "windows":
            images = self._call(function, windows)
            return images[:, None] if images.ndim == 2 else images
        states = windows[:, 0]
        if self.shape == "columns":
            return self._call(function, states.mT).mT[:, None]
        if self.shape == "state":
            return torch.stack([self._call(function, state) for state in states])[:, None]
        return self._call(function, states)[:, None]

    def _call(self, function: Callable[[Any], Any], states: torch.Tensor) -> torch.Tensor:
        if self.of_tensors:
            return function(states)
        return torch.from_numpy(np.array(self.raw(function, states), np.float64)).to(states)

    @staticmethod
    def raw(function: Callable[[Any], Any], states: torch.Tensor) -> np.ndarray:
        """Return the result of a function of NumPy arrays."""
        return np.asarray(function(states.detach().cpu().numpy()))


def _find_form(function: Any, model: WrappedModel) -> _Form:
    """Return the form in which a function takes states to states.

    Raises
    ------
    InputError
        If there is none; the sentence says what came back, or what went wrong.
    """
    count, window, new = model.dim + _MORE, model.window, model.prediction_window
    draw = np.random.default_rng(_SEED).standard_normal((count, window, model.dim))
    states = torch.from_numpy(0.1 * draw).to(model.shift)
    shapes = ("states", "columns", "state", "windows") if window == 1 else ("windows",)
    wanted: dict[str, set[tuple[int, ...]]] = {
        "windows": {(count, window, model.dim), (count, new, model.dim)}
    }
    if new == 1:
        wanted["windows"].add((count, model.dim))
    for of_tensors in (True,) if isinstance(function, nn.Module) else (True, False):
        for shape in shapes:
            form = _Form(shape, of_tensors, new)
            try:
                images = _tried(form, function, states)
            except Exception:  # whatever a function of others raises
                continue
            if images is None or tuple(images.shape) not in wanted.get(
                shape, {(count, 1, model.dim)}
            ):
                continue
            if shape in ("states", "columns") and not _is_of_each(form, function, states, images):
                continue
            only_new = window > 1 and tuple(images.shape) != (count, window, model.dim)
            return _Form(shape, of_tensors, new, only_new, _precision(form, function, states))
    raise InputError(_why_not(function, model, states))


def _tried(form: _Form, function: Any, states: torch.Tensor) -> torch.Tensor | None:
    """Return images of states, or None if the function returns no array of numbers."""
    if form.of_tensors and not isinstance(function, nn.Module):
        # functions of NumPy take tensors, too, but not such that are differentiated
        images = form(function, states.clone().requires_grad_())
        return images if isinstance(images, torch.Tensor) and images.requires_grad else None
    with torch.no_grad():
        images = form(function, states)
    return images if isinstance(images, torch.Tensor) and images.is_floating_point() else None


def _is_of_each(form: _Form, function: Any, states: torch.Tensor, images: torch.Tensor) -> bool:
    """Whether the images of two states do not depend on the other states."""
    with torch.no_grad():
        alone = form(function, states[:2].clone())
    if alone.shape != images[:2].shape:
        return False
    return bool(torch.allclose(alone, images[:2].detach(), rtol=_SAME, atol=_SAME, equal_nan=True))


def _precision(form: _Form, function: Any, states: torch.Tensor) -> float:
    """Return the relative rounding error of the numbers that a function gives."""
    if form.of_tensors:
        return float(torch.finfo(states.dtype).eps)
    given = {"columns": states[:, 0].mT, "state": states[0, 0], "states": states[:, 0]}
    found = form.raw(function, given.get(form.shape, states)).dtype
    return float(np.finfo(found if found.kind == "f" else np.float64).eps)


def is_own(model: Any) -> bool:
    """Whether this is a module or function that is no model of this package yet."""
    steps = all(hasattr(model, name) for name in _OF_A_MODEL)
    return callable(model) and not isinstance(model, type) and not steps


def check_model(model: Any, what: str) -> None:
    """Raise InputError for what is neither a model nor a module or function."""
    if isinstance(model, type) or not callable(model):
        raise InputError(
            f"{what} must be a model, a torch module or a function of states, not "
            f"{_described(model)}"
        )


def _why_not(function: Any, model: WrappedModel, states: torch.Tensor) -> str:
    """Describe the result, or the error, of a function of states in a sentence."""
    window, new = model.window, model.prediction_window
    given = states[:, 0] if window == 1 else states
    wanted = f"{(len(states), model.dim)}"
    if window > 1:
        wanted = f"{(len(states), window, model.dim)} or {(len(states), new, model.dim)}"
    what = f"{model.name} must map {'states' if window == 1 else 'windows'} of shape "
    what += f"{tuple(given.shape)} to {wanted}"
    kinds = [given] if isinstance(function, nn.Module) else [given.numpy(), given]
    said = ""
    for value in kinds:
        try:
            with torch.no_grad():
                found = function(value)
        except Exception as error:  # whatever a function of others raises
            said = said or f"it raises {type(error).__name__}: {error}"
            continue
        shape = getattr(found, "shape", None)
        if shape is None:
            return f"{what}, but it gives {_described(found)}"
        return f"{what}, but it gives shape {tuple(shape)}"
    return f"{what}, but {said}"


def name_of(module: Any) -> str:
    """Return a name for a module or function, fit for figures and files."""
    name = type(module).__name__ if isinstance(module, nn.Module) else ""
    name = name or getattr(module, "__name__", "") or type(module).__name__
    return "function" if name == "<lambda>" else name


def _described(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}; make an object of it"
    text = repr(value)
    return text if len(text) < 40 else f"an object of type {type(value).__name__}"
