"""The classical methods by name."""

from __future__ import annotations

from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.adaptive import DOP853, LSODA, RADAU, RK45
from vpintegrator.rollout.classical.base import ClassicalMethod
from vpintegrator.rollout.classical.boris import BORIS
from vpintegrator.rollout.classical.composition import (
    BLANES_MOAN_4,
    BLANES_MOAN_6,
    COORDINATE_SPLITTING,
    STRANG_SPLITTING,
    YOSHIDA_4,
    YOSHIDA_6,
    YOSHIDA_8,
)
from vpintegrator.rollout.classical.explicit import EXPLICIT_EULER, EXPLICIT_MIDPOINT, HEUN, RK4
from vpintegrator.rollout.classical.feng_shang import FENG_SHANG
from vpintegrator.rollout.classical.gauss_legendre import (
    GAUSS_LEGENDRE_2,
    GAUSS_LEGENDRE_4,
    GAUSS_LEGENDRE_6,
    IMPLICIT_MIDPOINT,
)
from vpintegrator.rollout.classical.stoermer_verlet import STOERMER_VERLET

METHODS: dict[str, ClassicalMethod] = {
    method.name: method
    for method in (
        EXPLICIT_EULER,
        EXPLICIT_MIDPOINT,
        HEUN,
        RK4,
        IMPLICIT_MIDPOINT,
        GAUSS_LEGENDRE_2,
        GAUSS_LEGENDRE_4,
        GAUSS_LEGENDRE_6,
        STOERMER_VERLET,
        COORDINATE_SPLITTING,
        STRANG_SPLITTING,
        YOSHIDA_4,
        YOSHIDA_6,
        YOSHIDA_8,
        BLANES_MOAN_4,
        BLANES_MOAN_6,
        BORIS,
        FENG_SHANG,
        RK45,
        DOP853,
        RADAU,
        LSODA,
    )
}


def find_method(name: str) -> ClassicalMethod:
    """The classical method of a name.

    Raises
    ------
    InputError
        If there is none; the message names the nearest, or all of them.
    """
    if name in METHODS:
        return METHODS[name]
    import difflib

    close = difflib.get_close_matches(name.lower().replace("_", "-"), METHODS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(METHODS)}"
    raise InputError(f"there is no classical method '{name}'; {hint}")
