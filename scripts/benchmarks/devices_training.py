"""Steps of training on a device: ours, PyTorch's in three ways, and JAX's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from devices_machine import Device
from devices_rollouts import INDUCTOR, as_array, first_line, mark_step
from harness import TANH, name_of, time_together
from training import MODELS

from vpintegrator import compiled
from vpintegrator.data.pairs import HeldPairs
from vpintegrator.models import Integrator
from vpintegrator.training import Objective
from vpintegrator.training.machine_code import MachineCode
from vpintegrator.training.optimizers.first_order import Adam
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.residuals import ParameterVector

RATE, DAMPING = 1e-6, 1e-2
CHECKED = 32  # windows
DIGITS = 1e4
_JAX = "published vpt"  # which is written in JAX, too


@dataclass
class Steps:
    """Candidates for a step of training: a model, a type and a number of windows.

    Attributes
    ----------
    candidates
        Name to a step that waits for the device.
    compiling, errors, left_out
        As of ``Rollouts``; an error is that of derivatives.
    """

    device: Device
    name: str
    dtype: torch.dtype
    count: int
    candidates: dict[str, Callable[[], Any]] = field(default_factory=dict)
    compiling: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _roofline: float = 0.0

    def __post_init__(self) -> None:
        self.model = self._model()
        generator = torch.Generator().manual_seed(0)
        shapes = (self.model.window, 3), (self.model.prediction_window, 3)
        self.inputs, self.targets = (
            torch.randn(self.count, *shape, dtype=self.dtype, generator=generator)
            for shape in shapes
        )
        self.there = self.inputs.to(self.device.torch), self.targets.to(self.device.torch)
        self.parameters = sum(p.numel() for p in self.model.parameters())

    def _model(self) -> Integrator:
        torch.manual_seed(0)
        return MODELS[self.name](dtype=self.dtype)

    def _model_there(self) -> Integrator:
        return self._model().to(self.device.torch)

    def measure(self, seconds: float) -> dict[str, Any]:
        """Seconds of a step, and what else is known."""
        self.add("ours", self._ours)
        self.add("eager", self._eager)
        for name, mode in INDUCTOR.items():
            if mode is None or self.device.is_gpu:
                self.add(name, partial(self._fused, mode))
        if self.name == _JAX:
            self.add("jax", self._in_jax)
        found: dict[str, Any] = {"windows": self.count, "dtype": name_of(self.dtype)}
        found["times"] = time_together(self.candidates, seconds)
        if "ours" in self.candidates:
            found["device"] = self.device.seconds(self.candidates["ours"])
            found["roofline"] = self._roofline
        return found | {
            "model": self.name,
            "parameters": self.parameters,
            "compiling": self.compiling,
            "errors": self.errors,
            "left_out": self.left_out,
        }

    def add(self, name: str, make: Callable[[], Callable[[], Any]]) -> None:
        """A candidate, if it works."""
        begin = time.perf_counter()
        try:
            run = self.device.waited(make())
            run()
        except Exception as error:  # whatever its library says: others are still measured
            self.left_out[name] = first_line(error)
            return
        self.compiling[name] = time.perf_counter() - begin
        self.candidates[name] = run

    def _residual(self, model: Integrator, backward: int, what: str) -> Any:
        """Ours on the device, its derivatives compared with those of PyTorch on the CPU."""
        machine = compiled.compile_residual(model, np.ones(3))
        some = self.inputs[:CHECKED], self.targets[:CHECKED]
        vector = ParameterVector(self.model).read()
        optimizer = self._optimizer(self.model, torch.device("cpu"), None)
        slopes, residuals = optimizer.jacobian(vector, *some)
        found = machine.jacobian(*map(self.device.given, (vector, *some)))
        slopes = slopes.detach().permute(2, 1, 0).numpy()
        self._check("ours", as_array(found[0]), slopes)
        if what == "gradient":
            found = machine.gradient(*map(self.device.given, (vector, *some)))
            half = np.tensordot(slopes, residuals.detach().numpy().T, 2)
            self._check("ours", as_array(found[1]), half)
        source = machine.source
        one = source.forward + TANH * source.functions + backward * source.backward
        size = self.inputs.element_size()
        written = self.parameters * backward * size if backward > 1 else 0
        read = (self.inputs[0].numel() + self.targets[0].numel()) * size
        square = backward * self.parameters**2 if backward > 1 else 0  # a triangle of J^T J
        self._roofline = self.device.least_seconds(
            (one + square) * self.count, (read + written) * self.count, self.dtype
        )
        return machine

    def _same_loss(self, step: Callable[[], float]) -> Callable[[], float]:
        """A step in JAX, if it starts from the loss that PyTorch has on the CPU."""
        with torch.no_grad():
            loss = (self.model(self.inputs) - self.targets).double().square().mean().numpy()
        expected = loss.astype(self.inputs.numpy().dtype)
        self._check("jax", np.array(step()), expected, "loss differs")
        return step

    def _check(
        self, name: str, found: np.ndarray, expected: np.ndarray, what: str = "derivatives differ"
    ) -> None:
        error = float(np.abs(found - expected).max() / np.abs(expected).max())
        self.errors[name] = max(error, self.errors.get(name, 0.0))
        if not error < DIGITS * np.finfo(expected.dtype).eps:
            raise RuntimeError(f"its {what} from PyTorch's on the CPU by {error:.1e}")

    def _optimizer(self, model: Integrator, device: torch.device, machine: Any) -> Any:
        return LevenbergMarquardt(
            model,
            HeldPairs.of_tensors(self.inputs.to(device), self.targets.to(device)),
            Objective(),
            batch=self.count,
            generator=torch.Generator().manual_seed(0),
            compiled=machine,
        )

    def _ours(self) -> Callable[[], Any]:
        raise NotImplementedError

    def _eager(self) -> Callable[[], Any]:
        raise NotImplementedError

    def _fused(self, mode: str | None) -> Callable[[], Any]:
        raise NotImplementedError

    def _in_jax(self) -> Callable[[], Any]:
        raise NotImplementedError


class FirstOrderSteps(Steps):
    """Loss, gradient and Adam's update."""

    def _ours(self) -> Callable[[], Any]:
        model = self._model_there()
        optimizer = Adam(
            model,
            HeldPairs.of_tensors(*self.there),
            Objective(),
            batch=self.count,
            learning_rate=RATE,
            generator=torch.Generator().manual_seed(0),
            compiled=MachineCode(self._residual(model, 1, "gradient")),
        )
        return lambda: optimizer.epoch(0.0)  # one batch; it shuffles the windows, too

    def _eager(self) -> Callable[[], Any]:
        return self._step(self._model_there(), lambda model: model)

    def _fused(self, mode: str | None) -> Callable[[], Any]:
        return self._step(
            self._model_there(), lambda model: torch.compile(model, mode=mode, dynamic=False)
        )

    def _step(self, model: Integrator, fused: Callable[[Any], Any]) -> Callable[[], Any]:
        run, (inputs, targets) = fused(model), self.there
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)

        def step() -> None:
            mark_step(self.there[0])
            optimizer.zero_grad()
            (run(inputs) - targets).square().mean().backward()
            optimizer.step()

        return step

    def _in_jax(self) -> Callable[[], Any]:
        self.device.use_in_jax()
        from jax_transformer import adam_step

        return self._same_loss(adam_step(self.model, self.inputs.numpy(), self.targets.numpy()))


