"""Models of many bodies on a GPU: loops over clusters; a thread or a block for each trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from vpintegrator.compiled.bodies import LoopsSource, loops_of
from vpintegrator.compiled.bodies.kinds import Kind, Language
from vpintegrator.compiled.bodies.source import Loops
from vpintegrator.compiled.gpu.kernels import BLOCK, Kernels
from vpintegrator.compiled.gpu.source import GpuSource, prelude
from vpintegrator.compiled.program import Program
from vpintegrator.compiled.source import header

if TYPE_CHECKING:
    from vpintegrator.compiled.gpu.residual import Given
    from vpintegrator.models import Integrator

_SPACE = 1 << 28  # bytes of the workspace of threads
# largest number of trajectories, and smallest number of clusters of a shear, for which each
# trajectory has a block of threads: these keep all processors of a GPU busy
_FEW, _CLUSTERS = 1 << 14, 32
_BLOCKS = 1 << 12


class _Large(Program):
    _head = "static __device__ __noinline__ void"


class _Small(Program):
    _head = "INLINED void"


def bodies_of(model: Integrator, derivatives: bool) -> tuple[GpuSource, LoopsSource] | None:
    """Return the CUDA of a model's loops over clusters, see ``bodies.h``, and their tables.

    None if it has no clusters, or so few that straight code is faster.

    Parameters
    ----------
    model
        Model on the CPU.
    derivatives
        Whether the source is for residuals and their derivatives; else it iterates the model.

    Raises
    ------
    NotCompilable
        If the function of a cluster uses operations that are not known, or is too large.
    """
    language = Language(_Large, _Small, slopes=False, qualifier="__device__ ")
    loops = loops_of(model, derivatives, Loops(_units, language))
    if loops is None:
        return None
    kernels = ["constants", "rollout", "rollout_by_blocks"]
    source = GpuSource(
        loops.units[0],
        (*kernels, *(["gradient", "jacobian"] if derivatives else [])),
        loops.constants,
        loops.operations,
        loops.functions,
        loops.backward,
    )
    return source, replace(loops, units=[])


def _units(kinds: Sequence[Kind], real: str, derivatives: bool) -> list[str]:
    lines = [
        prelude(real, short=False),
        *["#define DERIVATIVES"] * derivatives,
        *(part for kind in kinds for part in kind.parts),
        *(kind.text for kind in kinds),
        _choice(len(kinds)),
        header("gpu/bodies.h"),
    ]
    return ["\n".join(lines)]


def _choice(count: int) -> str:
    """Return the function that does some work with one of so many kinds."""
    cases = [f"        case {i}: Work<Kind{i}>::run(given...); break;" for i in range(count)]
    head = "template <template <class> class Work, class... T>"
    function = "INLINED void of_kind(int kind, T &&...given) {"
    return "\n".join([head, function, "    switch (kind) {", *cases, "    }", "}"])


class BodyKernels:
    """The kernels of a model of bodies with its tables on the device.

    Arrays have trajectories last, and tensors are contiguous.

    Parameters
    ----------
    loops
        See :func:`bodies_of`.
    kernels
        Kernels of the source, ready to be launched.
    like
        A tensor of the type and on the device of the model.
    """

    def __init__(self, loops: LoopsSource, kernels: Kernels, like: torch.Tensor) -> None:
        integers, reals = loops.flat_tables()
        self._tables = torch.from_numpy(integers).to(like.device), torch.from_numpy(reals).to(like)
        self._kernels, self._like = kernels, like
        self.dim, self._potentials = int(integers[0]), int(integers[2])
        self._trained = len(loops.trained)
        clusters = [len(shear.read) for shear in loops.shears]
        self._room = self.dim + max(shear.read.size for shear in loops.shears)
        self._many_clusters = sum(clusters) >= _CLUSTERS * len(clusters)

    def compute_constants(self, weights: torch.Tensor, constants: torch.Tensor) -> None:
        """Compute the constants from all weights."""
        self._kernels.launch("constants", self._potentials, weights, constants, *self._tables)

    def rollout(
        self,
        windows: torch.Tensor,
        constants: torch.Tensor,
        calls: int,
        by_blocks: bool | None = None,
    ) -> torch.Tensor:
        """Iterate the model.

        Parameters
        ----------
        windows
            Windows (dim, trajectory), which become the last states.
        constants
            See ``compute_constants``.
        calls
            Number of calls of the model.
        by_blocks
            Whether a block of threads has a trajectory, or a single thread; None to decide by their
            number.

        Returns
        -------
        (call, dim, trajectory)
        """
        count = windows.shape[1]
        states = windows.new_empty(calls, self.dim, count)
        if by_blocks is None:
            by_blocks = count < _FEW and self._many_clusters
        if by_blocks:
            blocks = min(count, _BLOCKS)
            space, threads = windows.new_empty(blocks, self._room), self._room
            name, launched = "rollout_by_blocks", blocks * BLOCK
        else:
            threads = launched = self._threads(count, self.dim)
            space, name = windows.new_empty(self.dim, threads), "rollout"
        arguments = (windows, states, space, constants, *self._tables, count, calls, threads)
        self._kernels.launch(name, launched, *arguments)
        return states

    def gradient(
        self, states: torch.Tensor, seeds: torch.Tensor, constants: torch.Tensor
    ) -> torch.Tensor:
        """Derivatives of the sum of seeds * states by the trained weights, in double precision.

        Both are (call, dim, trajectory); the states are those of a rollout.
        """
        calls, _, count = states.shape
        threads = self._threads(count, 2 * self.dim + self._trained)
        space = states.new_empty(2 * self.dim, threads)
        total = states.new_zeros(self._trained, threads)
        arguments = (states, seeds, space, total, constants, *self._tables, count, calls, threads)
        self._kernels.launch("gradient", threads, *arguments)
        return total.sum(1, dtype=torch.float64)

    def jacobian(
        self, states: torch.Tensor, weights: torch.Tensor, constants: torch.Tensor, rows: slice
    ) -> torch.Tensor:
        """Return derivatives of some rows of states (call, dim, trajectory) by the trained weights.

        Times ``weights`` (dim,); transposed, (weight, row, trajectory).
        """
        count, size = states.shape[2], rows.stop - rows.start
        space = states.new_empty(2 * self.dim, size * count)
        found = states.new_zeros(self._trained, size, count)
        arguments = (states, weights, space, found, constants, *self._tables)
        self._kernels.launch("jacobian", size * count, *arguments, count, rows.start, size)
        return found

    def sums(self, given: Given, constants: torch.Tensor) -> torch.Tensor:
        """Return the sums of squares of residuals, weighted and plain, (2,) in double precision."""
        return self._residuals(given, constants)[0]

    def descent(self, given: Given, constants: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same sums, and J^T r (weight,)."""
        squares, residuals, states = self._residuals(given, constants)
        seeds = residuals * given.arrays[2][:, None]
        return squares, self.gradient(states, seeds, constants)

    def block(
        self, given: Given, constants: torch.Tensor, rows: slice
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return J^T (weight, row, pair) and r (row, pair) of some rows."""
        _, residuals, states = self._residuals(given, constants)
        found = self.jacobian(states, given.arrays[2], constants, rows)
        return found, residuals.flatten(0, 1)[rows]

    def _residuals(
        self, given: Given, constants: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return sums of squares, and residuals and states (call, dim, pair)."""
        windows, targets, weights = given.arrays
        states = self.rollout(windows.clone(), constants, given.calls)
        difference = states - targets.view(states.shape)
        residuals = difference * weights[:, None]
        squares = [x.to(torch.float64).square().sum() for x in (residuals, difference)]
        return torch.stack(squares), residuals, states

    @property
    def bytes_of_row(self) -> int:
        """Number of bytes in use for each row while a Jacobian is computed."""
        return (2 * self.dim + self._trained) * self._like.element_size()

    def _threads(self, count: int, numbers: int) -> int:
        """Return the largest number of threads that fit in memory with ``numbers`` numbers each."""
        return max(min(count, _SPACE // (numbers * self._like.element_size())), 1)
