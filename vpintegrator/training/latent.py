"""Joint fit of latent constants of trajectories and of the map that uses them."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models.in_context_integrator import InContextIntegrator
from vpintegrator.nn.linearised import linearised
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.linear import (
    ROWS,
    SETTLED,
    coefficients,
    implicit_map,
    maps_of,
    roughness,
    set_coefficients,
    weights,
)
from vpintegrator.training.linear_least_squares import SequentialQR
from vpintegrator.training.training_data import TrainingData

STARTING = 300  # trajectories by which constants begin, if the data have as many
_RIDGE = 1e-3  # ridge of the fit to one trajectory; its deviation from the mean is of order one
_ROUNDS = 14  # rounds of alternating least squares
_PART = 100  # trajectories of which the equations are built at once
_DETERMINED = 1e-9  # relative size of pivots of the first solution
_LEAST, _LARGEST = 1e-14, 1e4  # damping, relative to the number of equations
_ITERATIONS = 20
_SETTLED = 0.8  # times the error before, above which an iteration is the last
_ROUNDING = 1e-15
_BYTES = 1 << 26  # bytes of derivatives that are computed at once


def moving_states(data: TrainingData) -> torch.Tensor:
    """Training trajectories (trajectory, time, dim) without missing states.

    Raises
    ------
    InputError
        If there are fewer than ten, or they are shorter than three states.
    """
    states = torch.from_numpy(data.dataset.states("train"))
    states = states[states.isfinite().flatten(1).all(1)]
    if len(states) < 10 or states.shape[1] < 3:
        raise InputError(
            f"{data.dataset.path} has {len(states)} training trajectories of {states.shape[1]} "
            "states without gaps; learning in context needs ten of three states or more"
        )
    return states


def first_constants(model: InContextIntegrator, states: torch.Tensor, latent: int) -> torch.Tensor:
    """Return constants (trajectory, latent) to begin with: principal components of separate fits.

    The coefficients of the map of each trajectory follow from a ridge regression towards those of
    all, in the metric of the equations. Their largest principal components are where alternating
    least squares begins: coefficients linear in the constants, and the constants, are solved for in
    turn.

    Parameters
    ----------
    model
        Normalised, of the degree of the separate fits.
    states : (trajectory, time, dim)
    """
    stepper, n = model.stepper, model.dim
    zero = torch.zeros(*states.shape[:2], model.latent, dtype=states.dtype)
    stepper.adapt(torch.cat([states, zero], -1).flatten(0, 1))
    layer = implicit_map(stepper).at(zero[0, 0])  # type: ignore[operator]
    z = (states - model.shift) / model.scale
    before, after = z[:, :-1].reshape(-1, n), z[:, 1:].reshape(-1, n)
    weight = weights(after)
    with torch.no_grad():
        A, b = layer.equations(before, after)
    A = (A * weight[:, None]).reshape(len(z), -1, A.shape[-1])
    b = (b * weight).reshape(len(z), -1, 1)
    qr = SequentialQR(A.shape[-1])
    qr.add(A.flatten(0, 1).numpy(), b.flatten().numpy())
    common = qr.solve(_DETERMINED)
    whitening = torch.from_numpy(common.directions) * math.sqrt(len(z))
    A, left = A @ whitening, b - A @ torch.from_numpy(common.coefficients)[:, None]
    ridge = _RIDGE * torch.eye(A.shape[-1], dtype=A.dtype)
    own = torch.linalg.solve(A.mT @ A + ridge, A.mT @ left)[..., 0]
    own = own - own.mean(0)
    _, _, directions = torch.linalg.svd(own, full_matrices=False)
    scores = own @ directions[:latent].mT
    scores = torch.nn.functional.pad(scores, (0, latent - scores.shape[1]))
    for _ in range(_ROUNDS):
        scores = _alternated(A, left, _unit(scores))
    return _unit(scores)


def _alternated(A: torch.Tensor, b: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Constants (trajectory, m) by coefficients that are linear in them, solved for before."""
    n, m = A.shape[-1], k.shape[1]
    qr = SequentialQR(n * (m + 1))
    for rows, right, own in zip(A.split(_PART), b.split(_PART), k.split(_PART), strict=True):
        ones = torch.cat([torch.ones_like(own[:, :1]), own], 1)
        both = (rows[:, :, None] * ones[:, None, :, None]).reshape(-1, n * (m + 1))
        qr.add(both.numpy(), right.flatten().numpy())
    c = torch.from_numpy(qr.solve(_DETERMINED).coefficients).reshape(m + 1, n)
    B, left = A @ c[1:].mT, b - A @ c[0, :, None]
    noise = left.square().mean() / max(A.shape[1], 1)
    ridge = noise * torch.eye(m, dtype=A.dtype)
    return torch.linalg.solve(B.mT @ B + ridge, B.mT @ left)[..., 0]


