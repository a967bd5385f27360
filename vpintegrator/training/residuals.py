"""Objective, residuals and errors: predicted minus true states, one window ahead or more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch.func import functional_call

from vpintegrator.arguments import (
    called,
    check,
    not_negative,
    of_kind,
    one_of,
    shown,
    whole,
)
from vpintegrator.compiled import CompiledResidual
from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.models import Model
from vpintegrator.models.iteration import modes_kept
from vpintegrator.models.model import check_model
from vpintegrator.models.stored import History
from vpintegrator.names import LOSSES
from vpintegrator.nn.layer import beside, last_size
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.training.results import TOLERANCES

BLOCK = 8192  # windows evaluated at once
# times the validation error, at least: 7 times is the most of about a dozen systems of the
# catalogue, and 400 where the validation error is rounding, below TOLERANCES.test
_FAR = 100.0


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Objective:
    r"""A least-squares problem.

    .. math:: \sum_{\text{windows}} \sum_{k=1}^{H P}
        \left\| W \left( z_k^{\text{predicted}} - z_k^{\text{true}} \right) \right\|^2

    over the H P states that H predictions of P states each make of a window, with the weights
    :math:`W = I` or those of the model's normalisation,
    :math:`W = \operatorname{diag}(1/\text{scale})`.

    Attributes
    ----------
    loss
        ``mean-square``: differences in units of the model's normalisation, so that every component
        counts alike. ``relative``: in the units of the states, so that the sum of squares is that
        of the relative L2 error (the loss of arXiv 2312.11166). Or a function of predicted and true
        states (window, time, dim) that returns the number to be minimised, for optimizers that
        follow gradients.
    horizon
        Number H of predictions, each made from the one before. More than one teaches the model what
        happens on its own windows, which lie off the surface that true windows fill.
    noise
        Standard deviation of random noise on the inputs, in units of the model's normalisation,
        for the same purpose.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=10, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> vp.train(model, dataset, horizon=2, noise=1e-3, epochs=2).epochs
    2
    """

    loss: str | Loss = "mean-square"
    horizon: int = 1
    noise: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.loss, str):
            one_of("loss", self.loss, LOSSES)
        else:
            called("loss", self.loss, f"{', '.join(LOSSES)}, or a function of two tensors")
        check(self, horizon=whole, noise=not_negative)

    def residuals_of_window(self, model: Model) -> int:
        """Return the number of components that are predicted from a window."""
        return self.horizon * model.prediction_window * model.dim

    def new_states(self, model: Map, targets: torch.Tensor) -> torch.Tensor:
        """Return the true states to be predicted, out of targets (..., time, dim)."""
        return targets[..., targets.shape[-2] - self.horizon * model.prediction_window :, :]

    def difference(
        self, model: Model, pair: Pair, weights: Mapping[str, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """Return predicted minus true states, (..., horizon * prediction_window, dim).

        With ``weights`` these take the place of the model's own. Targets are new states alone.
        """
        new = model.prediction_window
        window = pair.inputs
        k = () if pair.parameters is None else (pair.parameters,)
        predictions: list[torch.Tensor] = []
        for _ in range(self.horizon):
            if predictions:
                window = torch.cat([window[..., new:, :], predictions[-1]], dim=-2)
            if weights is None:
                images = model(window, *k)  # (..., window, dim)
            else:
                images = functional_call(model, dict(weights), (window, *k))
            predictions.append(images[..., model.window - new :, :])
        predicted = predictions[0] if self.horizon == 1 else torch.cat(predictions, dim=-2)
        return predicted - pair.targets

    def weighted(self, model: Model, difference: torch.Tensor) -> torch.Tensor:
        """Return the residuals whose squares are summed."""
        scale = model.coordinates.state_scale
        return difference / scale if self.loss == "mean-square" else difference

    def cost(self, model: Model, difference: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the sum of squares, or a loss of one's own times the number of components."""
        if isinstance(self.loss, str):
            return self.weighted(model, difference).square().sum()
        value = self.loss(difference + targets, targets)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise InputError(
                "loss must return a tensor of one number for predicted and true states, not "
                f"{shown(value)}"
            )
        return value.reshape(()) * targets.numel()

    def noisy(self, model: Model, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the inputs with fresh noise, if there is to be any."""
        if not self.noise:
            return inputs
        noise = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
        return inputs + self.noise * model.coordinates.state_scale * noise.to(inputs.device)


class ParameterVector:
    """Translates between a vector and the named parameters of a model that are trained."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.sizes = [p.numel() for p in self.trained.values()]

    def read(self) -> torch.Tensor:
        """Return the model's parameters now, as a new vector."""
        return torch.cat([each.detach().reshape(-1) for each in self.trained.values()])

    def named(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the vector's parts by name, in the parameters' shapes."""
        pairs = zip(self.trained.items(), vector.split(self.sizes), strict=True)
        return {name: part.reshape(parameter.shape) for (name, parameter), part in pairs}

    @torch.no_grad()
    def write(self, vector: torch.Tensor) -> None:
        """Set the model's parameters."""
        for parameter, part in zip(self.trained.values(), vector.split(self.sizes), strict=True):
            parameter.copy_(part.view(parameter.shape))


class Residuals(ParameterVector):
    """Weighted residuals, their sums of squares and the gradient of these.

    Parameters
    ----------
    model, objective
        Model and objective to differentiate. The model's own parameters are only read and written.
    compiled
        Machine code of the residuals, which replaces PyTorch as soon as it is ready.
    """

    def __init__(
        self, model: Model, objective: Objective, compiled: CompiledResidual | None = None
    ) -> None:
        super().__init__(model)
        self.objective = objective
        self.compiled = compiled

    def __call__(self, vector: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the residuals of some windows, flattened."""
        difference = self.objective.difference(self.model, pair, self.named(vector))
        return self.objective.weighted(self.model, difference).reshape(-1)

    def gradient(
        self, vector: torch.Tensor, pair: Pair, rows: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weighted and plain sums of squares, (2,), and the gradient of the first.

        With ``rows``, which machine code alone takes, it is that of these pairs.
        """
        check_time()
        if self.compiled is not None:
            chosen = None if rows is None else rows.numpy()
            parts = self.compiled.gradient(vector.detach().numpy(), *machine_windows(pair), chosen)
            squares, half = map(torch.from_numpy, parts)
            return squares, 2 * half
        vector = vector.detach().requires_grad_()
        difference = self.objective.difference(self.model, pair, self.named(vector))
        cost = self.objective.cost(self.model, difference, pair.targets)
        (gradient,) = torch.autograd.grad(cost, vector, allow_unused=True, materialize_grads=True)
        squares = torch.stack([cost.detach(), difference.detach().square().sum()])
        return squares, gradient

    @torch.no_grad()
    def sums(self, vector: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the sums of squares alone, of any number of windows."""
        if self.compiled is not None:
            return torch.from_numpy(self.compiled.sums(vector.numpy(), *machine_windows(pair)))
        squares = pair.inputs.new_zeros(2)
        weights = self.named(vector)
        for part in pair.split(BLOCK):
            check_time()
            difference = self.objective.difference(self.model, part, weights)
            squares[0] += self.objective.cost(self.model, difference, part.targets)
            squares[1] += difference.square().sum()
        return squares


def machine_windows(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and new states as machine code reads them: parameters beside the states."""
    inputs = pair.inputs
    targets = pair.targets
    if pair.parameters is not None:
        k = pair.parameters.unsqueeze(1)  # (pair, 1, p)
        inputs = beside([inputs, k])
        targets = beside([targets, k])
    return inputs.detach().numpy(), targets.detach().numpy()


class ErrorScale(NamedTuple):
    """The size that errors are relative to.

    Attributes
    ----------
    components
        Numbers of the components that move; others do not count.
    spread
        Root mean square distance of the states from their mean, in these components.
    """

    components: tuple[int, ...]
    spread: float


@torch.no_grad()
def relative_error(
    model: Model,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    parameters: torch.Tensor | None = None,
    *,
    compiled: CompiledResidual | None = None,
    scale: ErrorScale | None = None,
) -> float:
    r"""Return the relative L2 error of the first new state after a window.

    .. math:: \frac{1}{s} \sqrt{\frac{1}{N}
        \sum_{n=1}^{N} \| z_n^{\text{predicted}} - z_n^{\text{true}} \|_2^2}

    with the spread :math:`s` of the states about their mean, in the components that move. Maps of
    any ``prediction_window`` are thus judged alike, one step ahead; see :func:`lead_time_errors`
    for the others of their new states.

    The model is judged in evaluation mode, as it is rolled out, and left as it was.

    Parameters
    ----------
    model
        The model.
    inputs, targets
        Pairs of windows, shape (pair, window, dim) and (pair, time, dim), see
        :func:`vpintegrator.data.windows`.
    parameters
        Of a family: parameters of each pair (pair, p).
    compiled
        The residuals of the model as machine code, to be used instead.
    scale
        The size of errors, that of all training states in a training. By default the spread of the
        new states here, in all components but those that the model conserves.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=10, overwrite=True)
    >>> inputs, targets = map(torch.from_numpy, vp.windows(dataset.states("test"), 1))
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> 0 < vp.training.relative_error(model, inputs, targets) < 1
    True
    """
    check_model(model)
    for name, tensor in (("inputs", inputs), ("targets", targets)):
        of_kind(name, tensor, torch.Tensor, "a tensor (pair, time, dim)")
        last_size(name, tensor, {"dim": model.dim})
        if tensor.ndim != 3:
            raise InputError(f"{name} has shape {tuple(tensor.shape)}, not (pair, time, dim)")
    new_states = Objective().new_states(model, targets)
    pair = Pair(inputs, new_states, parameters)
    if scale is None:
        moving = tuple(i for i in range(model.dim) if i not in model.constant_components)
        seen = new_states[..., list(moving)].reshape(-1, len(moving))
        spread = (seen - seen.mean(0)).square().sum(1).mean().sqrt().item()
        scale = ErrorScale(moving, spread)
    others = {*range(model.dim)} - {*scale.components}
    if compiled is not None and others <= model.constant_components:  # those are exact
        vector = ParameterVector(model).read()
        squares = compiled.first_squares(vector.numpy(), *machine_windows(pair))
        return relative(squares, len(new_states), scale.spread)
    return relative_error_of(model, pair.split(BLOCK), scale)


def relative_error_of(model: Model, parts: Iterable[Pair], scale: ErrorScale) -> float:
    """Return the relative error of any number of windows, computed part by part."""
    squares = 0.0
    count = 0
    for part in _squares(model, parts, scale):
        squares += part[:, 0].sum().item()
        count += len(part)
    return relative(squares, count, scale.spread)


def lead_time_errors(model: Model, pair: Pair, scale: ErrorScale) -> list[float]:
    """Return the relative error of each new state of a call: 1, 2, ... steps ahead.

    Parameters
    ----------
    model
        The model.
    pair
        Pairs of windows.
    scale
        The size of errors.

    Examples
    --------
    >>> from vpintegrator.training.residuals import ErrorScale, Pair, lead_time_errors
    >>> model = vp.models.VolumePreservingTransformer(dim=2, window=3, initial_scale=0.0)
    >>> states = torch.arange(12.0).double().reshape(1, 6, 2)
    >>> errors = lead_time_errors(
    ...     model, Pair(states[:, :3], states[:, 3:]), ErrorScale((0, 1), 6.0)
    ... )
    >>> [round(error, 4) for error in errors]
    [1.4142, 1.4142, 1.4142]
    """
    parts = [part.sum(-1) for part in _squares(model, pair.split(BLOCK), scale)]
    means = torch.cat(parts).double().mean(0)  # (prediction_window,)
    return [relative(mean, 1, scale.spread) for mean in means.tolist()]


def estimated_error(map: Map, pair: Pair, scale: ErrorScale) -> tuple[float, float]:
    """Return the relative error of windows, and its standard error; infinite where it overflows.

    The error is that of the first new state.
    """
    if isinstance(map, Model):
        parts = [part[:, 0].sum(-1) for part in _squares(map, pair.split(BLOCK), scale)]
        squares = torch.cat(parts).double()  # (window,)
    else:
        images = torch.from_numpy(map.map(pair.inputs.numpy()))  # (pair, window, dim)
        difference = images[:, -map.prediction_window] - pair.targets[:, -map.prediction_window]
        squares = difference[..., list(scale.components)].square().sum(-1)
    mean = squares.mean().item()
    count = len(squares)
    if not math.isfinite(mean):
        return math.inf, 0.0
    error = relative(mean, 1, scale.spread)
    # the root of a mean has half of its relative standard error
    noise = squares.std(correction=0).item() / math.sqrt(count) / (2 * mean) if mean > 0 else 0.0
    return error, error * noise


@torch.no_grad()
def _squares(model: Model, parts: Iterable[Pair], scale: ErrorScale) -> Iterator[torch.Tensor]:
    """Yield squared differences (window, time, component) of the components that count."""
    objective = Objective()
    with modes_kept(model):
        model.eval()
        for pair in parts:
            check_time()
            new_states = objective.new_states(model, pair.targets)
            difference = objective.difference(model, pair._replace(targets=new_states))
            yield difference[..., list(scale.components)].square()


def reciprocal_spread(images: torch.Tensor) -> torch.Tensor:
    """Return the reciprocal spread of components of images (pair, component); 1 if zero."""
    spread = images.std(0)
    return 1 / torch.where(spread > 0, spread, torch.ones(()).double())


def relative(squares: float, count: int, spread: float = 1.0) -> float:
    """Return the root of the mean of so many squares, relative to a spread, if there is any."""
    return math.sqrt(squares / max(count, 1)) / (spread if spread > 0 else 1.0)


def doubt(model: Map, held_out: Pair, scale: ErrorScale, history: History) -> str:
    """Return a warning if errors exceed those of no change, or are far larger on the test group.

    Parameters
    ----------
    model
        Trained.
    held_out
        Pairs of windows of the validation group.
    scale
        The size of errors.
    history
        History with the errors of validation and test.

    Examples
    --------
    >>> from vpintegrator.training.residuals import ErrorScale, Pair, doubt
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> windows = Pair(torch.zeros(5, 1, 2).double(), torch.ones(5, 1, 2).double())
    >>> history = vp.training.History("adam", 0, 100, best_validation_error=0.1, test_error=1e9)
    >>> doubt(model, windows, ErrorScale((0, 1), 1.0), history)
    'vpff is not to be relied on: its test error 1.0e+09 is far above the validation error 1.0e-01'
    """
    inputs, targets, _ = held_out
    new_states = Objective().new_states(model, targets)[..., :1, :]  # (window, 1, dim)
    moved = (inputs[..., -1:, :] - new_states)[..., list(scale.components)].square().sum()
    unmoved = relative(moved.item(), new_states[..., 0].numel(), scale.spread)
    validation = history.best_validation_error
    test = history.test_error
    why = ""
    for name, error in (("test", test), ("validation", validation)):
        if math.isfinite(unmoved) and error > unmoved:
            why = f"{name} error {error:.1e} is above that of no change, {unmoved:.1e}"
    if test > max(_FAR * validation, TOLERANCES.test):
        why = f"test error {test:.1e} is far above the validation error {validation:.1e}"
    return why and f"{model.name} is not to be relied on: its {why}"
