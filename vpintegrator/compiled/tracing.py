"""Tracing of a PyTorch model to a graph of scalar operations.

The model runs once, on one window. Each operation of PyTorch on tensors is repeated on arrays of
node numbers (``operations``). Other ways of tracing, such as ``torch.fx``, take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.operations import BOOLEAN, INDEXED, RESHAPING, Operations
from vpintegrator.compiled.scalar_graph import ScalarGraph, too_large
from vpintegrator.errors import first_line
from vpintegrator.nn.implicit import unrolled

if TYPE_CHECKING:
    from vpintegrator.models import Model

LARGEST = 100_000  # operations of which code can be made
_DTYPES = (torch.float64, torch.float32)
_BRANCHES = ("_local_scalar_dense", "is_nonzero", "nonzero")


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
        Names of the model's tensors that, flattened, are the parameters of the graph.
    """

    graph: ScalarGraph
    outputs: list[int]
    weights: list[str]

    def values(self, model: Model) -> np.ndarray:
        """Return the parameters of the graph that a model has now."""
        with torch.no_grad():
            flat = [named_tensor(model, name).reshape(-1).numpy() for name in self.weights]
        return np.concatenate([np.empty(0, model.scale.numpy().dtype), *flat])

    def folded(self, values: np.ndarray) -> Trace:
        """Return the same map with all values that depend on weights alone computed as numbers.

        Weights that are zero or one drop out, and equal ones are found.

        Parameters
        ----------
        values
            The parameters of the graph. They are combined in float64, whatever they are.
        """
        old = self.graph
        new = ScalarGraph()
        number: dict[int, int] = {}
        for n in old.needed(self.outputs):
            operation, *arguments = old.nodes[n]
            if operation == "parameter":
                number[n] = new.constant(float(values[arguments[0]]))
            else:
                number[n] = new.again(operation, arguments, number)
        return replace(self, graph=new, outputs=[number[n] for n in self.outputs], weights=[])


def trace(model: Model, frozen: bool = False, limit: int = LARGEST) -> Trace:
    """Follow a model through one window.

    Parameters
    ----------
    model
        The model.
    frozen
        Whether weights that are computed from others, such as those on the Stiefel manifold, are
        taken as they are now. They are computed by operations on whole matrices.
    limit
        The largest number of operations, and of weights.

    Raises
    ------
    NotCompilable
        If it uses an operation that is not known here, or is too large.
    """
    # a value computed once is the same tensor at every use
    with parametrize.cached(), torch.no_grad():
        return _trace(model, dict(_computed(model)) if frozen else {}, limit)


def _trace(model: Model, computed: Mapping[str, torch.Tensor], limit: int) -> Trace:
    """Follow a model, some of whose weights are computed already."""
    weights = {
        name: p.detach()
        for name, p in model.named_parameters()
        if not (computed and ".parametrizations." in f".{name}")
    }
    # the normalisation differs from dataset to dataset: unless it is trivial it is not baked in
    weights |= {"coordinates.shift": model.shift} if model.shift.any() else {}
    weights |= {"coordinates.scale": model.scale} if (model.scale != 1).any() else {}
    tensors = [*weights.values(), *computed.values(), *model.buffers()]
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float64)
    if dtype not in _DTYPES or any(t.device.type != "cpu" for t in tensors):
        raise NotCompilable("only models in float32 or float64 on the CPU are compiled")
    known = [*weights.values(), *computed.values()]
    if sum(tensor.numel() for tensor in known) > limit:
        raise too_large(limit)

    def call(window: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(model, named, (window,))

    graph = ScalarGraph(limit)
    follower = _Follower(graph, dtype)
    # any window will do: the operations do not depend on the values
    window = torch.linspace(0.1, 0.9, model.window * model.dim, dtype=dtype)
    window = window.reshape(model.window, model.dim)
    count = 0
    try:
        follower.assign(window, graph.input, 0)
        for tensor in known:
            follower.assign(tensor, graph.parameter, count)
            count += tensor.numel()
        with watched(model), unrolled(), follower:
            # operations in place become others
            output = torch.func.functionalize(call)(window, *weights.values())
        outputs = follower.nodes(output)
    except NotCompilable:
        raise
    except Exception as error:  # whatever a model of the user's own does
        raise NotCompilable(f"the model cannot be followed: {first_line(error)}") from error
    if outputs.shape != window.shape:
        raise NotCompilable(f"it gives {outputs.shape} for a window {tuple(window.shape)}")
    return Trace(graph, [int(n) for n in outputs.ravel()], [*weights, *computed])


def named_tensor(model: Model, name: str) -> torch.Tensor:
    """Return a parameter, a buffer, or a weight that is computed from others."""
    path, _, attribute = name.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(path), attribute)
    return tensor


def trained_numbers(model: Model) -> np.ndarray:
    """Return indices of the trained numbers among all parameters of a model."""
    trained = [p.requires_grad for p in model.parameters() for _ in range(p.numel())]
    return np.flatnonzero(trained)


