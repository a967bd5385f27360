"""From a PyTorch model to a graph of scalar operations.

The model runs once, on one window. Each operation on tensors that PyTorch meets on the way is done
on arrays of node numbers as well (``operations``). To follow it any other way, by ``torch.fx`` say,
takes PyTorch seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vpintegrator.compiled.compiler import NotCompilable
from vpintegrator.compiled.operations import INDEXED, Operations
from vpintegrator.compiled.scalar_graph import ScalarGraph

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

LARGEST = 100_000  # operations; beyond, tensors are not small and PyTorch is as fast
_DTYPES = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Trace:
    """A model's map of one window.

    Attributes
    ----------
    graph
        The operations.
    outputs
        Numbers of the nodes of the new window, (window * dim,).
    weights
        Names of the model's tensors that the parameters of the graph stand for, each flattened.
    """

    graph: ScalarGraph
    outputs: list[int]
    weights: list[str]

    def values(self, model: Integrator) -> np.ndarray:
        """The parameters of the graph that a model has now."""
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        flat = [tensors[name].detach().reshape(-1).numpy() for name in self.weights]
        return np.concatenate([np.empty(0, model.scale.numpy().dtype), *flat])


def trace(model: Integrator) -> Trace:
    """Follow a model through one window.

    Raises
    ------
    NotCompilable
        If it uses an operation that is not known here, or is too large.
    """
    weights = {name: p.detach() for name, p in model.named_parameters()}
    # the normalisation differs from dataset to dataset: unless it is trivial it is not baked in
    weights |= {"shift": model.shift} if model.shift.any() else {}
    weights |= {"scale": model.scale} if (model.scale != 1).any() else {}
    tensors = [*weights.values(), *model.buffers()]
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float64)
    if dtype not in _DTYPES or any(t.device.type != "cpu" for t in tensors):
        raise NotCompilable("only models in float32 or float64 on the CPU are compiled")

    def call(window: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(model, named, (window,))

    graph = ScalarGraph()
    follower = _Follower(graph)
    # any window will do: the operations do not depend on the values
    window = torch.linspace(0.1, 0.9, model.window * model.dim, dtype=dtype)
    window = window.reshape(model.window, model.dim)
    follower.assign(window, graph.input, 0)
    count = 0
    for tensor in weights.values():
        follower.assign(tensor, graph.parameter, count)
        count += tensor.numel()
    try:
        with torch.no_grad(), follower:
            # operations in place become others
            output = torch.func.functionalize(call)(window, *weights.values())
        outputs = follower.nodes(output)
    except NotCompilable:
        raise
    except Exception as error:  # whatever a model of the user's own does
        raise NotCompilable(f"the model cannot be followed: {error}") from error
    return Trace(graph, [int(n) for n in outputs.ravel()], list(weights))


class _Follower(TorchDispatchMode):
    """Sees every operation of PyTorch, and does it on node numbers too."""

    def __init__(self, graph: ScalarGraph) -> None:
        super().__init__()
        self._graph, self._operations = graph, Operations(graph)
        # by id; the tensors are kept, so that no later one gets the id of an earlier one
        self._known: dict[int, tuple[torch.Tensor, np.ndarray]] = {}

    def assign(self, tensor: torch.Tensor, leaf: Callable[[int], int], first: int) -> None:
        """Let leaves ``first``, ``first + 1``, ... of a kind stand for the numbers in a tensor."""
        numbers = [leaf(first + i) for i in range(tensor.numel())]
        self._know(tensor, np.array(numbers, dtype=np.int64).reshape(tensor.shape))

    def nodes(self, tensor: torch.Tensor) -> np.ndarray:
        """The nodes that stand for the numbers in a tensor."""
        if id(tensor) not in self._known:
            raise NotCompilable("what the model returns does not depend on its window")
        return self._known[id(tensor)][1]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is torch.compile's; to import that takes a second

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = operation(*args, **kwargs)
        if not self._is_known([*args, *kwargs.values()]):
            return result  # constants
        name = operation.overloadpacket.__name__
        found = self._operations.find(name)
        if found is None:
            raise NotCompilable(f"the operation {operation} is not known to the compiler")
        indexed = name in INDEXED
        arguments = [self._argument(argument, indexed) for argument in args]
        nodes = found(*arguments, **{k: self._argument(v, indexed) for k, v in kwargs.items()})
        if isinstance(result, torch.Tensor):
            self._know(result, nodes)
        else:
            for tensor, part in zip(result, nodes, strict=True):
                if part is not None:
                    self._know(tensor, part)
        if len(self._graph.nodes) > LARGEST:
            raise NotCompilable(f"the model needs more than {LARGEST:,} operations")
        return result

    def _know(self, tensor: torch.Tensor, nodes: np.ndarray) -> None:
        if nodes.shape != tensor.shape:
            raise NotCompilable(f"shapes {nodes.shape} and {tuple(tensor.shape)} differ")
        self._known[id(tensor)] = tensor, nodes

    def _is_known(self, argument: Any) -> bool:
        """Whether an argument is, or holds, a tensor that nodes stand for."""
        if isinstance(argument, list | tuple):
            return any(self._is_known(part) for part in argument)
        return id(argument) in self._known

    def _argument(self, argument: Any, indexed: bool) -> Any:
        """An argument with nodes instead of tensors, and indices as arrays of NumPy."""
        if isinstance(argument, list | tuple):
            return [self._argument(part, indexed) for part in argument]
        if not isinstance(argument, torch.Tensor):
            return argument
        if id(argument) in self._known:
            return self._known[id(argument)][1]
        if indexed and not argument.is_floating_point():
            return argument.numpy()
        return self._operations.constants(argument.numpy())
