"""Functions that exported C needs, written out in ``functions.h`` where the C library is slower."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from vpintegrator.compiled.c_program import literal
from vpintegrator.compiled.scalar_graph import FUNCTIONS

# ln 2 in two parts, from where on tanh is one, and where exp begins and ends
_NUMBERS = {
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10, 20.0, 708.0, 709.0),
    "float": (6.9314575195e-01, 1.4286067653e-06, 10.0, 87.0, 88.0),
}
_WHOLE = {"double": ("unsigned long long", "ULL"), "float": ("unsigned int", "U")}
_DEGREES = {"double": 13, "float": 7}  # up to which powers of exp go beyond rounding
_BLOCK = 8  # numbers side by side, a whole number of vectors of most machines
_OWN = {"double": ("exp", "tanh", "sin", "cos", "log"), "float": ("exp", "tanh")}
_OF_NUMBERS = ("larger", "is_greater", "is_equal", "pick")
_UP = int((2 - math.sqrt(2)) * 2**52)  # mantissas above sqrt(2) belong to the next power of two


@cache
def sections(name: str) -> dict[str, Template]:
    """Return the sections of a file of templates, which begin with lines ``//// NAME``."""
    text = files("vpintegrator.compiled").joinpath(name).read_text(encoding="utf-8")
    _, *parts = re.split(r"(?:^// .*\n)*^//// (.*)\n", text, flags=re.MULTILINE)
    return {
        title: Template(part.strip()) for title, part in zip(parts[::2], parts[1::2], strict=True)
    }


def write_functions(used: Iterable[str], real: str, prefix: str, widest: bool = False) -> str:
    """Return the C source of the functions named.

    Parameters
    ----------
    used
        Names of functions, of ``FUNCTIONS`` and of those of a few numbers.
    real
        ``double`` or ``float``.
    prefix
        Prefix of all names.
    widest
        Whether to define the macro ``PREFIX_WIDEST`` even if no function here needs it.
    """
    names, about = set(used), _format(real) | {"p": prefix, "P": prefix.upper()}
    own = [name for name in _OWN[real] if name in names]
    others = [name for name in FUNCTIONS if name in names and name not in own]

    def filled(section: str, **more: str) -> str:
        return sections("functions.h")[section].substitute(about, **more)

    def library(name: str) -> str:
        """Return a loop over the function of the C library."""
        return filled("library", name=name, called=f"{name}{'f' * (real == 'float')}(")

    def written() -> Iterator[str]:
        yield filled("bits")
        if {"exp", "tanh"} & names:
            yield filled("split_exp")
        yield from (filled(name) for name in ("exp", "tanh") if name in names)
        if {"sin", "cos"} & names:
            yield filled("circular")
        for shift, name in enumerate(("sin", "cos")):
            if name in names:
                yield filled("sin_or_cos", name=name, shift=str(shift))
        if "log" in names:
            yield filled("log")

    found = [filled(name) for name in _OF_NUMBERS if name in names]
    found += map(library, others)
    if own or widest:
        found.append(filled("widest"))
    if own:
        plain, better = ("\n\n".join(each) for each in (map(library, own), written()))
        found.append(f"{filled('plain')}\n{plain}\n#else\n{better}\n#endif")
    return "\n\n".join(found)


def _format(real: str) -> dict[str, Any]:
    """Return the numbers of a format of floating-point numbers, by the names in the templates."""
    info, (whole, suffix) = np.finfo(real if real == "double" else "single"), _WHOLE[real]
    names = ("ln2_high", "ln2_low", "tanh_is_one", "lowest", "highest")
    numbers = dict(zip(names, _NUMBERS[real], strict=True))
    numbers |= {"zero": 0.0, "one": 1.0, "two": 2.0, "log2e": 1.4426950408889634}
    # rounds to whole numbers when it is added and subtracted again
    numbers["rounding"] = 1.5 * 2.0**info.nmant
    return {name: literal(number, real) for name, number in numbers.items()} | {
        "real": real,
        "whole": whole,
        "sign": f"{1 << info.bits - 1:#x}{suffix}",
        "infinity": f"{(1 << info.bits - 1) - (1 << info.nmant):#x}{suffix}",
        "last": info.bits - 1,
        "mantissa": info.nmant,
        "bias": info.maxexp - 1,
        "block": _BLOCK,
        "up": _UP,
        "series": _series(2, _DEGREES[real] - 1, real),
    }


def _series(first: int, terms: int, real: str) -> str:
    """Return 1/first! + r/(first + 1)! + ... in C, by Estrin's scheme."""
    if terms == 1:
        return literal(1 / math.factorial(first), real)
    half = 8 if terms > 8 else 4 if terms > 4 else 2 if terms > 2 else 1
    power = "r" if half == 1 else f"r{half}"
    return f"({_series(first + half, terms - half, real)}) * {power} + {_series(first, half, real)}"
