"""Export of a model to one file of C, which needs neither this package nor Python."""

from __future__ import annotations

import copy
import ctypes
import json
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from vpintegrator.arguments import one_of
from vpintegrator.compiled.c_source import CSource, write_c
from vpintegrator.compiled.library import Compilation, NotCompilable, pointer
from vpintegrator.compiled.verification import verify_model
from vpintegrator.errors import InputError, printable
from vpintegrator.models import load
from vpintegrator.models.model import check_model
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.storage.files import check_output, replacing

if TYPE_CHECKING:
    from vpintegrator.models import Model

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_MOST = 16  # components or parameters that are listed
_LONGEST = 300  # letters of what a file says


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
        one_of("dtype", dtype, ("float64", "float32"))
    if not _NAME.fullmatch(name):
        raise InputError(f"name must be a name of C, as vp or rigid_body, not {name!r}")
    model = load(model) if isinstance(model, str | os.PathLike) else model
    check_model(model)
    if model.ranges:
        raise InputError(_of_a_family(model))
    if header is not None and Path(header).resolve() == Path(path).resolve():
        raise InputError(f"{path}: the header must be another file")
    path = check_output(path, overwrite)
    header = None if header is None else check_output(header, overwrite)
    model = copy.deepcopy(model).cpu().eval()
    model = model if dtype is None else model.to(getattr(torch, dtype))
    note = "" if verify else "it was not asked for"
    try:
        source = write_c(model, name, jacobian, described(model))
        if verify:
            try:
                library = CLibrary(source, model)
            except NotCompilable as reason:
                note = str(reason)
            else:
                library.verify(model, jacobian)
    except NotCompilable as reason:
        raise InputError(f"{model.name or 'the model'} cannot be exported: {reason}") from None
    for file, text in ((path, source.text), (header, source.header)):
        if file is not None:
            with replacing(file, overwrite) as temporary:
                temporary.write_text(text, encoding="ascii")
    return Exported(path, not note, note, source.operations, source.functions)


def _of_a_family(model: Model) -> str:
    """Return the message that tells the user to name one model of the family."""
    ranges = model.ranges.items()
    told = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in ranges)
    given = [f"{name}={low:g}" for name, (low, _) in ranges]
    return (
        f"{model.name} is a family, of {told}: name the model to export, as by "
        f"-p {' -p '.join(given)} (model.at({', '.join(given)}) in Python)"
    )


class CLibrary:
    """The functions of an exported file, compiled by the compiler of the machine.

    Parameters
    ----------
    source
        The file.
    model
        Model that was exported.

    Raises
    ------
    NotCompilable
        If there is no compiler, or it fails.
    """

    def __init__(self, source: CSource, model: Model) -> None:
        self._sizes = model.prediction_window, model.dim, model.window, model.dim
        self._dtype = model.scale.numpy().dtype.type
        self._library = Compilation([source.text]).library()
        self._prefix = source.prefix

    def predict(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Iterate the map, as ``CompiledModel.predict`` does."""
        new, dim, *_ = self._sizes
        windows = np.array(windows, dtype=self._dtype, order="C")
        states = np.empty((len(windows), calls * new, dim), dtype=self._dtype)
        function = getattr(self._library, f"{self._prefix}_rollout")
        for arrays in zip(windows, states, strict=True):
            function(*map(pointer, arrays), ctypes.c_long(calls))
        return states, windows

    def jacobian(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return new states of windows (trajectory, window, dim), and their derivatives."""
        windows = np.array(windows, dtype=self._dtype, order="C")
        states = np.empty((len(windows), *self._sizes[:2]), dtype=self._dtype)
        derivatives = np.empty((len(windows), *self._sizes), dtype=self._dtype)
        function = getattr(self._library, f"{self._prefix}_step_jacobian")
        for arrays in zip(windows, states, derivatives, strict=True):
            function(*map(pointer, arrays))
        return states, derivatives

    def verify(self, model: Model, jacobian: bool, count: int = 3) -> None:
        """Compare all functions with PyTorch at random windows, derivatives at ``count`` of them.

        Raises
        ------
        NotCompilable
            If they differ by more than rounding.
        """
        verify_model(self, model)
        if not jacobian:
            return
        states = np.random.default_rng(2).normal(size=(count, model.window, model.dim))
        windows = model.coordinates.inverse(0.5 * torch.from_numpy(states).to(model.scale)).detach()
        with torch_threads(1), torch.no_grad():
            expected = torch.func.vmap(torch.func.jacrev(model.predict))(windows).numpy()
        error = np.abs(self.jacobian(windows.numpy())[1] - expected).max(initial=0.0)
        size = np.abs(expected).max(initial=1.0)
        if not error <= np.sqrt(np.finfo(self._dtype).eps) * size:
            raise NotCompilable(f"its derivatives differ from PyTorch's by {error:.1e}")


def described(model: Model) -> list[str]:
    """Return the facts known of a model, a line each, without control characters of a file."""
    origin = model.origin
    structure = model.structure
    name = ": ".join(filter(None, (model.name or type(model).__name__, model.description)))
    system = origin.system
    parameters = system.definitions if system else {}
    values = {"system": system.name if system else "", "step": str(origin.step or "")}
    components = f": {_listed(system.components)}" if system and system.dim == model.dim else ""
    values["states"] = f"{model.dim} components{components}"
    if model.explicit_time:
        time = model.get_buffer("time_step").item()
        values["time"] = f"the last component, which a step moves on by {time:g}"
    values["parameters"] = _listed(f"{key} = {json.dumps(v)}" for key, v in parameters.items())
    kept = {
        "the symplectic form": structure.is_symplectic,
        "the form of its discrete Lagrangian": structure.form == "lagrangian",
        f"the volume of {'windows' if model.window > 1 else 'phase space'}": structure.keeps_volume,
        "the volume of its chart": model.measure_preserving and not structure.keeps_volume,
        "reversing symmetries": bool(structure.reversing_symmetries),
    }
    values["keeps"] = ", ".join(law for law, holds in kept.items() if holds)
    history = model.record.history
    of = " of its family" * (origin.member is not None)
    if history is not None and math.isfinite(history.test_error):
        error = f"relative error one window ahead {history.test_error:.2e}"
        values["training"] = f"{error} on test data{of}"
    values["made by"] = f"vpintegrator {version('vpintegrator')}"
    facts = [name, *(f"{key}: {text}" for key, text in values.items() if text)]
    return [printable(fact, _LONGEST) for fact in facts]


def _listed(words: Iterable[str]) -> str:
    first = list(islice(words, _MOST + 1))
    more = ", ..."
    return ", ".join(first[:_MOST]) + more * (len(first) > _MOST)
