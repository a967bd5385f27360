"""Writing safetensors files, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping

import safetensors.torch
import torch

from vpintegrator.storage.files import replacing


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, torch.Tensor],
    header: dict[str, str],
    overwrite: bool = False,
) -> None:
    """Write tensors, of any device, and a header to a file.

    Raises
    ------
    InputError, OSError
        If the file cannot be written, see :func:`vpintegrator.storage.files.replacing`.
    """
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # as bytes: the library's own writer leaves a temporary file of its own when it is killed, and
    # has an exception of its own for a full disk
    data = safetensors.torch.save(on_cpu, metadata=header)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(data)
