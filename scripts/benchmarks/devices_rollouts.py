"""Rollouts on a device: ours, PyTorch's in three ways, and JAX's."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import bodies
import numpy as np
import polynomials
import torch
from devices_machine import Device
from harness import TANH, name_of, time_together
from rollout import first_windows, iterate, published

import vpintegrator as vp
from vpintegrator.compiled import compile_model
from vpintegrator.models import Integrator

CALLS = 200  # at most; fewer where their states would not fit
EAGER_CALLS = 20
CHECKED, CHECKED_CALLS = 64, 5
BODIES = 8
DIGITS = 1e3  # units of rounding that states may differ by
INDUCTOR = {"torch.compile": None, "CUDA graphs": "reduce-overhead"}
# a rollout, and what makes an array of its states
_Made = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]
_Scan = Callable[[np.ndarray, int], _Made]  # in JAX, of windows and a number of calls


@dataclass(frozen=True)
class Network:
    """A model to iterate.

    Attributes
    ----------
    title
        For tables.
    model
        Of a type, on the CPU.
    windows
        Some, of a number and a type, (trajectory, window, dim).
    in_jax
        The same model iterated in JAX, by names.
    """

    title: str
    model: Callable[[torch.dtype], Integrator]
    windows: Callable[[int, torch.dtype], torch.Tensor]
    in_jax: Callable[[Integrator], dict[str, _Scan]]


def _scans_of_transformer(model: Any) -> dict[str, _Scan]:
    def by_components(windows: np.ndarray, calls: int) -> _Made:
        import jax
        from jax_transformer import rollout

        given = jax.numpy.asarray(np.ascontiguousarray(windows.transpose(1, 2, 0)))
        run = jax.jit(rollout(model, calls)).lower(given).compile()
        shape = (-1, calls * model.window, model.dim)
        return lambda: run(given), lambda found: found.transpose(3, 0, 1, 2).reshape(shape)

    def by_windows(windows: np.ndarray, calls: int) -> _Made:
        import jax
        from jax_transformer import window_rollout

        given = jax.numpy.asarray(windows)
        run = jax.jit(window_rollout(model, calls)).lower(given).compile()
        shape = (-1, calls * model.window, model.dim)
        return lambda: run(given), lambda found: found.reshape(shape)

    return {"jax.lax.scan": by_components, "jax vmap": by_windows}


def _scan_of_polynomials(model: Integrator) -> dict[str, _Scan]:
    def scan(windows: np.ndarray, calls: int) -> _Made:
        import jax

        given = tuple(map(jax.numpy.asarray, windows[:, 0].T))
        run = polynomials.scanned(model, calls)
        return lambda: run(given), polynomials.as_states

    return {"jax.lax.scan": scan}


def _scan_of_ring(model: Integrator) -> dict[str, _Scan]:
    def scan(windows: np.ndarray, calls: int) -> _Made:
        import jax

        given = tuple(map(jax.numpy.asarray, np.split(windows[:, 0], 2, axis=-1)))
        run = bodies.scanned(model, calls)
        return lambda: run(given), lambda found: np.concatenate(found, -1).swapaxes(0, 1)

    return {"jax.lax.scan": scan}


def _polynomials(dtype: torch.dtype) -> Integrator:
    torch.manual_seed(0)
    model = vp.models.VolumePreservingFeedForward(
        dim=3,
        depth=2,
        functions="polynomial",
        degree=6,
        initial_scale=1e-2,
        reversing_symmetries=vp.load_system("rigid-body").reversing_symmetries,
        dtype=dtype,
    )
    return model.eval()


def _states_of_ring(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(bodies.initial_states(count, BODIES)[:, None]).to(dtype)


NETWORKS = {
    "published": Network(
        "the published transformer", published, first_windows, _scans_of_transformer
    ),
    "polynomials": Network(
        "polynomials of the rigid body",
        _polynomials,
        lambda count, dtype: first_windows(count, dtype)[:, :1],
        _scan_of_polynomials,
    ),
    "ring": Network(
        f"symplectic, a ring of {BODIES} bodies",
        lambda dtype: bodies.ring(BODIES).to(dtype),
        _states_of_ring,
        _scan_of_ring,
    ),
}


@dataclass
class Rollouts:
    """Candidates of a network, a type and a number of trajectories.

    Attributes
    ----------
    candidates
        Name to a rollout that waits for the device, and the number of calls in it.
    compiling
        Seconds until the first rollout is done.
    errors
        How far states are from those of PyTorch on the CPU, of the size of the largest.
    left_out
        Why a candidate is not there.
    """

    device: Device
    network: Network
    dtype: torch.dtype
    trajectories: int
    candidates: dict[str, tuple[Callable[[], Any], int]] = field(default_factory=dict)
    compiling: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._model = self.network.model(self.dtype)
        windows = self.network.windows(self.trajectories, self.dtype)
        self._expected = iterate(self._model, windows[:CHECKED], CHECKED_CALLS).numpy()
        size = windows[0, 0].numel() * self._model.prediction_window * windows.element_size()
        self._written = self.trajectories * size  # bytes in a call
        self._calls = max(min(CALLS, self.device.room // self._written), CHECKED_CALLS)
        self._windows, self._roofline = windows, 0.0

    def measure(self, seconds: float) -> dict[str, Any]:
        """Seconds of a call of the network for all trajectories, and what else is known."""
        self.add("ours", self._ours, self._calls)
        self._in_pytorch()
        for name, scan in self.network.in_jax(self._model).items():
            self.add(name, partial(self._in_jax, scan), self._calls)
        runs = {name: run for name, (run, _) in self.candidates.items()}
        spent = time_together(runs, seconds)
        found: dict[str, Any] = {"trajectories": self.trajectories, "dtype": name_of(self.dtype)}
        found["times"] = {name: spent[name] / n for name, (_, n) in self.candidates.items()}
        if "ours" in runs:
            alone = self.device.seconds(runs["ours"])
            found["device"] = None if alone is None else alone / self._calls
            found["roofline"] = self._roofline
        return found | {
            "calls": self._calls,
            "compiling": self.compiling,
            "errors": self.errors,
            "left_out": self.left_out,
        }

    def add(self, name: str, make: Callable[[], _Made], calls: int) -> None:
        """A candidate, if it is right and works at all."""
        begin = time.perf_counter()
        try:
            run, states = make()
            found = states(run())
        except Exception as error:  # whatever its library says: others are still measured
            self.left_out[name] = first_line(error)
            return
        self.compiling[name] = time.perf_counter() - begin
        some = min(found.shape[1], self._expected.shape[1])
        expected = self._expected[:, :some]
        difference = np.abs(found[:CHECKED, :some] - expected).max()
        self.errors[name] = error = float(difference / np.abs(expected).max())
        if error < DIGITS * np.finfo(expected.dtype).eps:
            self.candidates[name] = run, calls
        else:
            self.left_out[name] = f"its states differ from PyTorch's on the CPU by {error:.1e}"

    def _ours(self) -> _Made:
        model = self._model_there()
        with (
            tempfile.TemporaryDirectory() as cache,
            patch.dict(os.environ, VPINTEGRATOR_CACHE=cache),
        ):
            machine = compile_model(model, self.trajectories)
        windows, calls = self.device.given(self._windows), self._calls
        operations = machine.source.operations + TANH * machine.source.functions
        self._roofline = self.device.least_seconds(
            self.trajectories * operations, self._written, self.dtype
        )
        return self.device.waited(lambda: machine.advance(windows, calls)[0]), as_array

    def _in_pytorch(self) -> None:
        calls = min(self._calls, EAGER_CALLS)
        windows = self._windows.to(self.device.torch)

        def eager() -> _Made:
            model = self._model_there()
            return self.device.waited(lambda: iterate(model, windows, calls)), as_array

        def fused(mode: str | None) -> _Made:
            model = torch.compile(self._model_there(), mode=mode, dynamic=False)
            return self.device.waited(lambda: _marked(model, windows, calls)), as_array

        self.add("eager", eager, calls)
        for name, mode in INDUCTOR.items():
            if mode is None or self.device.is_gpu:
                self.add(name, partial(fused, mode), calls)

    def _in_jax(self, scan: _Scan) -> _Made:
        self.device.use_in_jax()
        import jax

        run, states = scan(self._windows.numpy(), self._calls)
        return lambda: jax.block_until_ready(run()), lambda found: states(
            jax.tree_util.tree_map(np.asarray, found)
        )

    def _model_there(self) -> Integrator:
        return self.network.model(self.dtype).to(self.device.torch)


def _marked(model: Callable[..., Any], windows: torch.Tensor, calls: int) -> torch.Tensor:
    """As ``iterate``; what a graph wrote is copied before it writes there again."""
    states = []
    with torch.inference_mode():
        for _ in range(calls):
            mark_step(windows)
            windows = model(windows).clone()
            states.append(windows)
        return torch.cat(states, dim=1)


def mark_step(tensor: torch.Tensor) -> None:
    """What graphs wrote before may be overwritten."""
    if tensor.is_cuda:
        torch.compiler.cudagraph_mark_step_begin()


def as_array(states: Any) -> np.ndarray:
    """Numbers of PyTorch or NumPy."""
    return states.cpu().numpy() if isinstance(states, torch.Tensor) else np.asarray(states)


def first_line(error: Exception) -> str:
    """What an error says, or its name."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
