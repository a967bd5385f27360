"""Verification of compiled models against PyTorch before use.

A library takes seconds to make and is used for years; whether it does what PyTorch does shows on a
few windows in milliseconds. What tracing cannot see shows there too: random numbers, trajectories
that depend on one another, a branch taken where PyTorch is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from vpintegrator.compiled.tracing import first_line, watched
from vpintegrator.native import NotCompilable
from vpintegrator.nn.implicit import unrolled
from vpintegrator.runtime.threads import torch_threads

if TYPE_CHECKING:
    from vpintegrator.models import Model

_SIZES = (1.0, 1.0, 1.0, 0.1, 3.0)  # sizes of random windows, in units of the normalisation
_OWN = 4  # windows of the caller's own
_PAIRS = 3  # windows at which derivatives are compared
_STEP = 0.1  # relative step to other weights: weights of a new model may be zero, or equal
_NUDGE = 16  # units of rounding
_AMPLIFIED = 20.0  # allowed difference, relative to the effect of such a change
_MOST = 0.1  # largest allowed relative difference, with any amplification of rounding
_NEARER = (1.0, 0.1, 0.01)  # times the distance of random windows from the mean
_FAR = 100.0  # units of the normalisation: beyond it polynomials amplify rounding to anything
_HIDDEN = 1e-4  # relative to other numbers: smaller numbers do not count

_Numbers = dict[str, np.ndarray]  # arrays by name


class Predictor(Protocol):
    """Whatever iterates a model."""

    def predict(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all states predicted, and the last windows."""


@np.errstate(all="ignore")  # infinities are compared, not warned of
def verify_model(machine: Predictor, model: Model, windows: Any = None) -> None:
    """Compare states predicted from random windows, and from some of ``windows``, with PyTorch's.

    Two predictions are made, one from the other; each is compared with what PyTorch predicts from
    the same window.

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
    sizes = np.array(_SIZES)[:, None, None]
    first = _random_states(model, (len(_SIZES), model.window), generator, sizes)
    if windows is not None:
        own = np.asarray(windows[:_OWN], first.dtype)
        first = np.concatenate([first, own[np.isfinite(own).all((1, 2))]])
    new = model.prediction_window
    states, _ = machine.predict(first, 2)
    second = np.concatenate([first, states[:, :new]], axis=1)[:, -model.window :]

    def by_component(states: np.ndarray) -> _Numbers:
        return {f"component {k + 1} of the states": states[..., k] for k in range(model.dim)}

    def predicted(windows: np.ndarray) -> _Numbers:
        # with as many Newton iterations: states far from those of training may need more
        with torch.no_grad(), unrolled():
            return by_component(model.predict(torch.from_numpy(windows)).numpy())

    both = np.concatenate([first, second])
    new_states = np.concatenate([states[:, :new], states[:, new:]])
    near = _near(model, both)
    with (
        torch.no_grad(),
        unrolled(),
        suppress(Exception),
    ):  # of a model that fails, as is said below
        near &= _near(model, model.predict(torch.from_numpy(both)).numpy())
    if near.any():
        both, new_states = both[near], new_states[near]
    found = by_component(new_states)
    floors = dict(zip(found, _HIDDEN * model.coordinates.state_scale.numpy(), strict=True))
    _check(model, found, predicted, (both,), floors)


def _near(model: Model, states: np.ndarray) -> np.ndarray:
    """Return whether windows of states are within the usual range of the normalisation."""
    distances = model.coordinates(torch.from_numpy(states)).abs().numpy()
    return np.asarray((distances <= _FAR).all((1, 2)))


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
    for vector in (now, (now + step).astype(now.dtype)):
        windows = _random_states(model, (_PAIRS, model.window), generator)
        if (near := _windows_near(model, trained, vector, windows, rows)) is None:
            continue
        windows = near
        targets = _random_states(model, (_PAIRS, rows), generator)
        factors = generator.normal(size=(_PAIRS, rows * model.dim)).astype(now.dtype)
        transposed, residuals = machine.jacobian(vector, windows, targets)
        product = np.tensordot(transposed, factors, ((2, 1), (0, 1)))
        found = {"the residuals": residuals.T, **_by_weight(trained, product)}

        def in_pytorch(
            vector: np.ndarray,
            windows: np.ndarray,
            targets: np.ndarray = targets,
            factors: np.ndarray = factors,
        ) -> _Numbers:
            states, slopes = _differentiated(
                model, trained, (vector, windows), factors * np.tile(machine.weights, rows), rows
            )
            difference = (states - targets) * machine.weights
            return {
                "the residuals": difference.reshape(_PAIRS, -1),
                **_by_weight(trained, slopes),
            }

        floors = dict.fromkeys(found, _HIDDEN * _size(product))
        _check(model, found, in_pytorch, (vector, windows), floors)

        # the rest must agree with these
        squares, gradient = machine.gradient(vector, windows, targets)
        plain = residuals.T.reshape(_PAIRS, rows, -1) / machine.weights
        sums = np.array([np.sum(residuals.astype(float) ** 2), np.sum(plain.astype(float) ** 2)])
        half = np.tensordot(transposed, residuals, 2)
        if not np.isfinite(half).all():
            continue  # zeros times infinities, which are left out there
        for what, values, expected in (
            ("the sums of squares", machine.sums(vector, windows, targets), sums),
            ("the sums of squares", squares, sums),
            ("the gradient", gradient, half),
        ):
            _compare(what, values, expected.astype(now.dtype), _size(half))


def _windows_near(
    model: Model, trained: _Numbers, vector: np.ndarray, windows: np.ndarray, rows: int
) -> np.ndarray | None:
    """Return windows from which the model stays near its data, or nearer to its mean."""
    mean, none = model.shift.numpy(), np.zeros((len(windows), rows * model.dim), vector.dtype)
    for size in _NEARER:
        nearer = windows if size == 1 else (mean + size * (windows - mean)).astype(windows.dtype)
        try:
            states, _ = _differentiated(model, trained, (vector, nearer), none, rows)
            if _near(model, states).all():
                return nearer
        except Exception:  # of a model that fails, as is said where it is compared
            return windows
        if model.seen is not None or model.chart is not None:
            break  # other windows may be no states
    return None


def _differentiated(
    model: Model,
    trained: _Numbers,
    at: tuple[np.ndarray, np.ndarray],
    factors: np.ndarray,
    rows: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return states predicted at some weights from some windows, and the slope of a sum of them."""
    vector, window = torch.from_numpy(at[0]).requires_grad_(), torch.from_numpy(at[1])
    new, states = model.prediction_window, window[:, :0]
    with torch.enable_grad():
        flat = vector.split([p.size for p in trained.values()])
        named = {n: v.view(p.shape) for (n, p), v in zip(trained.items(), flat, strict=True)}
        while states.shape[1] < rows:
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


