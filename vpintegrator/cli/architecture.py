"""The untrained network that vp-train is asked for: its options, and what suits the data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator

GIVEN_OTHERWISE = {
    "dim": "it is the number of components in the dataset",
    "dtype": "give --dtype",
    "shift": "training sets it from the data",
    "scale": "training sets it from the data",
    "reversing_symmetries": "they are those of the system; --no-reversible leaves them out",
    "periodic": "angles are those that the system declares",
    "expressions": "--functions system takes those of the system",
}
_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False}


def find_architecture(name: str) -> type[Integrator]:
    """The class of a model by its name on the command line."""
    from vpintegrator.models import ARCHITECTURES

    if name not in ARCHITECTURES:
        hint = nearest(name, ARCHITECTURES) or f"; there are {', '.join(ARCHITECTURES)}"
        raise InputError(f"there is no model '{name}'{hint}")
    return ARCHITECTURES[name]


def suited(data: Dataset, flags: Mapping[str, Any], entries: tuple[str, ...]) -> str:
    """The architecture that ``auto`` stands for.

    The one-step map of volume-preserving couplings: after equal seconds of training it stays closer
    to true orbits than windows do on most systems of the catalogue (docs/catalogue.md), and it
    preserves the volume of phase space itself. A network without structure where that volume
    changes, and the transformer where a window is given, or another option of its own.

    Parameters
    ----------
    flags, entries
        See :func:`read_options`.
    """
    from vpintegrator.models.arguments import argument_kinds

    system = data.system
    if data.dim < 2 or not (system.divergence_free or system.is_measured):
        return "resnet"
    names = {name for name, value in flags.items() if value is not None}
    names |= {entry.partition("=")[0].strip() for entry in entries}
    own = {*argument_kinds(find_architecture("vpt"))} - {*argument_kinds(find_architecture("vpff"))}
    return "vpt" if flags["window"] not in (None, 1) or names & own else "vpff"


def read_options(
    architecture: type[Integrator], flags: dict[str, Any], entries: tuple[str, ...]
) -> dict[str, Any]:
    """Arguments of an architecture, from flags of their own and from ``--option NAME=VALUE``.

    Parameters
    ----------
    flags
        Values by the argument's name; None where a flag was not given.
    entries
        Texts such as ``stiefel=false`` or ``split=0,1|2``; the kinds of values are those that the
        constructor declares.

    Raises
    ------
    InputError
        If the architecture has no such argument, it is not for the user to give, it is given
        twice, or the value is of the wrong kind.
    """
    from vpintegrator.models.arguments import argument_kinds

    known = argument_kinds(architecture)
    options = {}
    for name, value in flags.items():
        if value is None:
            continue
        if name not in known:
            raise InputError(f"the model {architecture.name} has no option {flag(name)}")
        options[name] = value
    for entry in entries:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not name or not text:
            raise InputError(f"--option {entry}: give NAME=VALUE, such as split=halves")
        if name in GIVEN_OTHERWISE:
            raise InputError(f"--option {entry}: {name} is no option; {GIVEN_OTHERWISE[name]}")
        if name not in known:
            offered = [key for key in known if key not in GIVEN_OTHERWISE]
            hint = nearest(name, offered) or f"; it has {', '.join(offered)}"
            raise InputError(f"--option {entry}: {architecture.name} has no option '{name}'{hint}")
        if name in options:
            raise InputError(f"--option {entry}: {name} is given twice")
        options[name] = _value(name, text, known[name])
    return options


def flag(name: str) -> str:
    """The name of an argument as a flag."""
    return "--" + name.replace("_", "-")


def _value(name: str, text: str, kinds: tuple[Any, ...]) -> Any:
    """A text as a value of one of the kinds."""
    from vpintegrator.nn.split import Blocks, parse_split

    if Blocks in kinds:
        return parse_split(text)
    if NoneType in kinds and text.lower() == "none":
        return None
    if bool in kinds and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in kinds:
        return text
    words = {bool: "true or false", int: "an integer", float: "a number", NoneType: "none"}
    expected = " or ".join(word for kind, word in words.items() if kind in kinds)
    raise InputError(f"--option {name}={text}: {name} must be {expected}, not '{text}'")


def build(
    data: Dataset,
    architecture: type[Integrator],
    options: dict[str, Any],
    reversible: bool | None,
    seed: int,
    dtype: str,
) -> tuple[Integrator, list[str]]:
    """The untrained network for a dataset, and what was chosen that was not asked for.

    Parameters
    ----------
    options
        Arguments of the architecture that the user gave.
    reversible
        Whether the system's reversing symmetries are built in; None for as many of them as the
        model asked for can respect.

    Raises
    ------
    InputError
        If the options do not fit together, or the network does not fit into memory.
    """
    from vpintegrator.models.arguments import argument_kinds

    known = argument_kinds(architecture)
    options = dict(options)
    if "split" in known and data.system.is_hamiltonian:
        options.setdefault("split", "halves")  # positions and momenta
    if options.get("functions") == "system":
        options |= {"functions": "polynomial", "expressions": _functions(data)}
    if "periodic" in known and options.get("functions", "neurons") != "neurons":
        options["periodic"] = data.system.periods
    symmetries: list[Any] = []
    if "reversing_symmetries" in known and reversible is not False:
        symmetries = list(data.system.reversing_symmetries)

    def attempt(count: int) -> Integrator:
        given = {"reversing_symmetries": symmetries[:count]} if symmetries else {}
        return _untrained(architecture, data.dim, options | given, seed, dtype)

    refusal = ""
    for count in range(len(symmetries), -1, -1):
        try:
            model = attempt(count)
            break
        except InputError as error:
            refusal = refusal or str(error)
            if count == 0:
                raise
    if refusal and reversible:
        raise InputError(f"{refusal}; or leave out --reversible")
    notes = []
    if refusal:
        built_in = f"{count or 'none'} of the system's {len(symmetries)} reversing symmetries"
        notes.append(f"{built_in} are built in: {refusal}")
    if "weighting" in known and options.get("weighting", "auto") == "auto" and len(symmetries) > 1:
        notes += _note_on_weighting(model)
    return model, notes


def _functions(data: Dataset) -> list[str]:
    if not data.system.functions:
        raise InputError(
            f"--functions system: the vector field of {data.system.name} is not known, or made of "
            "polynomials and of sines and cosines of its angles alone; take --functions polynomial"
        )
    return data.system.functions


def _note_on_weighting(model: Any) -> list[str]:
    if model.weighting == "skew":
        return []
    return [
        f"the {model.weighting} weighting was chosen: the reversing symmetries leave no skew one "
        "but zero"
    ]


def _untrained(
    architecture: type[Integrator], dim: int, options: dict[str, Any], seed: int, dtype: str
) -> Integrator:
    import torch

    from vpintegrator.nn.triangular import IdleComponents

    torch.manual_seed(seed)
    try:
        with warnings.catch_warnings():
            # components that never move are a reason to choose otherwise
            warnings.simplefilter("error", IdleComponents)
            return architecture(dim=dim, dtype=getattr(torch, dtype), **options)
    except IdleComponents as warning:
        raise InputError(warning) from None
    except (MemoryError, OverflowError, RuntimeError):  # what torch cannot allocate
        raise InputError(
            f"a {architecture.name} of these sizes does not fit into memory; make it smaller"
        ) from None
