"""Export of a model to a file that needs neither this package nor Python."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vpintegrator.arguments import check_integrator, one_of
from vpintegrator.errors import InputError
from vpintegrator.export.exported import Exported
from vpintegrator.native import NotCompilable
from vpintegrator.storage.files import check_output, replacing

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

SUFFIXES = {"c": ".c", "onnx": ".onnx", "torch": ".pt2"}
DTYPES = {"float64": "double", "float32": "float"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def export(
    model: Integrator | str | os.PathLike[str],
    path: str | os.PathLike[str],
    to: str = "c",
    *,
    dtype: str | None = None,
    name: str = "vp",
    jacobian: bool = False,
    many: bool = False,
    header: str | os.PathLike[str] | None = None,
    verify: bool = True,
    overwrite: bool = False,
) -> Exported:
    """Write a model for use in other programs: as C, ONNX, or a program of torch.export.

    The export is first compared with the model in PyTorch at random windows. If they differ by more
    than rounding, no file is written.

    Parameters
    ----------
    model
        A model, or the path of its file. Of a family, one of its models: ``model.at(step=0.1)``.
    path
        The file to write.
    to
        ``"c"``: one file of C99 with the weights in it as numbers, which needs only <math.h> and
        <string.h>; it compiles as C++, too. ``"onnx"``: needs the extra ``export``.
        ``"torch"``: read by ``torch.export.load``, in programs without this package.
    dtype
        ``"float64"`` or ``"float32"``, which the file computes in. By default as the model.
    name
        Prefix of the names of C functions: ``vp_step``.
    jacobian
        Whether C has ``vp_step_jacobian``, a step and its derivatives, too.
    many
        Whether C has ``vp_rollout_many``, which steps many trajectories side by side in vectors,
        too.
    header
        Second file to write for C, with the declarations of its functions.
    verify
        Whether to compare. C is compiled for it, and not compared where there is no compiler.
    overwrite
        Whether files that exist may be replaced.

    Returns
    -------
    Exported

    Raises
    ------
    InputError
        If the model is a family, too large for C, or of operations that the format has not; if the
        file cannot be written, or an argument is wrong.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=3)
    >>> written = vp.export(model, "step.c")
    >>> "void vp_step(const double *window, double *next);" in written.path.read_text()
    True
    """
    one_of("to", to, tuple(SUFFIXES))
    if dtype is not None:
        one_of("dtype", dtype, tuple(DTYPES))
    check_for_c(to, name, jacobian or many or header is not None)
    path = check_output(path, overwrite)
    header = None if header is None else check_output(header, overwrite)
    if header is not None and header.resolve() == path.resolve():
        raise InputError(f"{path}: the header must be another file")
    plain = _prepared(model, dtype)
    try:
        if to == "c":
            return _as_c(plain, path, name, jacobian, many, header, verify, overwrite)
        if to == "onnx":
            from vpintegrator.export.onnx_file import write_onnx

            return write_onnx(plain, path, verify, overwrite)
        from vpintegrator.export.torch_program import write_program

        return write_program(plain, path, verify, overwrite)
    except NotCompilable as reason:
        raise InputError(
            f"{plain.name or 'the model'} cannot be exported to {to}: {reason}"
        ) from None


def check_for_c(to: str, name: str, others: bool) -> None:
    """Raise InputError if options of C are given for another format, or a name is none of C."""
    if to != "c" and (others or name != "vp"):
        raise InputError(
            "name, jacobian, many and header are for C alone; leave them out, or take to='c'"
        )
    if not _NAME.fullmatch(name):
        raise InputError(f"name must be a name of C, as vp or rigid_body, not {name!r}")


def _prepared(model: Integrator | str | os.PathLike[str], dtype: str | None) -> Integrator:
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


def _of_a_family(model: Integrator) -> str:
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


def _as_c(
    model: Integrator,
    path: Path,
    name: str,
    jacobian: bool,
    many: bool,
    header: Path | None,
    verify: bool,
    overwrite: bool,
) -> Exported:
    from vpintegrator.export.c_library import CLibrary
    from vpintegrator.export.c_library import verify as verify_library
    from vpintegrator.export.c_source import write_c
    from vpintegrator.models.one_step import simplified

    model = simplified(model)
    source = write_c(model, name, jacobian, many)
    note = "" if verify else "it was not asked for"
    if verify:
        try:
            library = CLibrary(source, model)
        except NotCompilable as reason:
            note = str(reason)
        else:
            verify_library(library, model, jacobian, many)
    with replacing(path, overwrite) as temporary:
        temporary.write_text(source.text, encoding="ascii")
    if header is not None:
        with replacing(header, overwrite) as temporary:
            temporary.write_text(source.header, encoding="ascii")
    details = {"operations": source.operations, "functions": source.functions}
    return Exported(path, "c", not note, note, details)
