"""Neural networks that step dynamical systems forward in time and keep their geometry.

    import vpintegrator as vp

    dataset = vp.generate("rigid-body", "rigid-body.h5")
    result = vp.fit(dataset)
    report = vp.compare(result.model, against=["implicit-midpoint", "rk4"], time=120.0)

States and times are dimensionless. NumPy arrays go in and come out for systems and classical
methods, torch tensors for models. Names are imported when they are first used, so that importing
the package, and the commands' ``--help``, are instant.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from vpintegrator import rich_display

if TYPE_CHECKING:
    from vpintegrator import (
        compiled,
        data,
        dynamics,
        maps,
        models,
        nn,
        plotting,
        runtime,
        training,
    )
    from vpintegrator.compiled import export
    from vpintegrator.data import (
        generate,
        import_dataset,
        list_recipes,
        load_recipe,
        open_dataset,
        windows,
    )
    from vpintegrator.dynamics import System, list_systems, load_system, return_map, solve
    from vpintegrator.errors import InputError
    from vpintegrator.maps import Map, classical
    from vpintegrator.models import load, prolong, save, wrap
    from vpintegrator.overview import show
    from vpintegrator.plotting import draw
    from vpintegrator.rollout import compare, integrate, open_rollout, rollout
    from vpintegrator.training import fit, one_step, study, train

__version__ = "0.1.0"

# vpintegrator.rollout is itself callable: vp.rollout(model, ...) is the function
_NAMES = {
    name: module
    for module, names in {
        "catalogue": ("list_recipes", "list_systems"),
        "compiled": ("export",),
        "data": (
            *("generate", "import_dataset"),
            *("load_recipe", "open_dataset", "windows"),
        ),
        "dynamics": ("System", "load_system", "return_map", "solve"),
        "errors": ("InputError",),
        "maps": ("Map", "classical"),
        "models": ("prolong", "load", "save", "wrap"),
        "overview": ("show",),
        "plotting": ("draw",),
        "rollout": ("compare", "integrate", "open_rollout"),
        "training": ("fit", "one_step", "study", "train"),
    }.items()
    for name in names
}
__all__ = [
    "InputError",
    "Map",
    "System",
    "classical",
    "compare",
    "compiled",
    "data",
    "draw",
    "dynamics",
    "export",
    "fit",
    "generate",
    "import_dataset",
    "integrate",
    "list_recipes",
    "list_systems",
    "load",
    "load_recipe",
    "load_system",
    "maps",
    "models",
    "nn",
    "one_step",
    "open_dataset",
    "open_rollout",
    "plotting",
    "prolong",
    "return_map",
    "rollout",
    "runtime",
    "save",
    "show",
    "solve",
    "study",
    "train",
    "training",
    "windows",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"vpintegrator.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and importlib.util.find_spec(f"vpintegrator.{name}") is not None:
        return importlib.import_module(f"vpintegrator.{name}")
    raise AttributeError(f"module 'vpintegrator' has no attribute '{name}'")


def _display(value: Any, form: str) -> str:
    return str(getattr(importlib.import_module("vpintegrator.plotting.displays"), form)(value))


rich_display.register(_display)


def __dir__() -> list[str]:
    return sorted(__all__)