def _computed(model: Model) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and values of weights that are computed from others."""
    for path, module in model.named_modules():
        if parametrize.is_parametrized(module):
            for attribute in module.parametrizations:
                name = f"{path}.{attribute}".removeprefix(".")
                yield name, named_tensor(model, name)


@contextmanager
def watched(model: Model) -> Iterator[None]:
    """Run a model in operations of PyTorch alone, and find out whether it remembers that.

    Raises
    ------
    NotCompilable
        If a buffer has changed; it is put back.
    """
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with _PyTorchAlone():
        yield
    for name, buffer in model.named_buffers():
        if buffer.numpy().tobytes() != before[name].numpy().tobytes():
            with torch.no_grad():
                buffer.copy_(before[name])
            raise NotCompilable(f"{name} changes whenever the model predicts")


class _PyTorchAlone(TorchDispatchMode):
    """Sees every operation of PyTorch, so that what PyTorch cannot see is not used."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is torch.compile's; to import that takes a second

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return operation(*args, **(kwargs or {}))


class _Follower(_PyTorchAlone):
    """Sees every operation of PyTorch, and does it on node numbers too."""

    def __init__(self, graph: ScalarGraph, dtype: torch.dtype) -> None:
        super().__init__()
        self._operations = Operations(graph)
        self._dtype = dtype
        # by id; the tensors are kept, so that no later one gets the id of an earlier one. What
        # depends on the window and has no nodes must not be used
        self._known: dict[int, tuple[torch.Tensor, np.ndarray | None]] = {}

    def assign(self, tensor: torch.Tensor, leaf: Callable[[int], int], first: int) -> None:
        """Let leaves ``first``, ``first + 1``, ... of a kind stand for the numbers in a tensor."""
        numbers = [leaf(first + i) for i in range(tensor.numel())]
        self._known[id(tensor)] = tensor, np.array(numbers, np.int64).reshape(tensor.shape)

    def nodes(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the nodes that stand for the numbers in a tensor."""
        if id(tensor) not in self._known:
            raise NotCompilable("what the model returns does not depend on its window")
        nodes = self._known[id(tensor)][1]
        if nodes is None:
            raise NotCompilable("it uses a result that is not known to the compiler")
        return nodes

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        known = [leaf for leaf in tree_leaves((args, kwargs)) if id(leaf) in self._known]
        if not known:
            return operation(*args, **kwargs)  # constants
        name = operation.overloadpacket.__name__
        if name in _BRANCHES:
            raise NotCompilable("what it does next depends on the values of its states")
        changed = operation._schema.is_mutable
        if changed:
            self._check_alone(operation, args[0])
        result = operation(*args, **kwargs)
        if result is None:
            return result  # such as the check that matrices had inverses
        results = [result] if isinstance(result, torch.Tensor) else list(result)
        method = self._operations.find(name.removesuffix("_") if changed else name)
        if method is None:
            with self:
                if (made := operation.decompose(*args, **kwargs)) is not NotImplemented:
                    return made
                if operation in decomposition_table:
                    return decomposition_table[operation](*args, **kwargs)
        if method is None:
            raise NotCompilable(f"the operation {operation} is not known to the compiler")
        nodes = self._perform(operation, method, args, kwargs)
        parts = [nodes] if isinstance(result, torch.Tensor) else list(nodes)
        for tensor, part in zip(results, parts, strict=True):
            self._know(operation, tensor, part, known)
        return result

    def _perform(
        self, operation: Any, method: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Perform an operation on tensors on their nodes."""
        indexed = operation.overloadpacket.__name__ in INDEXED
        try:
            args, kwargs = tree_map(partial(self._argument, indexed=indexed), (args, kwargs))
            return method(*args, **kwargs)
        except NotCompilable:
            raise
        except Exception as error:  # called in a way that is not known
            raise NotCompilable(
                f"the operation {operation} is not compiled with these arguments"
            ) from error

    def _know(
        self, operation: Any, tensor: torch.Tensor, nodes: Any, known: list[torch.Tensor]
    ) -> None:
        """Keep the nodes that stand for a result."""
        if nodes is not None:
            nodes = np.asarray(nodes)
            name = operation.overloadpacket.__name__
            if tensor.dtype == torch.bool:
                # must be nodes of 0 and 1
                same = name not in RESHAPING or all(a.dtype == torch.bool for a in known)
                fits = name in BOOLEAN and same
            else:
                fits = tensor.dtype == self._dtype
            if not fits:
                raise NotCompilable(
                    f"the operation {operation} gives numbers of {tensor.dtype}, not "
                    f"{self._dtype} as the model has them"
                )
            if nodes.shape != tensor.shape or nodes.dtype != np.int64:
                raise NotCompilable(f"the operation {operation} is not compiled for such tensors")
        self._known[id(tensor)] = tensor, nodes

    def _check_alone(self, operation: Any, tensor: torch.Tensor) -> None:
        """Nothing else must change with a tensor that an operation changes in place."""
        entry = self._known.get(id(tensor))
        memory = tensor.untyped_storage().data_ptr()
        shared = sum(t.untyped_storage().data_ptr() == memory for t, _ in self._known.values())
        if entry is None or shared > 1:
            raise NotCompilable(f"the operation {operation} changes what others see too")

    def _argument(self, argument: Any, indexed: bool) -> Any:
        """Return an argument with nodes instead of tensors, and indices as arrays of NumPy."""
        if not isinstance(argument, torch.Tensor):
            return argument
        if id(argument) in self._known:
            return self.nodes(argument)
        if indexed and not argument.is_floating_point():
            return argument.numpy()
        return self._operations.constants(argument.numpy())
