"""Export of a model to a file that needs neither this package nor Python."""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpintegrator.arguments import check_integrator, one_of
from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable
from vpintegrator.storage.files import check_output, replacing

if TYPE_CHECKING:
    from vpintegrator.export.c_source import CSource
    from vpintegrator.models import Model

DTYPES = {"float64": "double", "float32": "float"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class Exported:
    """A C file that was written.

    Attributes
    ----------
    path
        Path of the file.
    verified
        Whether what it computes was compared with PyTorch.
    note
        Why it was not.
    operations, functions
        Number of operations of a step, and of functions such as tanh among them.
    """

    path: Path
    verified: bool
    note: str
    operations: int
    functions: int


def export(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    name: str = "vp",
    jacobian: bool = False,
    many: bool = False,
    header: str | os.PathLike[str] | None = None,
    verify: bool = True,
    overwrite: bool = False,
) -> Exported:
    """Write a model as one file of C99 for other programs, with the weights in it as numbers.

    The file needs only <math.h> and <string.h>, and compiles as C++, too. It is first compared with
    the model in PyTorch at random windows. If they differ by more than rounding, no file is
    written.

    Parameters
    ----------
    model
        A model, or the path of its file. Of a family, one of its models: ``model.at(step=0.1)``.
    path
        The file to write.
    dtype
        ``"float64"`` or ``"float32"``, which the file computes in. By default as the model.
    name
        Prefix of the names of the functions: ``vp_step``.
    jacobian
        Whether the file has ``vp_step_jacobian``, a step and its derivatives, too.
    many
        Whether the file has ``vp_rollout_many``, which steps many trajectories side by side in
        vectors, too.
    header
        Second file to write, with the declarations of the functions.
    verify
        Whether to compile and compare the file, where there is a compiler.
    overwrite
        Whether files that exist may be replaced.

    Returns
    -------
    Exported

    Raises
    ------
    InputError
        If the model is a family, too large, or of unknown operations; if the file cannot be
        written, or an argument is wrong.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=3)
    >>> written = vp.export(model, "step.c")
    >>> "void vp_step(const double *window, double *next);" in written.path.read_text()
    True
    """
    if dtype is not None:
        one_of("dtype", dtype, tuple(DTYPES))
    if not _NAME.fullmatch(name):
        raise InputError(f"name must be a name of C, as vp or rigid_body, not {name!r}")
    path = check_output(path, overwrite)
    header = None if header is None else check_output(header, overwrite)
    if header is not None and header.resolve() == path.resolve():
        raise InputError(f"{path}: the header must be another file")
    plain = _prepared(model, dtype)
    try:
        source, note = _source(plain, name, jacobian, many, verify)
    except NotCompilable as reason:
        told = plain.name or "the model"
        raise InputError(f"{told} cannot be exported: {reason}") from None
    for file, text in ((path, source.text), (header, source.header)):
        if file is not None:
            with replacing(file, overwrite) as temporary:
                temporary.write_text(text, encoding="ascii")
    return Exported(path, not note, note, source.operations, source.functions)


def _source(
    model: Model, name: str, jacobian: bool, many: bool, verify: bool
) -> tuple[CSource, str]:
    """Return the C of a model, and why it was not compared with PyTorch, or nothing."""
    from vpintegrator.export.c_library import CLibrary
    from vpintegrator.export.c_library import verify as verify_library
    from vpintegrator.export.c_source import write_c

    source = write_c(model, name, jacobian, many)
    if not verify:
        return source, "it was not asked for"
    try:
        library = CLibrary(source, model)
    except NotCompilable as reason:
        return source, str(reason)
    verify_library(library, model, jacobian, many)
    return source, ""


def _prepared(model: Model | str | os.PathLike[str], dtype: str | None) -> Model:
    """Return a copy of the model on the CPU, ready for tracing."""
    import torch

    if isinstance(model, str | os.PathLike):
        from vpintegrator.models import load

        model = load(model)
    check_integrator(model)
    if model.conditions:
        raise InputError(_of_a_family(model))
    model = copy.deepcopy(model).cpu().eval()
    return model if dtype is None else model.to(getattr(torch, dtype))


def _of_a_family(model: Model) -> str:
    """Return the message that tells the user to name one model of the family."""
    ranges = {name: (f"{low:g}", f"{high:g}") for name, (low, high) in model.conditions.items()}
    told = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in ranges.items())
    flags = [
        f"--step {low}" if name == "step" else f"-p {name}={low}"
        for name, (low, _) in ranges.items()
    ]
    given = ", ".join(f"{name}={low}" for name, (low, _) in ranges.items())
    return (
        f"{model.name} is a family, of {told}: name the model to export, as by {' '.join(flags)} "
        f"(model.at({given}) in Python)"
    )
