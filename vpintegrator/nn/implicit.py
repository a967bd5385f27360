"""Maps given by equations: Newton iteration, derivatives by the implicit function theorem."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.layer import Layer, check_parameters, factory_like, joined, last_size

MOST_ITERATIONS = 20  # quadratic convergence needs fewer than ten, or never comes
_CACHED = 1 << 18  # numbers
_ITERATIONS = 6  # iterations of unrolled programs, until ``settle`` finds how many the states need
_UNROLLED: ContextVar[bool] = ContextVar("unrolled", default=False)
_COUNTS: ContextVar[list[int] | None] = ContextVar("counts", default=None)


@contextmanager
def unrolled() -> Iterator[None]:
    """Let implicit maps make a fixed number of Newton iterations in plain operations of PyTorch.

    For machine code and exported programs, which follow operations and cannot branch on values.
    """
    token = _UNROLLED.set(True)
    try:
        yield
    finally:
        _UNROLLED.reset(token)


@contextmanager
def once(core: nn.Module) -> Iterator[int]:
    """Let a map that is several equal ones in a row be one of them; gives how many they are."""
    layer: Any = core
    count = getattr(layer, "repeats", 1)
    if count > 1:
        layer.repeats = 1
    try:
        yield count
    finally:
        if count > 1:
            layer.repeats = count


def is_unrolled() -> bool:
    """Whether implicit maps are unrolled at the moment, as they are under ``torch.compile``."""
    return torch.compiler.is_compiling() or _UNROLLED.get()


def tolerance(dtype: torch.dtype) -> float:
    """Return the largest last correction of a Newton iteration that has converged to rounding.

    Corrections square from one iteration to the next, so the error left is of the order of eps.
    """
    return float(torch.finfo(dtype).eps ** 0.5)


def newton(
    start: torch.Tensor,
    correction: Callable[[torch.Tensor], torch.Tensor],
    size: torch.Tensor,
    iterations: int,
) -> torch.Tensor:
    """Return solutions (..., n) of equations; NaN where the iteration does not converge.

    A state whose corrections grow becomes NaN as well: the iteration has left the neighbourhood of
    the start, and rounding would decide which solution it meets (Deuflhard, Newton Methods for
    Nonlinear Problems, section 2.1: monotonicity test).

    Parameters
    ----------
    start : (..., n)
    correction
        The Newton correction to be added.
    size : (n,) or number
        Scale of each unknown, by which corrections are judged.
    iterations
        Number of unrolled iterations; by default iterations end at rounding.
    """
    limit = tolerance(start.dtype)
    nothing = torch.full_like(start, torch.nan)
    value = start
    length = torch.full_like(start[..., :1], torch.inf)

    def corrected() -> tuple[torch.Tensor, torch.Tensor]:
        change = correction(value)  # (..., n)
        new = (change.abs() / size).amax(-1, keepdim=True)  # (..., 1)
        return torch.where(new <= length.clamp(min=limit), value + change, nothing), new

    if is_unrolled() or start.is_meta:
        for _ in range(iterations):
            value, length = corrected()
        return torch.where(length <= limit, value, nothing)
    solved = torch.zeros_like(start[..., :1], dtype=torch.bool)
    number = 0
    while number < MOST_ITERATIONS:
        number += 1
        result, length = corrected()
        value = torch.where(solved, value, result)
        solved = solved | (length <= limit)
        if bool((solved | ~value.isfinite().all(-1, keepdim=True)).all()):
            break
    if (counts := _COUNTS.get()) is not None:
        counts.append(number)
    return torch.where(solved, value, nothing)


class ImplicitMap(Layer):
    """A map z -> Z that solves R(z, Z; c) = 0, with exact derivatives of any order.

    Derivatives follow from the implicit function theorem,
    :math:`dZ = -(\\partial R / \\partial Z)^{-1} (\\partial R / \\partial z\\, dz +
    \\partial R / \\partial c\\, dc)`, and are differentiable themselves; in forward mode once.
    A state for which the Newton iteration does not converge becomes NaN.

    Subclasses give the residual and both solutions, for coefficients that are passed as they are.
    In these, states z come with the parameters that the map reads, which it leaves as they are:
    variables (..., dim + m).

    Parameters
    ----------
    size : int
        Components that move.
    repeats : int
        Number of successive solutions: z -> Z -> ...
    like : Module
        Part of the map, of its device and dtype.
    """

    volume_preserving: Any = True
    dim: int

    @property
    def block(self) -> int:
        """States that are solved for at once, so that values of all terms stay in the cache."""
        terms = max((c.numel() for c in self.coefficients()), default=1)
        return max(_CACHED // max(terms, 1), 16)

    def __init__(self, size: int, repeats: int, like: nn.Module) -> None:
        super().__init__(**factory_like(like))
        self.repeats = whole("repeats", repeats)
        self.register_buffer("linear", torch.eye(size, **self.factory_kwargs))
        self.has_linear = False  # whether that is another map than the identity
        # Newton iterations of unrolled programs, and the same for files
        self.iterations = _ITERATIONS
        self.register_buffer("newton_iterations", torch.tensor(_ITERATIONS))
        self.register_load_state_dict_post_hook(_iterations_of_file)

    @abstractmethod
    def coefficients(self) -> tuple[torch.Tensor, ...]:
        """Return the trained tensors c."""

    @property
    @abstractmethod
    def degrees(self) -> torch.Tensor:
        """Total degree of the function that each coefficient multiplies (coefficient,)."""

    @property
    def exact_places(self) -> range:
        """Numbers of the coefficients of exact terms, among all of them."""
        return range(0)

    @property
    def equation_count(self) -> int:
        """Number of linear equations for the coefficients that a pair gives."""
        return len(self.get_buffer("linear"))

    def normalisation(self, z: torch.Tensor) -> torch.Tensor:
        """Return linear combinations (row, coefficient) of coefficients that are held at zero.

        For equations that have the solution zero, whose scale the data at z do not determine.
        """
        return z.new_zeros(0, sum(c.numel() for c in self.coefficients()))

    @abstractmethod
    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""

    @abstractmethod
    def residual(
        self, z: torch.Tensor, image: torch.Tensor, c: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """Return R (..., dim) for states and images (..., dim)."""

    @abstractmethod
    def solve(
        self, z: torch.Tensor, c: tuple[torch.Tensor, ...], backward: bool = False
    ) -> torch.Tensor:
        """Return the image of z, or the state whose image is z; NaN where none is found."""

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the images (..., dim) of states (..., dim), at parameters (..., m) if any."""
        return self._around(self._variables(z, parameters), False)

    def inverse(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        return self._around(self._variables(z, parameters), True)

    def _variables(self, z: torch.Tensor, parameters: torch.Tensor | None) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        if self.parameter_count or parameters is not None:
            check_parameters(parameters, self.parameter_count)
        return joined(z, parameters)

    def set_linear(self, matrix: torch.Tensor) -> None:
        """Set the linear map K (size, size) of :math:`K \\circ \\Phi \\circ K`.

        The implicit map stands between two equal linear maps, so that it may be near the identity
        where the whole map is not, and reversible with them.
        """
        with torch.no_grad():
            self.get_buffer("linear").copy_(matrix)
        self.has_linear = not bool((matrix == torch.eye(len(matrix), dtype=matrix.dtype)).all())

    def outer(self, z: torch.Tensor, backward: bool = False) -> torch.Tensor:
        """Return states (..., dim) after the linear map, or before it."""
        if not self.has_linear:
            return z
        matrix = self.get_buffer("linear").to(z)
        matrix = torch.linalg.inv(matrix) if backward else matrix
        n = len(matrix)
        return torch.cat([z[..., :n] @ matrix.mT, z[..., n:]], -1)  # (..., dim)

    def _around(self, z: torch.Tensor, backward: bool) -> torch.Tensor:
        for _ in range(self.repeats):
            z = self.outer(self._map(self.outer(z, backward), backward), backward)
        return z[..., : self.dim]

    def _map(self, z: torch.Tensor, backward: bool) -> torch.Tensor:
        c = self.coefficients()
        if is_unrolled():
            return self.solve(z, c, backward)
        return _Solve.apply(self, backward, z, *c)

    @torch.no_grad()
    def settle(self, z: torch.Tensor) -> None:
        """Set how many iterations unrolled programs make: as many as states z (state, dim) need."""
        counts: list[int] = []
        token = _COUNTS.set(counts)
        try:
            for backward in (False, True):
                self.solve(self.outer(z, backward), self.coefficients(), backward)
        finally:
            _COUNTS.reset(token)
        # states beside these may need one more
        self.iterations = min(max(counts) + 1, MOST_ITERATIONS)
        self.get_buffer("newton_iterations").fill_(self.iterations)

    def settle_like(self, other: ImplicitMap) -> None:
        """Take the linear maps and the number of unrolled iterations of another map."""
        buffers = {name: other.get_buffer(name) for name in ("linear", "newton_iterations")}
        self.load_state_dict(buffers, strict=False)


def _iterations_of_file(layer: nn.Module, _: Any) -> None:
    assert isinstance(layer, ImplicitMap)
    stored = layer.get_buffer("newton_iterations")
    if not stored.is_meta:
        layer.set_linear(layer.get_buffer("linear").clone())
        layer.iterations = min(max(int(stored), 1), MOST_ITERATIONS)


class _Solve(torch.autograd.Function):
    """The solution of an ``ImplicitMap``, differentiated by the implicit function theorem."""

    @staticmethod
    def forward(
        layer: ImplicitMap, backward: bool, z: torch.Tensor, *c: torch.Tensor
    ) -> torch.Tensor:
        with torch.no_grad():
            if z.is_meta or z.numel() <= z.shape[-1] * layer.block:
                return layer.solve(z, c, backward)
            parts = z.reshape(-1, z.shape[-1]).split(layer.block)
            return torch.cat([layer.solve(part, c, backward) for part in parts]).view(z.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.layer, ctx.back, *tensors = inputs
        ctx.save_for_backward(*tensors, output)
        ctx.save_for_forward(*tensors, output)

    @classmethod
    def vmap(
        cls, info: Any, in_dims: Any, layer: ImplicitMap, backward: bool, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        states, *coefficients = in_dims[2:]
        assert all(dim is None for dim in coefficients)  # the same map at all states
        z, *c = tensors
        return cls.apply(layer, backward, z.movedim(states, 0), *c), 0

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        *given, image = ctx.saved_tensors
        z, *c = given
        residual = _oriented(ctx.layer, ctx.back)
        (matrix,) = jacobians(lambda y: residual(z, y, tuple(c)), image)  # (..., dim, dim)
        weight = torch.linalg.solve(matrix.mT, gradient.unsqueeze(-1)).squeeze(-1)  # (..., dim)
        _, pull = torch.func.vjp(lambda z, *c: residual(z, image, c), *given)  # type: ignore[misc]
        return None, None, *(-part for part in pull(weight))

    @staticmethod
    def jvp(ctx: Any, _of: Any, _back: Any, *tangents: torch.Tensor) -> torch.Tensor:
        *given, image = ctx.saved_tensors
        z, *c = given
        residual = _oriented(ctx.layer, ctx.back)
        moved = tuple(
            torch.zeros_like(value) if tangent is None else tangent
            for value, tangent in zip(given, tangents, strict=True)
        )
        (matrix,) = jacobians(lambda y: residual(z, y, tuple(c)), image)  # (..., dim, dim)
        _, change = torch.func.jvp(lambda z, *c: residual(z, image, c), tuple(given), moved)  # type: ignore[misc]
        return -torch.linalg.solve(matrix, change.unsqueeze(-1)).squeeze(-1)  # (..., dim)


def _oriented(layer: ImplicitMap, backward: bool) -> Callable[..., torch.Tensor]:
    if backward:
        return lambda image, z, c: layer.residual(z, image, c)
    return layer.residual


def jacobians(function: Callable[..., torch.Tensor], *states: torch.Tensor) -> list[torch.Tensor]:
    """Return Jacobians (..., n, n) of a function of states (..., n) by each of them.

    The function treats each state by itself. Rows by reverse derivatives take a tenth of the time
    of columns by forward ones.
    """
    value, pull = torch.func.vjp(function, *states)  # type: ignore[misc]
    directions = torch.eye(value.shape[-1], dtype=value.dtype, device=value.device)
    rows = [pull(e.expand_as(value)) for e in directions]  # (..., n) each
    return [torch.stack(each, -2) for each in zip(*rows, strict=True)]
