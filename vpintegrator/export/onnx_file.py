"""Export of a model to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.tracing import first_line
from vpintegrator.compiled.verification import verify_model
from vpintegrator.errors import InputError
from vpintegrator.export.description import facts_of
from vpintegrator.export.exported import Exported
from vpintegrator.export.torch_program import Iterated, example, exported, quietly
from vpintegrator.native import NotCompilable
from vpintegrator.storage.files import replacing

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_NEEDED = ("onnx", "onnxscript")


def write_onnx(model: Integrator, path: Path, verify: bool, overwrite: bool) -> Exported:
    """Write ``windows`` (trajectory, window, dim) to ``states``, the new ones of each window.

    Raises
    ------
    InputError
        If what writes ONNX is not installed.
    NotCompilable
        If the model cannot be written, or what was written gives other numbers.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"to write ONNX takes {' and '.join(missing)}: pip install vpintegrator[export]"
        )
    note = "" if verify else "it was not asked for"
    if verify and find_spec("onnxruntime") is None:
        note = "onnxruntime is not installed"
    with quietly():
        made = _made(model)
        made.model.metadata_props.update(facts_of(model))
        made.model.producer_name = "vpintegrator"
        content = made.model_proto.SerializeToString()
        if not note:
            note = _compared(model, content)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(content)
    return Exported(path, "onnx", not note, note)


def _made(model: Integrator) -> Any:
    windows = example(model)
    table = torch.export.default_decompositions()
    table.update(_DECOMPOSITIONS)
    module = exported(model).run_decompositions(table).module()
    _in_full(module, windows.dtype)
    try:
        return torch.onnx.export(
            exported(module, windows),
            dynamo=True,
            input_names=["windows"],
            output_names=["states"],
            verbose=False,
        )
    except Exception as error:
        raise NotCompilable(f"PyTorch cannot write it: {first_line(error)}") from error


def _compared(model: Integrator, content: bytes) -> str:
    """Compare with PyTorch; why that cannot be, or nothing."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # such as functions that it has not in float64
        return f"onnxruntime does not run it: {first_line(error)}"
    verify_model(Iterated(model, lambda X: session.run(None, {"windows": X})[0]), model)
    return ""


_TAKES_TENSORS = {
    torch.ops.aten.add.Tensor,
    torch.ops.aten.sub.Tensor,
    torch.ops.aten.mul.Tensor,
    torch.ops.aten.div.Tensor,
}


def _in_full(module: Any, dtype: torch.dtype) -> None:
    """Turn scalar operands into tensors of ``dtype``; the exporter would make them float32."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.target not in _TAKES_TENSORS:
            continue
        for place, number in enumerate(node.args):
            if isinstance(number, float) and float(np.float32(number)) != number:
                name = f"number_{node.name}_{place}"
                module.register_buffer(name, torch.tensor(number, dtype=dtype))
                with graph.inserting_before(node):
                    node.update_arg(place, graph.get_attr(name))
    module.recompile()


def _inverse(A: torch.Tensor, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Invert matrices by Gauss-Jordan elimination without pivots; ONNX has no inverse."""
    size = A.shape[-1]
    identity = torch.eye(size, dtype=A.dtype, device=A.device)
    rows = torch.cat([A, identity.expand(A.shape)], -1)
    for k in range(size):
        row = rows[..., k : k + 1, :] / rows[..., k : k + 1, k : k + 1]
        # subtract multiples of the row from all other rows, and scale the row itself
        column = rows[..., k : k + 1] - identity[:, k : k + 1]
        rows = rows - column * row
    return rows[..., size:], torch.zeros(A.shape[:-2], dtype=torch.int32, device=A.device)


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    """Return softplus by elementary functions; runtimes have softplus for float32 only."""
    z = x * beta
    return torch.where(z > threshold, x, torch.log(1 + torch.exp(z)) / beta)


_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.linalg_inv_ex.default: _inverse,
    torch.ops.aten.softplus.default: _softplus,
}