def _by_weight(trained: _Numbers, vector: np.ndarray) -> _Numbers:
    ends = np.cumsum([p.size for p in trained.values()])[:-1]
    parts = np.split(vector, ends)
    return {f"derivatives by {n}": part for n, part in zip(trained, parts, strict=False)}


def _random_states(
    model: Model, shape: tuple[int, ...], generator: np.random.Generator, sizes: Any = 1.0
) -> np.ndarray:
    shift, scale = model.shift.numpy(), model.scale.numpy()
    if model.seen is not None:  # as far from singularities as they are
        return model.seen[generator.integers(len(model.seen), size=shape)].astype(scale.dtype)
    states = shift + scale * sizes * generator.normal(size=(*shape, model.dim))
    states = states.astype(scale.dtype)
    if model.chart is not None:
        states = model.chart.inverse(torch.from_numpy(states)).numpy()
    return states


def _check(
    model: Model,
    found: _Numbers,
    in_pytorch: Callable[..., _Numbers],
    arguments: tuple[np.ndarray, ...],
    floors: Mapping[str, float],
) -> None:
    """Compare what was found with what a function of PyTorch gives.

    Where they differ it is asked again with the last digits of its arguments changed, which shows
    how rounding grows.
    """
    try:
        with torch_threads(1), watched(model):
            expected = in_pytorch(*arguments)
            try:
                for what, values in found.items():
                    _compare(what, values, expected[what], floors[what])
            except NotCompilable:
                generator = np.random.default_rng(1)
                near = in_pytorch(*(_nudged(argument, generator) for argument in arguments))
                for what, values in found.items():
                    rounding = _AMPLIFIED * _size(near[what] - expected[what])
                    _compare(what, values, expected[what], floors[what], rounding)
    except NotCompilable:
        raise
    except Exception as error:  # whatever a model of the user's own does
        raise NotCompilable(f"the model fails in PyTorch: {first_line(error)}") from error


def _nudged(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return numbers that differ in the last digit."""
    change = _NUDGE * np.finfo(values.dtype).eps * generator.normal(size=values.shape)
    return (values + values * change).astype(values.dtype)


def _size(values: np.ndarray) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _compare(
    what: str, found: np.ndarray, expected: np.ndarray, floor: float, rounding: float = 0.0
) -> None:
    """Refuse what differs from the numbers expected by more than rounding.

    Parameters
    ----------
    floor
        Smallest size that numbers count as.
    rounding
        Allowed difference beyond half of the digits.
    """
    finite = np.isfinite(expected)
    size = max(_size(expected), floor)
    error = np.abs(found[finite] - expected[finite]).max(initial=0.0)
    allowed = np.sqrt(np.finfo(expected.dtype).eps) * size + min(rounding, _MOST * size)
    if not error <= allowed or np.isfinite(found[~finite]).any():
        raise NotCompilable(
            f"its machine code gives other numbers than PyTorch, by {error:.1e} in {what}, which "
            f"are of size {size:.1e}"
        )
