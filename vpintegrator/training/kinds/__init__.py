"""Kinds of maps that ``vp.fit`` tries, each in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vpintegrator.arguments import of_kind
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.training.kinds.couplings import Couplings
from vpintegrator.training.kinds.generating import GeneratingFunctions, Splittings
from vpintegrator.training.kinds.kind import Kind
from vpintegrator.training.kinds.unstructured import LinearMaps, Network, PolynomialRegression

KINDS: tuple[Kind, ...] = (
    LinearMaps(),
    Splittings(),
    GeneratingFunctions(form="symplectic"),
    GeneratingFunctions(form="volume"),
    PolynomialRegression(),
    Couplings(form="symplectic"),
    Couplings(form="volume"),
    Network(),
)
# architectures that a kind of their own trains
_BY_ARCHITECTURE = dict(zip(("linear", "split", "sgf", "vpgf", "polynomial"), KINDS, strict=False))


def kinds_of(
    name: str = "auto",
    options: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> tuple[Kind, ...]:
    """Return the kinds of maps that the name of an architecture stands for.

    Parameters
    ----------
    name
        Name of an architecture; "auto" for all kinds. With arguments that only couplings and
        networks have, or another loss or optimizer, these alone are meant.
    options
        Arguments of :func:`vpintegrator.models.build`.
    training
        Arguments of :func:`vpintegrator.train`.

    Examples
    --------
    >>> from vpintegrator.training import kinds_of
    >>> kinds_of("sgf", {"degree": 6})[0].options
    {'degree': 6}
    """
    of_kind("name", name, str, "the name of an architecture")
    own, how = dict(options or {}), dict(training or {})
    if own.get("functions") == "auto":
        del own["functions"]
    if name in _BY_ARCHITECTURE:
        return (replace(_BY_ARCHITECTURE[name], options=own, training=how),)
    plain = {"reversible", "chart"} >= own.keys() and {"device", "compiled"} >= how.keys()
    if name == "auto" and plain:
        return tuple(replace(kind, options=own, training=how) for kind in KINDS)
    if _are_searched(name, own, how):
        return (
            Couplings(architecture=None if name == "auto" else name, options=own, training=how),
        )
    return (Network(architecture=name, options=own, training=how),)


def _are_searched(name: str, options: Mapping[str, Any], training: Mapping[str, Any]) -> bool:
    """Whether functions, degree and depth of the layers are to be found."""
    missing = set[str]()
    if name != "auto":
        missing = {"functions", "degree", "depth"} - arguments_of(ARCHITECTURES.find(name)).keys()
    of_neurons = {"functions", "width", "activation"} & options.keys()
    return (
        not (of_neurons or missing)
        and options.get("feed_forward", "coupling") == "coupling"
        and options.get("dtype", "float64") == "float64"
        and training.get("optimizer", "auto") in ("auto", "levenberg-marquardt")
    )