class NewtonSteps(Steps):
    """Levenberg-Marquardt: J^T J, its Cholesky factor, a step and its cost."""

    def _ours(self) -> Callable[[], Any]:
        model = self._model_there()
        rows = self.targets[0].numel()
        machine = MachineCode(self._residual(model, rows, "normal equations"))
        return self._step(self._optimizer(model, self.device.torch, machine))

    def _eager(self) -> Callable[[], Any]:
        return self._step(self._optimizer(self._model_there(), self.device.torch, None))

    def _fused(self, mode: str | None) -> Callable[[], Any]:
        optimizer = self._optimizer(self._model_there(), self.device.torch, None)
        jacobian = torch.compile(optimizer.jacobian, mode=mode, dynamic=False)

        def marked(*arguments: Any) -> Any:
            mark_step(self.there[0])
            return jacobian(*arguments)

        optimizer.jacobian = marked
        return self._step(optimizer)

    def _step(self, optimizer: Any) -> Callable[[], Any]:
        def step() -> None:
            linear = optimizer.linearise()
            delta = linear.step(DAMPING)
            optimizer.residuals.sums(optimizer.parameters + delta, *self.there)

        return step

    def _in_jax(self) -> Callable[[], Any]:
        self.device.use_in_jax()
        from jax_transformer import newton_step

        arrays = self.inputs.numpy(), self.targets.numpy()
        return self._same_loss(newton_step(self.model, *arrays, DAMPING))
