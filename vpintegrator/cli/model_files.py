"""Models of vp-rollout: files by name, loaded, families at one step and parameters."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.names import CLASSICAL_METHODS, method_name

if TYPE_CHECKING:
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model

Models = dict[str, "list[Model]"]


def files_and_methods(arguments: tuple[str, ...]) -> tuple[dict[str, list[Path]], list[str]]:
    """Return files of models by name, and names of classical methods."""
    files: dict[str, list[Path]] = {}
    methods = []
    for argument in arguments:
        name, equals, pattern = argument.partition("=")
        path = Path(argument)
        method = method_name(argument.lower())
        if equals and not path.exists():
            paths = sorted(map(Path, glob.glob(pattern)), key=lambda p: (len(p.name), p.name))
            if not name or not paths:
                raise InputError(f"{argument}: there is no file {pattern}; expected NAME=FILES")
            files.setdefault(name, []).extend(paths)
        elif not path.exists() and method.partition("@")[0] in CLASSICAL_METHODS:
            methods.append(method)
        elif path.stem in files:
            raise InputError("two of the model files have the same name; rename one")
        else:
            files[path.stem] = [path]
    return files, methods


def load_files(files: dict[str, list[Path]], device: str) -> Models:
    if not files:  # nothing else needs PyTorch, which takes seconds to import
        if device != "cpu":
            raise InputError(f"--device {device}: models alone run on other devices than the CPU")
        return {}
    from vpintegrator.models import load
    from vpintegrator.runtime.devices import check_device

    check_device(device, "--device")
    return {name: [load(path, device) for path in paths] for name, paths in files.items()}


def at_parameters(
    models: Models, step: float | None, parameters: dict[str, Any], system: System | None
) -> Models:
    """Return families at the step and parameters that are named, or at those of the system."""
    single = [model for members in models.values() for model in members]
    if parameters and system is None and not any(model.ranges for model in single):
        raise InputError(f"-p {next(iter(parameters))}: these models are no families")
    for model in single:
        if "step" in model.ranges and step is None:
            low, high = model.ranges["step"]
            raise InputError(f"this family takes any step from {low:g} to {high:g}; give --step")
    values = dict(parameters if system is None else system.parameters)
    values |= {} if step is None else {"step": step}

    def member(model: Model) -> Model:
        varied = model.ranges
        family = {name: v for name, v in values.items() if name in varied or name in parameters}
        return model.at(**family) if varied else model

    return {name: [member(model) for model in members] for name, members in models.items()}
