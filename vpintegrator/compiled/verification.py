"""Verification of compiled models against PyTorch before use.

A library takes seconds to make and is used for years; whether it does what PyTorch does shows on a
few windows in milliseconds. What tracing cannot see shows there too: random numbers, trajectories
that depend on one another, a branch taken where PyTorch is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.tracing import watched
from vpintegrator.errors import first_line
from vpintegrator.nn.implicit import unrolled
from vpintegrator.runtime.threads import torch_threads

if TYPE_CHECKING:
    from vpintegrator.models import Model

# sizes of random windows, in units of the normalisation
_SIZES = np.array([1.0, 1.0, 1.0, 0.1, 3.0])[:, None, None]
_SMALLER = np.array([1.0, 1.0, 1.0, 0.1, 0.01])[:, None, None]  # where derivatives are compared
_OWN = 4  # windows of the caller's own
_STEP = 0.1  # relative step to other weights: weights of a new model may be zero, or equal
_NUDGE = 16  # units of rounding
_AMPLIFIED = 20.0  # allowed difference, relative to the effect of such a change
_MOST = 0.1  # largest allowed relative difference, with any amplification of rounding
_FAR = 100.0  # units of the normalisation: beyond it polynomials amplify rounding to anything
_HIDDEN = 1e-4  # relative to other numbers: smaller numbers do not count


class Predictor(Protocol):
    """Whatever iterates a model."""

    def predict(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all states predicted, and the last windows."""


@np.errstate(all="ignore")  # infinities are compared, not warned of
def verify_model(machine: Predictor, model: Model, windows: Any = None) -> None:
    """Compare states predicted from random windows, and from some of ``windows``, with PyTorch's.

    Two predictions are made, one from the other; each is compared with what PyTorch predicts from
    the same window, unless that is far from the data.

    Parameters
    ----------
    machine, model
        Compiled model, and the same model in PyTorch.
    windows
        (trajectory, window, dim), if there are any.

    Raises
    ------
    NotCompilable
        If they differ by more than rounding.
    """
    generator = np.random.default_rng(0)
    first = _random_states(model, (len(_SIZES), model.window), generator, _SIZES)
    if windows is not None:
        given = np.asarray(windows[:_OWN], first.dtype)
        first = np.concatenate([first, given[np.isfinite(given).all((1, 2))]])
    new = model.prediction_window
    states, _ = machine.predict(first, 2)
    second = np.concatenate([first, states[:, :new]], axis=1)[:, -model.window :]
    both = np.concatenate([first, second])
    images = np.concatenate([states[:, :new], states[:, new:]])

    def predicted(windows: np.ndarray) -> np.ndarray:
        return model.predict(torch.from_numpy(windows)).numpy()

    with _pytorch(model), torch.no_grad(), unrolled():
        expected = predicted(both)
        again = predicted(_nudged(both, generator))
        if not np.array_equal(predicted(both), expected, equal_nan=True):
            raise NotCompilable("the model gives other states when it is called again")
        near = _near(model, both) & _near(model, expected)
    near |= not near.any()
    floors = _HIDDEN * model.coordinates.state_scale.numpy()
    for k, floor in enumerate(floors):
        numbers = (each[near, :, k] for each in (images, expected, again))
        _compare(f"component {k + 1} of the states", *numbers, floor=floor)


@np.errstate(all="ignore")
def verify_residual(machine: Any, model: Model) -> None:
    """Compare residuals and their derivatives with PyTorch's.

    At random windows, at the weights that the model has now and at others near them. Jacobians are
    compared as products with a random vector, which reverse mode gives at once. Nothing is compared
    at windows from which the model overflows, or nearly so.

    Raises
    ------
    NotCompilable
        If they differ by more than rounding.
    """
    generator = np.random.default_rng(0)
    trained = {name: p.detach().numpy() for name, p in model.named_parameters() if p.requires_grad}
    nothing = np.empty(0, machine.dtype)
    now = np.concatenate([nothing, *(p.ravel() for p in trained.values())])
    sizes = [np.full(p.size, _size(p) or 1.0) for p in trained.values()]
    step = _STEP * np.concatenate([nothing, *sizes]) * generator.normal(size=now.shape)
    rows = (2 if machine.chained else 1) * model.prediction_window
    ends = np.cumsum([p.size for p in trained.values()])[:-1]
    weights = np.tile(machine.weights, rows)
    for vector in (now, (now + step).astype(now.dtype)):
        windows = _random_states(model, (len(_SMALLER), model.window), generator, _SMALLER)
        targets = _random_states(model, (len(windows), rows), generator)
        factors = generator.normal(size=(len(windows), rows * model.dim)).astype(now.dtype)
        with _pytorch(model):
            states, _ = _differentiated(model, trained, vector, windows, weights * factors)
            near = _near(model, states)
            if not near.any():
                continue
            windows = windows[near]
            targets = targets[near]
            factors = factors[near]
            near_vector = _nudged(vector, generator)
            near_windows = _nudged(windows, generator)
            (states, slopes), (others, again) = (
                _differentiated(model, trained, at, first, weights * factors)
                for at, first in ((vector, windows), (near_vector, near_windows))
            )
        transposed, residuals = machine.jacobian(vector, windows, targets)
        product = np.tensordot(transposed, factors, ((2, 1), (0, 1)))
        expected, nudged = (
            ((each - targets) * machine.weights).reshape(len(windows), -1)
            for each in (states, others)
        )
        floor = _HIDDEN * _size(product)
        _compare("the residuals", residuals.T, expected, nudged, floor=floor)
        parts = zip(*(np.split(each, ends) for each in (product, slopes, again)), strict=True)
        for name, part in zip(trained, parts, strict=False):
            _compare(f"derivatives by {name}", *part, floor=floor)

        # the rest must agree with these
        squares, gradient = machine.gradient(vector, windows, targets)
        plain = residuals.T.reshape(len(windows), rows, -1) / machine.weights
        sums = [np.sum(each.astype(float) ** 2) for each in (residuals, plain)]
        half = np.tensordot(transposed, residuals, 2)
        if not np.isfinite(half).all():
            continue  # zeros times infinities, which are left out there
        for what, values, right in (
            ("the sums of squares", machine.sums(vector, windows, targets), sums),
            ("the sums of squares", squares, sums),
            ("the gradient", gradient, half),
        ):
            right = np.asarray(right, now.dtype)
            _compare(what, values, right, right, floor=_size(half))


