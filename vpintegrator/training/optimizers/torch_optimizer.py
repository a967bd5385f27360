"""Optimizers of torch.optim, on one vector of parameters."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar

import torch

from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.optimizers.state import Nested


class TorchOptimizer(Optimizer):
    """Optimizer of ``torch.optim``; the parameters are those of :class:`Optimizer`.

    Parameters are one vector: updates of many small tensors would take longer than the rest.

    Attributes
    ----------
    on_cpu
        Whether the vector is on the CPU, on whichever device the model is.
    """

    compiles = True
    on_cpu: ClassVar[bool] = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        vector = self.residuals.read()
        self.parameters = torch.nn.Parameter(vector.cpu() if self.on_cpu else vector)
        self.optimizer = self.made()

    @abstractmethod
    def made(self) -> torch.optim.Optimizer:
        """Return a new optimizer of the parameters."""

    def inner_state(self) -> Nested:
        """Return the state of torch's optimizer, empty before its first step."""
        # torch changes its tensors in place
        return copy.deepcopy(self.optimizer.state_dict()["state"].get(0, {}))

    def restore_inner(self, found: Nested) -> None:
        """Give it such a state."""
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict(
            {"state": {0: copy.deepcopy(found)} if found else {}, "param_groups": groups}
        )