def _unit(k: torch.Tensor) -> torch.Tensor:
    """Return constants with mean zero and unit covariance, as far as they differ."""
    k = k - k.mean(0)
    U, sizes, _ = torch.linalg.svd(k, full_matrices=False)
    known = sizes > _DETERMINED * sizes[:1].clamp(min=1e-300)
    return U * known * math.sqrt(len(k))


class JointFit:
    """Gauss-Newton iterations for the coefficients of a map and the constants of trajectories.

    A change of coefficients and of the constants k_i of trajectory i moves its images by
    :math:`A_i\\, dc + B_i\\, dk_i`. An orthogonal basis of what no :math:`dk_i` reaches gives
    equations for dc alone (variable projection; Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973)
    413-432); the constants follow. They have a standard normal prior, whose weight is that of the
    error reached.

    Parameters
    ----------
    model
        Normalised. Its stepper is fitted in place.
    states : (trajectory, time, dim)
        States; the fit uses as many as determine the coefficients.
    constants : (trajectory, latent)
        Initial constants of the first trajectories or more; ``last`` infers those of other
        trajectories.
    last
        A fit of fewer coefficients to begin with.
    end
        Time to stop, by ``time.perf_counter``.

    Attributes
    ----------
    error
        Root mean square of residuals in units of the spread of each component.
    residual : (dim,)
        Root mean square of residuals of each component.
    """

    def __init__(
        self,
        model: InContextIntegrator,
        states: torch.Tensor,
        constants: torch.Tensor,
        last: JointFit | None = None,
        end: float = math.inf,
    ) -> None:
        self.model, self.end, self.latent = model, end, model.latent
        self.layer = implicit_map(model.stepper)
        self.core = model.stepper.core
        self.count = sum(c.numel() for c in self.layer.coefficients())
        rows = (states.shape[1] - 1) * model.dim
        enough = max(math.ceil(ROWS * self.count / rows), STARTING)
        states = states[:enough]
        if len(states) > len(constants):
            assert last is not None
            with torch.no_grad():
                more = last.model.infer(states[len(constants) :]).values
            constants = torch.cat([constants, more])
        self.constants = constants[: len(states)].clone()
        self.z = (states[:, :-1] - model.shift) / model.scale
        self.image = (states[:, 1:] - model.shift) / model.scale
        model.stepper.adapt(
            torch.cat([states[:, :-1], self._beside(self.constants, states[:, :-1])], -1).flatten(
                0, 1
            )
        )
        self.weight = weights(self.image.flatten(0, 1))
        self.damping = 1e-8
        if last is None:
            self._begin()
        else:
            self.layer.prolong(implicit_map(last.model.stepper))
        self.error = self._error(self.constants)

    def _beside(self, k: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return k[:, None].expand(-1, z.shape[1], -1)

    def _extended(self, k: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.z, self._beside(k, self.z)], -1)

    def _begin(self) -> None:
        """Solve the equations of a single map, divided by the number of maps."""
        x = self._extended(self.constants)
        y = torch.cat([self.image, x[..., self.model.dim :]], -1)
        with torch.no_grad():
            A, b = self.layer.equations(x.flatten(0, 1), y.flatten(0, 1))  # type: ignore[operator]
        A, b = A * self.weight[:, None], b * self.weight / maps_of(self.model.stepper)
        qr = SequentialQR(self.count)
        qr.add(A.flatten(0, 1).numpy(), b.flatten().numpy())
        set_coefficients(self.layer, qr.solve(_DETERMINED).coefficients)

    def _residuals(self, k: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            images = self.core(self._extended(k).unsqueeze(-2))[..., 0, : self.model.dim]
        return self.image - images

    def _error(self, k: torch.Tensor) -> float:
        error = float((self._residuals(k) * self.weight).square().mean().sqrt())
        return error if math.isfinite(error) else math.inf

    @property
    def residual(self) -> torch.Tensor:
        """Root mean square of residuals of each component (dim,), in physical units."""
        found = self._residuals(self.constants).square().mean((0, 1)).sqrt()
        return found * self.model.scale

    def iterate(self) -> None:
        """Change coefficients and constants as long as the error falls."""
        with one_blas_thread():
            for _ in range(_ITERATIONS):
                last = self.error
                if not _ROUNDING < last < math.inf or time.perf_counter() > self.end:
                    break
                if not self._improve() or self.error > _SETTLED * last:
                    break
        self.layer.settle(
            self.layer.outer(self._extended(self.constants)[:SETTLED, 0], backward=True)
        )

    def _improve(self) -> bool:
        """Do one iteration; return whether the error has fallen."""
        qr, solved = self._linearised()
        values, k, rough = coefficients(self.layer), self.constants, roughness(self.layer)
        while self.damping < _LARGEST:
            change = next(qr.ridge(rough, np.array([self.damping * qr.rows]))).coefficients
            dc = torch.from_numpy(change)
            moved = torch.cat([left - by_change @ dc for left, by_change in solved])
            set_coefficients(self.layer, values + change)
            error = self._error(k + moved)
            if error < self.error:
                self.constants, self.error = k + moved, error
                self.damping = max(self.damping / 100, _LEAST)
                return True
            self.damping *= 100
        set_coefficients(self.layer, values)
        return False

    def _linearised(self) -> tuple[SequentialQR, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Return equations for the change of coefficients, and the change of constants."""
        model, m, k = self.model, self.latent, self.constants
        x, n, qr = self._extended(k), model.dim, SequentialQR(self.count)
        solved: list[tuple[torch.Tensor, torch.Tensor]] = []
        times = x.shape[1]
        block = max(_BYTES // (8 * (self.count + n + m) * n * times), 1)
        prior = self.error * torch.eye(m, dtype=k.dtype)
        for states, image, own in zip(
            x.split(block), self.image.split(block), k.split(block), strict=True
        ):
            found, D = linearised(self.core, states.flatten(0, 1))
            size = (len(states), times * n, -1)
            D = (D[:, :n] * self.weight[:, None]).reshape(size)
            left = (image.flatten(0, 1) - found[:, :n]) * self.weight
            A = torch.nn.functional.pad(D[..., : self.count], (0, 0, 0, m))
            B = torch.cat([D[..., -m:], prior.expand(len(states), m, m)], 1)
            r = torch.cat([left.reshape(size), -self.error * own[..., None]], 1)
            Q, R = torch.linalg.qr(B, mode="complete")
            A, r, R = Q.mT @ A, Q.mT @ r, R[:, :m]
            qr.add(A[:, m:].flatten(0, 1).numpy(), r[:, m:].flatten().numpy())
            both = torch.linalg.solve_triangular(R, torch.cat([r[:, :m], A[:, :m]], -1), upper=True)
            solved.append((both[..., 0], both[..., 1:]))
        return qr, solved
