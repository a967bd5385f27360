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
from vpintegrator.training.state import LARGEST_SIZE, State

_BATCH = 2048
_ITERATIONS = 20
_HISTORY = 50
# the names of torch's L-BFGS, and whether they stand for vectors; if not, for tensors or numbers
_STATE = {"d": True, "prev_flat_grad": True, "t": False, "H_diag": False, "prev_loss": False}
_LISTS = {"old_dirs": True, "old_stps": True, "ro": False, "al": False}


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
        self._use(chosen, new_states)
        self._make()

    def _use(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        self.in_use = inputs, targets
        self.inputs, self.targets = processes.share(inputs), processes.share(targets)

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

    def state(self) -> State:
        """All that changes; the windows in use are those of all processes."""
        inputs, targets = self.in_use
        tensors = {"inputs": inputs, "targets": targets}
        numbers = {"count": float(self.count), "size": self.size}
        # torch keeps all of it in the state of the first parameter: tensors, lists of them, numbers
        for name, value in self.optimizer.state_dict()["state"].get(0, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"state.{name}"] = value.clone()  # torch changes it in place
            elif isinstance(value, list):
                entries = [(i, v) for i, v in enumerate(value) if v is not None]
                tensors |= {f"list.{name}.{i}": torch.as_tensor(v) for i, v in entries}
                numbers[f"length.{name}"] = len(value)
            elif value is not None:
                numbers[f"number.{name}"] = value
        return State(tensors, numbers)

    def restore(self, state: State) -> None:
        """Go on from a state."""
        inputs, targets = self.in_use
        self._use(state.tensor("inputs", inputs), state.tensor("targets", targets))
        self.count = state.whole("count", self.count, self.count)
        self.size = state.number("size", finite=False)
        found = self._restored(state) if len(state.tensors) > 2 else {}
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict(
            {"state": {0: found} if found else {}, "param_groups": groups}
        )

    def _restored(self, state: State) -> dict[str, Any]:
        """The state of torch's L-BFGS."""
        vector = self.parameters.detach()
        scalar = vector.new_zeros(())
        found: dict[str, Any] = {
            "func_evals": state.whole("number.func_evals", 0, LARGEST_SIZE),
            "n_iter": state.whole("number.n_iter", 0, LARGEST_SIZE),
        }
        for name, like in _STATE.items():
            if like or f"state.{name}" in state.tensors:
                found[name] = state.tensor(f"state.{name}", vector if like else scalar).clone()
            else:
                found[name] = state.number(f"number.{name}", finite=False)
        pairs = state.whole("length.old_dirs", 0, _HISTORY)
        for name, like in _LISTS.items():
            if f"length.{name}" not in state.numbers and name == "al":
                continue  # there was one iteration only
            length = _HISTORY if name == "al" else pairs
            state.whole(f"length.{name}", length, length)
            keys = [f"list.{name}.{i}" for i in range(length)]
            found[name] = [
                None
                if name == "al" and key not in state.tensors
                else state.tensor(key, vector if like else scalar)
                for key in keys
            ]
        return found
