"""Derivatives of a model's map of windows: forward mode, reverse mode, or differences.

Layers of this package are differentiated in forward mode, at all windows at once by
``torch.func.vmap``. PyTorch cannot do this for every network: recurrent layers have no such rules,
and a network that differentiates inside its forward cannot be transformed. So ways are tried in
order until one works. A network in code of the user can also cut its graph without an error, by
``detach`` or ``create_graph=False``. So its derivatives are compared with differences once.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from vpintegrator.errors import InputError, first_line
from vpintegrator.maps.map import differences
from vpintegrator.models.iteration import (
    as_parameters,
    as_windows,
    evaluating,
    gradients_off,
    with_gradients,
)

# windows, vectors (n, window * dim, k) and parameters to images (n, window * dim, k) of the vectors
Way = Callable[[Any, torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]], torch.Tensor]

_JACOBIANS = 200_000  # entries of all Jacobians computed at a time
_COLUMNS = 128  # columns of a Jacobian at a time
_COMPARED = 8  # windows at which a derivative is compared with differences
_AGREEING = 0.8  # share of them that must agree: a kink may lie between neighbours
_WAY = "_way"  # attribute of a model: the name of the way that works


def network_jacobian(model: Any, windows: Any, parameters: Any = None) -> np.ndarray:
    """Return Jacobian matrices of the model's map of windows (n, window, dim), in float64.

    Shape (n, window * dim, window * dim), time before component.
    """
    k = as_parameters(model, parameters, len(windows))
    size = model.window * model.dim
    result = np.empty((len(windows), size, size))
    columns = np.eye(size)
    # of large windows a part of the columns at a time, which stays in a cache
    width = min(size, _COLUMNS)
    part = 1 if size > _COLUMNS else max(1, _JACOBIANS // size**2)
    starts = itertools.product(range(0, len(windows), part), range(0, size, width))
    for n, column in starts:
        rows = slice(n, n + part)
        some = columns[:, column : column + width]
        some_parameters = None if k is None else k[rows]
        image = network_tangent(model, windows[rows], some, some_parameters)
        result[rows, :, column : column + width] = image
    return result


@with_gradients
def network_tangent(
    model: Any, windows: Any, vectors: np.ndarray, parameters: Any = None
) -> np.ndarray:
    """Return images (n, window * dim, k) of tangent vectors under the derivative, in float64.

    ``vectors`` are (n, window * dim, k), or (window * dim, k) for all windows (n, window, dim).

    Raises
    ------
    InputError
        If no way of differentiation works.
    """
    given = as_windows(model, windows).clone()
    k = as_parameters(model, parameters, len(given))
    read = () if k is None else (k,)
    vectors = np.broadcast_to(vectors, (len(given), *vectors.shape[-2:]))
    tangents = torch.from_numpy(np.array(vectors)).to(given)
    reasons: list[str] = []
    known = model.__dict__.get(_WAY)
    with evaluating(model), _plain_kernels():
        if known is not None:
            try:
                return _numbers(_WAYS[known](model, given, tangents, read))
            except Exception as error:  # a branch of the network at these windows
                reasons.append(f"{known}: {first_line(error)}")
        is_strange = _has_own_code(model)
        if is_strange:
            _check_repeatable(model, given, read)
        for name, way in _WAYS.items():
            try:
                images = _numbers(way(model, given, tangents, read))
                if is_strange and way is not _differences and not _agrees(model, way, given, read):
                    reasons.append(f"{name}: other numbers than differences")
                    continue
            except Exception as error:  # whatever PyTorch or a network of the user raises
                reasons.append(f"{name}: {first_line(error)}")
                continue
            model.__dict__[_WAY] = name
            return images
    raise InputError(f"{model.name} cannot be differentiated: {'; '.join(reasons)}")


def _forward(
    model: Any, windows: torch.Tensor, vectors: torch.Tensor, k: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Differentiate in forward mode, at all windows at once."""
    rows = vectors.mT.unflatten(-1, (model.window, model.dim))  # (n, k, window, dim)

    def image(window: torch.Tensor, vector: torch.Tensor, *k: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda x: model(x, *k), (window,), (vector,))[1]

    each = torch.func.vmap(image, (None, 0, *[None] * len(k)))
    with torch.no_grad():
        images: torch.Tensor = torch.func.vmap(each)(windows, rows, *k)  # (n, k, window, dim)
    return images.flatten(-2).mT