@contextmanager
def _pytorch(model: Model) -> Iterator[None]:
    """Run a model in PyTorch, and say how one of the user's own fails."""
    try:
        with torch_threads(1), watched(model):
            yield
    except NotCompilable:
        raise
    except Exception as error:
        raise NotCompilable(f"the model fails in PyTorch: {first_line(error)}") from error


def _near(model: Model, states: np.ndarray) -> np.ndarray:
    """Return whether windows of states are within the usual range of the normalisation."""
    distances = model.coordinates(torch.from_numpy(states)).abs().numpy()
    return np.asarray((distances <= _FAR).all((1, 2)))


def _differentiated(
    model: Model,
    trained: dict[str, np.ndarray],
    weights: np.ndarray,
    windows: np.ndarray,
    factors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return states predicted at some weights from some windows, and the slope of a sum of them.

    The sum is that of the states (window, state, dim) times ``factors`` (window, state * dim).
    """
    vector = torch.from_numpy(weights).requires_grad_()
    window = torch.from_numpy(windows)
    new = model.prediction_window
    states = window[:, :0]
    with torch.enable_grad():
        flat = vector.split([p.size for p in trained.values()])
        named = {n: v.view(p.shape) for (n, p), v in zip(trained.items(), flat, strict=True)}
        while states.shape[1] * model.dim < factors.shape[1]:
            output = torch.func.functional_call(model, named, (window,))
            predicted = output[:, model.window - new :]
            states = torch.cat([states, predicted], dim=1)
            window = torch.cat([window, predicted], dim=1)[:, -model.window :]
        total = (states.flatten(1) * torch.from_numpy(factors)).sum()
        slopes = torch.zeros_like(vector)
        if total.requires_grad:
            (slopes,) = torch.autograd.grad(
                total, vector, allow_unused=True, materialize_grads=True
            )
    return states.detach().numpy(), slopes.numpy()


def _random_states(
    model: Model, shape: tuple[int, ...], generator: np.random.Generator, sizes: Any = 1.0
) -> np.ndarray:
    shift = model.shift.numpy()
    scale = model.scale.numpy()
    if model.seen is not None:  # as far from singularities as they are
        return model.seen[generator.integers(len(model.seen), size=shape)].astype(scale.dtype)
    states = shift + scale * sizes * generator.normal(size=(*shape, model.dim))
    states = states.astype(scale.dtype)
    return states if model.chart is None else model.chart.inverse(torch.from_numpy(states)).numpy()


def _nudged(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return numbers that differ in the last digit."""
    change = _NUDGE * np.finfo(values.dtype).eps * generator.normal(size=values.shape)
    return (values + values * change).astype(values.dtype)


def _size(values: np.ndarray) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _compare(
    what: str, values: np.ndarray, expected: np.ndarray, nudged: np.ndarray, *, floor: float
) -> None:
    """Refuse what differs from the numbers expected by more than rounding.

    Half of the digits must agree, but for what a change of the last digits changes, ``nudged``.
    Numbers count as no smaller than ``floor``.
    """
    finite = np.isfinite(expected)
    size = max(_size(expected), floor)
    rounding = _AMPLIFIED * _size(nudged - expected)
    error = np.abs(values[finite] - expected[finite]).max(initial=0.0)
    allowed = np.sqrt(np.finfo(expected.dtype).eps) * size + min(rounding, _MOST * size)
    if not error <= allowed or np.isfinite(values[~finite]).any():
        raise NotCompilable(
            f"its machine code gives other numbers than PyTorch, by {error:.1e} in {what}, which "
            f"are of size {size:.1e}"
        )
