"""L-BFGS on a subset of windows (Liu and Nocedal, Math. Program. 45 (1989) 503-528)."""

from __future__ import annotations

import math
from typing import Any

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.gradient import Gradient
from vpintegrator.training.objective import Objective

_BATCH = 2048
_ITERATIONS = 20
_HISTORY = 50


class QuasiNewton:
    """torch's L-BFGS with a strong Wolfe line search; an epoch is 20 of its iterations.

    Parameters
    ----------
    model, inputs, targets, objective, generator, compiled
        See :class:`vpintegrator.training.first_order.FirstOrder`.
    batch
        Windows in use, 2048 by default: one subset throughout, as the method needs.
    """

    def __init__(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        objective: Objective,
        *,
        batch: int | None = None,
        generator: torch.Generator,
        compiled: CompiledResidual | None = None,
    ) -> None:
        self.gradient = Gradient(model, objective, compiled)
        self.parameters = torch.nn.Parameter(self.gradient.vector.read())
        order = torch.randperm(len(inputs), generator=generator)[: batch or _BATCH]
        order = order.to(inputs.device)
        chosen = objective.noisy(model, inputs[order], generator)
        new_states = objective.new_states(model, targets)[order]
        self.count, self.size = new_states.numel(), new_states.square().sum().item()
        self.inputs, self.targets = processes.share(chosen), processes.share(new_states)
        self._make()

    def _make(self) -> None:
        self.optimizer = torch.optim.LBFGS(
            [self.parameters],
            max_iter=_ITERATIONS,
            history_size=_HISTORY,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

    def epoch(self, progress: float) -> float:
        """Some iterations; ``progress`` is not used. Returns the relative error on the subset."""

        def closure() -> float:
            squares, gradient = self.gradient(self.parameters, self.inputs, self.targets)
            self.parameters.grad = processes.total(gradient / self.count)
            return processes.total(squares / self.count)[0].item()

        self.parameters.data.copy_(self.gradient.vector.read())
        self.optimizer.step(closure)
        self.gradient.vector.write(self.parameters.detach())
        squares = processes.total(
            self.gradient.sums(self.parameters.detach(), self.inputs, self.targets)
        )[1].item()
        return math.sqrt(squares / self.size) if self.size > 0 else math.sqrt(squares)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Nothing to adapt: the subset stays."""

    def roll_back(self) -> None:
        """The model was set back to better weights: forget what was learned of the curvature."""
        self._make()

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """Tensors and numbers from which :meth:`restore` goes on exactly."""
        tensors = {"inputs": self.inputs.contiguous(), "targets": self.targets.contiguous()}
        numbers = {"count": float(self.count), "size": self.size}
        # torch keeps all of it in the state of the first parameter: tensors, lists of them, numbers
        for name, value in self.optimizer.state_dict()["state"].get(0, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"state.{name}"] = value
            elif isinstance(value, list):
                entries = [(i, v) for i, v in enumerate(value) if v is not None]
                tensors |= {f"list.{name}.{i}": torch.as_tensor(v) for i, v in entries}
                numbers[f"length.{name}"] = len(value)
            elif value is not None:
                numbers[f"number.{name}"] = value
        return tensors, numbers

    def restore(self, tensors: dict[str, torch.Tensor], numbers: dict[str, float]) -> None:
        """Go on from a state."""
        self.inputs, self.targets = tensors["inputs"], tensors["targets"]
        self.count, self.size = int(numbers["count"]), numbers["size"]
        state: dict[str, Any] = {}
        for key, number in numbers.items():
            kind, _, name = key.partition(".")
            if kind == "number":
                # counters are whole numbers, step lengths are not
                state[name] = int(number) if name in ("func_evals", "n_iter") else number
            elif kind == "length":
                state[name] = [None] * int(number)
        for key, tensor in tensors.items():
            kind, _, name = key.partition(".")
            if kind == "state":
                state[name] = tensor
            elif kind == "list":
                name, _, index = name.partition(".")
                state[name][int(index)] = tensor
        saved = self.optimizer.state_dict()
        self.optimizer.load_state_dict(
            {"state": {0: state} if state else {}, "param_groups": saved["param_groups"]}
        )