def _reverse(
    model: Any, windows: torch.Tensor, vectors: torch.Tensor, k: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Differentiate in reverse mode, one component of the image at a time, at all windows."""
    windows = windows.detach().requires_grad_()
    images = model(windows, *k).flatten(1)  # (n, window * dim)
    rows = [
        torch.autograd.grad(
            column.sum(), windows, retain_graph=True, allow_unused=True, materialize_grads=True
        )[0].flatten(1)
        for column in images.unbind(1)
    ]
    return torch.stack(rows, 1) @ vectors


def _reverse_one_by_one(
    model: Any, windows: torch.Tensor, vectors: torch.Tensor, k: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Differentiate in reverse mode, one window at a time."""
    places = range(len(windows))
    each = [slice(place, place + 1) for place in places]
    return torch.cat(
        [_reverse(model, windows[n], vectors[n], tuple(x[n] for x in k)) for n in each]
    )


def _differences(
    model: Any, windows: torch.Tensor, vectors: torch.Tensor, k: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Differentiate by fourth-order differences, in double precision where that is possible."""
    model, distance = _most_precise(model, windows, k)

    def flat(points: np.ndarray) -> np.ndarray:
        return _images(model, points.reshape(windows.shape), k)

    points = windows.double().flatten(1).cpu().numpy()  # (n, window * dim)
    with np.errstate(all="ignore"):
        return (
            torch.from_numpy(differences(flat, points, distance=distance)) @ vectors.cpu().double()
        )


_WAYS: dict[str, Way] = {
    "forward mode": _forward,
    "reverse mode": _reverse,
    "reverse mode, one by one": _reverse_one_by_one,
    "differences": _differences,
}


def _images(model: Any, windows: np.ndarray, k: tuple[torch.Tensor, ...]) -> np.ndarray:
    """Return images (n, window * dim) of windows (n, window, dim), in float64."""
    with gradients_off():
        images = model(torch.from_numpy(windows).to(model.scale), *k)
    result: np.ndarray = images.flatten(1).double().cpu().numpy()
    return result


def _most_precise(
    model: Any, windows: torch.Tensor, k: tuple[torch.Tensor, ...]
) -> tuple[Any, float]:
    """Return the model, in double precision if it can, and the best distance of differences.

    Fourth-order differences err by the fourth power of the distance, and by rounding over it.
    """
    states = windows.double().cpu().numpy()
    states = states + 0.01 * np.random.default_rng(1).standard_normal(states.shape)  # not round
    images = _images(model, states, k)
    if model.scale.dtype != torch.float64:
        try:
            double = copy.deepcopy(model).double()
            others = _images(double, states, tuple(x.double() for x in k))
            if np.allclose(others, images, rtol=1e-3, atol=1e-3, equal_nan=True):
                model = double
                images = others
        except Exception:  # networks that name their dtype
            return model, _best_distance(torch.float32)
    # a network may round to single precision by itself
    with np.errstate(over="ignore"):  # of numbers that single precision has not
        is_single = bool((images == images.astype(np.float32)).all())
    return model, _best_distance(torch.float32 if is_single else model.scale.dtype)


def derivative_epsilon(model: Any) -> float:
    """Return the relative error of the derivative of a model, larger where it is by differences."""
    epsilon = float(torch.finfo(model.scale.dtype).eps)
    by_differences = model.__dict__.get(_WAY) == "differences"
    return epsilon / _best_distance(model.scale.dtype) if by_differences else epsilon


def _best_distance(dtype: torch.dtype) -> float:
    return 5e-4 if dtype == torch.float64 else float(torch.finfo(dtype).eps ** 0.2)


def _agrees(model: Any, way: Way, windows: torch.Tensor, k: tuple[torch.Tensor, ...]) -> bool:
    """Return whether derivatives are those of the map, at some windows near the given ones."""
    finite = windows.flatten(1).isfinite().all(1).nonzero()[:, 0]
    sample = finite[torch.linspace(0, len(finite) - 1, _COMPARED).long().unique()]
    if not len(sample):
        return True
    k = tuple(x[sample] for x in k)
    generator = np.random.default_rng(0)
    states = windows[sample].double().cpu().numpy()  # (n, window, dim)
    sizes = np.abs(states).max((0, 1)) + 1e-3 * (np.abs(states).max() or 1.0)  # (dim,)
    # apart from the given windows, as kinks are often at symmetric ones
    states = states + 0.01 * sizes * generator.standard_normal(states.shape)
    vectors = sizes * generator.standard_normal(states.shape)  # (n, window, dim)
    precise, distance = _most_precise(model, torch.from_numpy(states).to(model.scale), k)
    like = model.scale
    flat = vectors.reshape(len(states), -1, 1)
    derivatives = way(model, torch.from_numpy(states).to(like), torch.from_numpy(flat).to(like), k)

    def slope(length: float) -> np.ndarray:
        """Return fourth-order differences (n, window * dim) along the vectors."""
        total = np.zeros(flat.shape[:2])
        for place, weight in ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12)):
            total += weight * _images(precise, states + place * length * vectors, k)
        return total / length

    far = slope(distance)
    near = slope(distance / 2)
    size = np.abs(far).max(1) + np.abs(_images(precise, states, k)).max(1)  # (n,)
    rounding = 100 * (distance**4 / 5 + torch.finfo(like.dtype).eps)
    allowed = 10 * np.abs(far - near).max(1) + rounding * size + 1e-7 * size
    error = np.abs(_numbers(derivatives)[..., 0] - near).max(1)
    agree = (error <= allowed) | ~np.isfinite(near).all(1)
    return bool(agree.mean() >= _AGREEING)


def _check_repeatable(model: Any, windows: torch.Tensor, k: tuple[torch.Tensor, ...]) -> None:
    """Raise InputError if a network gives other states when it is called again."""
    some = windows[:_COMPARED].double().cpu().numpy()
    first, second = (_images(model, some, tuple(x[:_COMPARED] for x in k)) for _ in range(2))
    if not np.allclose(first, second, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise InputError(
            f"{model.name} gives other states when it is called again, so it has no derivative"
        )


def _has_own_code(model: Any) -> bool:
    """Return whether a model has layers that are neither of this package nor of PyTorch."""
    names = {type(layer).__module__.partition(".")[0] for layer in model.modules()}
    return not names <= {"vpintegrator", "torch"}


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    numbers: np.ndarray = tensor.detach().double().cpu().numpy()
    return numbers


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """Let attention and recurrent layers compute by operations that have derivatives."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
