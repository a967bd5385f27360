"""L-BFGS on a subset of windows (Liu and Nocedal, Math. Program. 45 (1989) 503-528)."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.state import LARGEST_SIZE, Nested, State
from vpintegrator.training.optimizers.torch_optimizer import TorchOptimizer
from vpintegrator.training.residuals import relative

_BATCH = 2048
_ITERATIONS = 20
_HISTORY = 50


class QuasiNewton(TorchOptimizer):
    """torch's L-BFGS with a strong Wolfe line search; an epoch is 20 of its iterations.

    Its vectors are on the CPU, where the model is on a GPU, too: it looks at a number after nearly
    every operation on them, for each of which a GPU would be waited for. So a gradient is a copy
    there and a copy back.

    Parameters
    ----------
    model, pairs, objective, batch, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`. A batch has 2048 windows by
        default: one subset throughout, as the method needs.
    """

    name = "l-bfgs"
    step_seconds = 0.5
    on_cpu = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.use(*self.ready(self.pairs.sample(self.batch, self.generator)))
        targets = self.in_use[1]
        self.count, self.size = targets.numel(), targets[..., 0].numel()

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return 2048."""
        return _BATCH

    def made(self) -> torch.optim.Optimizer:
        """Return an L-BFGS optimizer without tolerances for the gradient or the step."""
        return torch.optim.LBFGS(
            [self.parameters],
            max_iter=_ITERATIONS,
            history_size=_HISTORY,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

    def epoch(self, progress: float) -> float:
        """Do some iterations; ``progress`` is not used."""

        def closure() -> float:
            vector = self.parameters.detach().to(self.inputs.device)
            found = self.residuals.gradient(vector, self.inputs, self.targets)
            squares, gradient = (processes.total(sum / self.count) for sum in found)
            self.parameters.grad = gradient.cpu()
            return squares[0].item()

        self.parameters.data.copy_(self.residuals.read())
        self.optimizer.step(closure)
        vector = self.parameters.detach().to(self.inputs.device)
        self.residuals.write(vector)
        squares = processes.total(self.residuals.sums(vector, self.inputs, self.targets))[1]
        return relative(squares.item(), self.size)

    def roll_back(self) -> None:
        """Forget what was learned of the curvature."""
        self.optimizer = self.made()

    def state(self) -> Nested:
        """Return all that changes; the windows in use are those of all processes."""
        inner = self.inner_state()
        inner.pop("al", None)  # a value of one iteration
        inputs, targets = self.in_use
        numbers = {"count": self.count, "size": self.size}
        return {"inputs": inputs, "targets": targets, "state": inner, **numbers}

    def restore(self, state: State) -> None:
        """Go on from a state."""
        inputs, targets = self.in_use
        self.use(state.tensor("inputs", inputs), state.tensor("targets", targets))
        self.count = state.whole("count", self.count, self.count)
        state.number("size", finite=False)  # other in earlier versions
        inner = state.part("state")
        self.restore_inner(self._read(inner) if inner else {})

    def _read(self, state: State) -> Nested:
        """Return the state of torch's L-BFGS, some of whose numbers may be tensors."""
        vector = self.parameters.detach()
        scalar = vector.new_zeros(())
        pairs = state.whole("old_dirs", 0, _HISTORY)
        lists = {"old_dirs": vector, "old_stps": vector, "ro": scalar}
        return {
            **{name: state.whole(name, 0, LARGEST_SIZE) for name in ("func_evals", "n_iter")},
            **{name: state.tensor(name, vector) for name in ("d", "prev_flat_grad")},
            **{name: state.scalar(name, scalar) for name in ("t", "H_diag", "prev_loss")},
            **{name: state.tensors_of(name, like, pairs) for name, like in lists.items()},
        }
