"""Inference of the constants of a trajectory from some of its states, by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.normalisation import Normalised
from vpintegrator.nn.implicit import ImplicitMap
from vpintegrator.nn.linearised import linearised
from vpintegrator.nn.reversible import Reversible

_ITERATIONS = 25  # quadratic where states are exact; a fraction of the noise a time where not
_SETTLED = 1e-2  # standard deviations, of the last correction; the error left is its square
_SHORTENED = 6  # times that a step is divided by four
_IMPROBABLE = 100.0  # mean square of residuals, beyond which a minimum is taken for a local one
_WHOLE = 1e-6  # in steps: allowed distance of the spans of a context from whole steps

Residual = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
Constants = Callable[[torch.Tensor, range], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Prior:
    """A Gaussian distribution of constants before any state is known.

    Attributes
    ----------
    mean : (p,)
    factor : (p, p)
        L of the covariance L L^T.
    """

    mean: torch.Tensor
    factor: torch.Tensor

    def constants(self, u: torch.Tensor, spans: range) -> tuple[torch.Tensor, torch.Tensor]:
        """Return constants (trajectory, span, p) of variables u (trajectory, p), and slopes by u.

        They are the same for all spans.
        """
        values = self.mean + u @ self.factor.mT
        size = (len(u), len(spans), len(self.mean))
        return values[:, None].expand(size), self.factor.expand(*size, u.shape[1])


@dataclass(frozen=True)
class Inference:
    """Constants of trajectories that were inferred from contexts.

    Attributes
    ----------
    names
        Names of the constants.
    values : Tensor (..., p)
        The most probable ones.
    covariance : Tensor (..., p, p)
        Covariance of the posterior distribution, linearised at the values.
    state : Tensor (..., dim)
        The last state of the context; where noise is known, the most probable one.
    determined : Tensor (...)
        Number of combinations of the constants that the context determines better than the prior.
    """

    names: tuple[str, ...]
    values: torch.Tensor
    covariance: torch.Tensor
    state: torch.Tensor
    determined: torch.Tensor

    @property
    def uncertainties(self) -> torch.Tensor:
        """Standard deviations (..., p)."""
        return self.covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()

    def __getitem__(self, name: str) -> Any:
        """Return the value of one constant: a number for a single context."""
        if name not in self.names:
            raise InputError(f"{name} was not inferred; there are {', '.join(self.names)}")
        found = self.values[..., self.names.index(name)]
        return found.item() if found.ndim == 0 else found

    def __repr__(self) -> str:
        if self.values.ndim > 1:
            return f"<Inference of {', '.join(self.names)} from {len(self.values)} contexts>"
        numbers = zip(self.names, self.values.tolist(), self.uncertainties.tolist(), strict=True)
        return ", ".join(f"{name} = {value:.6g} +- {error:.1g}" for name, value, error in numbers)


@dataclass(frozen=True)
class Context:
    """Some states of trajectories, in the order of time.

    Attributes
    ----------
    states : Tensor (trajectory, time, dim)
    spans : Tensor (time - 1,) or None
        Between the states; None where they are a step apart.
    single
        Whether one trajectory was given, without an axis.
    """

    states: torch.Tensor
    spans: torch.Tensor | None
    single: bool

    @classmethod
    def of(cls, states: Any, times: Any, like: torch.Tensor, dim: int) -> Context:
        """Return states (..., time, dim), in any order where ``times`` (time,) are given.

        Raises
        ------
        InputError
            If there are fewer than two states, they have another size or are not finite, or times
            do not fit.
        """
        if like.device.type not in ("cpu", "meta"):
            raise InputError("contexts are read on the CPU; take model.cpu()")
        z = torch.as_tensor(states).to(like)
        if z.ndim not in (2, 3) or z.shape[-1] != dim:
            raise InputError(
                f"a context has the shape (time, {dim}), or (trajectory, time, {dim}), not "
                f"{tuple(z.shape)}"
            )
        if z.shape[-2] < 2:
            raise InputError("a context of one state tells nothing; give two states or more")
        if not z.is_meta and not bool(z.isfinite().all()):
            raise InputError(
                "some states of the context are not finite; leave these out, and give the times "
                "of the others"
            )
        single = z.ndim == 2
        z = z[None] if single else z
        if times is None:
            return cls(z, None, single)
        t = torch.as_tensor(times, dtype=torch.float64, device=z.device)
        if t.shape != z.shape[1:2] or not bool(t.isfinite().all()):
            raise InputError(f"times must be {z.shape[1]} numbers, one for each state")
        t, order = t.sort()
        if bool((t.diff() <= 0).any()):
            raise InputError("the times of a context must differ from one another")
        return cls(z[:, order], t.diff(), single)

    def steps(self, step: float | None) -> list[int]:
        """Return the number of steps between successive states.

        Raises
        ------
        InputError
            If some span is no whole number of steps.
        """
        if self.spans is None:
            return [1] * (self.states.shape[1] - 1)
        if step is None:
            raise InputError("the model does not say for which step it is; leave out the times")
        counts = (self.spans / step).round()
        if bool(((self.spans / step - counts).abs() > _WHOLE).any() or (counts < 1).any()):
            raise InputError(
                f"the times of the context must be whole steps of {step:g} apart, for which the "
                "model was trained; a family of steps (vp-gen --vary step=...) takes any times"
            )
        return [int(count) for count in counts]


class Motion:
    """Images of a context's states under a map of states (z, k), given unknown variables u.

    Parameters
    ----------
    stepper
        Map of states (z, k) that leaves k unchanged.
    constants
        Function from standard normal variables u (trajectory, p) and a range of spans to k
        (trajectory, span, m) and its derivatives (trajectory, span, m, p).
    counts
        Steps in each span.
    """

    def __init__(self, stepper: Normalised, constants: Constants, counts: Sequence[int]) -> None:
        self.stepper, self.constants, self.counts = stepper, constants, list(counts)

    def pairs(self, z: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images (trajectory, span, dim) of states before spans, and slopes by u."""
        k, slopes = self.constants(u, range(len(self.counts)))
        images, found = torch.zeros_like(z), z.new_zeros(*z.shape, u.shape[1])
        for count in sorted({*self.counts}):
            places = [n for n, each in enumerate(self.counts) if each == count]
            images[:, places], _, by_k = self._moved(z[:, places], k[:, places], count)
            found[:, places] = by_k @ slopes[:, places]
        return images, found

    def orbit(self, z: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states (trajectory, span, dim) after each span of orbits from z (trajectory, dim).

        The derivatives (trajectory, span, dim, dim + p) are by z and by u.
        """
        n, p, states, found = z.shape[1], u.shape[1], [], []
        z, D = z[:, None], torch.eye(n, n + p, dtype=z.dtype).expand(len(z), 1, n, n + p)
        for number, count in enumerate(self.counts):
            k, slopes = self.constants(u, range(number, number + 1))
            z, by_z, by_k = self._moved(z, k, count)
            D = by_z @ D + torch.nn.functional.pad(by_k @ slopes, (n, 0))
            states.append(z)
            found.append(D)
        return torch.cat(states, 1), torch.cat(found, 1)

    def _moved(
        self, z: torch.Tensor, k: torch.Tensor, count: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return states (trajectory, span, dim) some steps later, and derivatives by z and by k."""
        n, m = z.shape[-1], k.shape[-1]
        x = torch.cat([z, k], -1).reshape(-1, n + m)
        D = torch.eye(n + m, dtype=z.dtype).expand(len(x), n + m, n + m)
        for _ in range(count):
            x, J = step_and_derivative(self.stepper, x)
            D = J @ D
        found = x[:, :n].reshape(z.shape)
        D = D.reshape(*z.shape[:-1], n + m, n + m)
        return found, D[..., :n, :n], D[..., :n, n:]


@torch.no_grad()
def step_and_derivative(model: Normalised, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images (state, dim) under a model of one step, and their Jacobians."""
    core = model.core
    layer = core.psi if isinstance(core, Reversible) else core
    if isinstance(layer, ImplicitMap) and model.chart is None and not model.explicit_time:
        image, D = linearised(core, model.normalised(x), coefficients=False)
        D = model.state_order(model.state_order(D).mT).mT
        return model.denormalised(image), D * (model.scale[:, None] / model.scale)

    def stepped(one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image = model(one[None])[0]
        return image, image

    D, image = torch.func.vmap(torch.func.jacfwd(stepped, has_aux=True))(x)
    return image, D


def infer(
    context: Context,
    motion: Motion,
    prior: Prior,
    names: Sequence[str],
    residual: torch.Tensor,
    noise: torch.Tensor | None = None,
) -> Inference:
    r"""Return the most probable constants of each trajectory.

    Each pair of consecutive states of a context is compared with the map, whose image errs by
    ``residual``; the sum over pairs does not depend on their order:

    .. math:: \min_k \sum_i \Bigl| \frac{z_{i+1} - \Phi(z_i; k)}{\sigma} \Bigr|^2 +
        (k - \mu)^T C^{-1} (k - \mu)

    If :math:`\Phi` is linear in k, this is the ridge regression that a layer of linear attention
    computes: a key is the derivative of a pair's image by k, a value its residual. Otherwise
    Gauss-Newton iterations repeat the regression. If states have ``noise``, a last fit finds the
    orbit nearest to all states, with its first state unknown as well.

    Parameters
    ----------
    context, motion, prior
        States, their map and the distribution of the constants.
    names
        Names of the constants.
    residual : (dim,)
        Standard deviation of the errors of the map.
    noise : (dim,), optional
        Standard deviation of the errors of the states.

    References
    ----------
    von Oswald et al., Uncovering mesa-optimization algorithms in Transformers, arXiv:2309.05858;
    Nocedal, Wright, Numerical Optimization, section 10.3.
    """
    with torch.inference_mode(False), torch.no_grad():  # derivatives need tensors of their own
        return _infer(context, motion, prior, names, residual, noise)


def _infer(
    context: Context,
    motion: Motion,
    prior: Prior,
    names: Sequence[str],
    residual: torch.Tensor,
    noise: torch.Tensor | None,
) -> Inference:
    z = context.states.clone()
    own = residual if noise is None else (residual.square() + 2 * noise.square()).sqrt()

    def of_pairs(u: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images, D = motion.pairs(z[rows, :-1], u)
        one = torch.eye(u.shape[1], dtype=u.dtype).expand(len(u), -1, -1)
        r = torch.cat([((images - z[rows, 1:]) / own).flatten(1), u], 1)
        return r, torch.cat([(D / own[:, None]).flatten(1, 2), one], 1)

    u, rows = least_squares(of_pairs, z.new_zeros(len(z), prior.factor.shape[1]))
    state = z[:, -1]
    if noise is not None:
        state, u, rows = _nearest_orbit(z, motion, u, residual, noise)
    one = torch.eye(rows.shape[-1], dtype=z.dtype).expand_as(rows)
    inverse = torch.linalg.solve_triangular(rows, one, upper=True)
    spread = prior.factor @ inverse
    told = torch.linalg.svdvals(rows)  # one where the prior alone tells anything
    determined = (told > math.sqrt(2)).sum(-1)
    found = (prior.mean + u @ prior.factor.mT, spread @ spread.mT, state, determined)
    values, covariance, state, determined = (each[0] if context.single else each for each in found)
    return Inference(tuple(names), values, covariance, state, determined)


def least_squares(residual: Residual, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise like ``gauss_newton``, from further starts if the minimum found is improbable.

    Few pairs may have several minima. The further starts are the sigma points of the prior.
    """
    u, rows = gauss_newton(residual, start)
    squares = residual(u, torch.arange(len(u)))[0].square().mean(1)
    p = u.shape[1]
    one = math.sqrt(p) * torch.eye(p, dtype=u.dtype)
    for point in torch.cat([one, -one]):
        poor = (squares > _IMPROBABLE).nonzero().squeeze(1)
        if not len(poor):
            break

        def of_poor(
            x: torch.Tensor, places: torch.Tensor, poor: torch.Tensor = poor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return residual(x, poor[places])

        x, factors = gauss_newton(of_poor, point.expand(len(poor), p))
        found = residual(x, poor)[0].square().mean(1)
        falls = found < squares[poor]
        taken = poor[falls]
        u[taken], rows[taken], squares[taken] = x[falls], factors[falls], found[falls]
    return u, rows


def _nearest_orbit(
    z: torch.Tensor,
    motion: Motion,
    u: torch.Tensor,
    residual: torch.Tensor,
    noise: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return last states and variables of least-squares orbits, and the latter's factor."""
    n = z.shape[-1]
    lengths = torch.arange(1, z.shape[1], dtype=z.dtype)[:, None]
    own = (noise.square() + lengths * residual.square()).sqrt()
    units = torch.cat([noise, torch.ones_like(u[0])])

    def of_orbit(x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, D = motion.orbit(z[rows, 0] + noise * x[:, :n], x[:, n:])
        one = torch.eye(x.shape[1], dtype=x.dtype).expand(len(x), -1, -1)
        r = torch.cat([((states - z[rows, 1:]) / own).flatten(1), x], 1)
        return r, torch.cat([(D * units / own[..., None]).flatten(1, 2), one], 1)

    x, R = gauss_newton(of_orbit, torch.cat([z.new_zeros(len(z), n), u], 1))
    states, _ = motion.orbit(z[:, 0] + noise * x[:, :n], x[:, n:])
    return states[:, -1], x[:, n:], R[:, n:, n:]


def gauss_newton(residual: Residual, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise sums of squares, each row of unknowns by itself.

    Parameters
    ----------
    residual
        Function from unknowns (n, p) and the numbers (n,) of their trajectories to residuals (n,
        rows), in standard deviations, and their derivatives (n, rows, p).
    start : (n, p)

    Returns
    -------
    unknowns : (n, p)
    factors : (n, p, p)
        R of the derivative J = Q R of the residuals; (R^T R)^-1 is the covariance.
    """
    x, left = start.clone(), torch.arange(len(start))  # rows that still move
    r, J = _known(*residual(x, left))
    R = torch.linalg.qr(J).R
    for _ in range(_ITERATIONS):
        Q, upper = torch.linalg.qr(J)
        R[left] = upper
        step = -torch.linalg.solve_triangular(upper, Q.mT @ r.unsqueeze(-1), upper=True)
        small = torch.linalg.vector_norm(upper @ step, dim=(1, 2)) <= _SETTLED
        x[left], r, J, better = _shortened(residual, x[left], left, r, J, step.squeeze(-1))
        goes_on = better & ~small
        left, r, J = left[goes_on], r[goes_on], J[goes_on]
        if not len(left):
            break
    return x, R


def _known(r: torch.Tensor, J: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return residuals; trajectories without a finite image get residuals that do not move them."""
    bad = ~(r.isfinite().all(1) & J.isfinite().flatten(1).all(1))
    if not bool(bad.any()):
        return r, J
    one = torch.eye(*J.shape[1:], dtype=J.dtype).expand_as(J)
    return r.masked_fill(bad[:, None], 0.0), torch.where(bad[:, None, None], one, J)


def _shortened(
    residual: Residual,
    x: torch.Tensor,
    rows: torch.Tensor,
    r: torch.Tensor,
    J: torch.Tensor,
    step: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take a step, divided by four until the sum of squares does not grow.

    Returns unknowns, residuals and derivatives there, and whether the sum has not grown.
    """
    x, r, J, better = x.clone(), r.clone(), J.clone(), torch.zeros(len(x), dtype=torch.bool)
    for _ in range(_SHORTENED):
        left = (~better).nonzero().squeeze(1)
        if not len(left):
            break
        trial = x[left] + step[left]
        new, slopes = residual(trial, rows[left])
        falls = new.square().sum(1) <= r[left].square().sum(1)
        falls &= slopes.isfinite().flatten(1).all(1)
        taken = left[falls]
        x[taken], r[taken], J[taken], better[taken] = trial[falls], new[falls], slopes[falls], True
        step = step / 4
    return x, r, J, better
