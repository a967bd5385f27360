"""Results of the tests of structure in words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpintegrator.data import Dataset, StructureTest
    from vpintegrator.models import Integrator


def structure_lines(tests: Sequence[StructureTest]) -> Iterator[str]:
    """Yield a line for each kind of property, six at most."""
    first = {test.name: test for test in reversed(tests)}
    if not first:
        return
    yield f"volume: {_kept(first['volume'])}"
    yield f"contraction: {_contraction(first['contraction'])}"
    form, scaled = (first.get(name) for name in ("symplectic", "symplectic up to a factor"))
    if form is not None and form.answer == "no" and scaled is not None and scaled.answer == "yes":
        yield f"symplectic form: preserved up to a constant factor{_in_brackets(scaled)}"
    elif form is not None:
        yield f"symplectic form: {_kept(form)}"
    for name in ("reversing symmetry", "translation"):
        yield f"{name}: {_listed([test for test in tests if test.name == name])}"
    time = first["autonomous"]
    words = {"yes": "no dependence on it", "no": "the map depends on it"}
    yield f"time: {words.get(time.answer, _undecided(time))}{_in_brackets(time)}"


def _kept(test: StructureTest) -> str:
    words = {"yes": "preserved", "no": "not preserved"}
    return words.get(test.answer, _undecided(test)) + _in_brackets(test)


def _undecided(test: StructureTest) -> str:
    return f"not decided: {test.reason or 'too few data for their noise'}"


def _in_brackets(test: StructureTest) -> str:
    """Return p-value and precision."""
    parts = [] if math.isnan(test.p) else [f"p = {test.p:.2g}"]
    if test.answer == "yes" and not math.isnan(test.departure):
        parts.append(f"to {100 * test.departure:.2g} % of a general map")
    return f" ({', '.join(parts)})" if parts else ""


def _contraction(test: StructureTest) -> str:
    if math.isnan(test.value):
        return _undecided(test)
    words = "volumes shrink by" if test.answer == "yes" else "none found,"
    return f"{words} {_rate(test)} (p = {test.p:.2g})"


def _rate(test: StructureTest) -> str:
    return f"{test.value:.3g} ± {test.standard_error:.1g} per unit of time"


def _listed(tests: Sequence[StructureTest]) -> str:
    """Return the candidates that hold, and how many are not decided."""
    found = [f"({t.what})" if "," in t.what else t.what for t in tests if t.answer == "yes"]
    open_ones = [test for test in tests if test.answer == "not decided"]
    if not found and len(open_ones) == len(tests):
        return _undecided(open_ones[0])
    rest = f"; {len(open_ones)} of {len(tests)} not decided" if open_ones else ""
    return (", ".join(found) or "none") + rest


def warn_of_structure(model: Integrator, dataset: Dataset) -> None:
    """Warn in a sentence if measured data reject the structure of a model."""
    if text := contradiction(model, dataset):
        warnings.warn(text, stacklevel=2)


def contradiction(model: Integrator, dataset: Dataset) -> str:
    """Return a sentence about structure that a model has and measured data reject; else empty."""
    from vpintegrator.data import inspect_structure

    if not dataset.system.is_measured or dataset.is_family or model.window > 1:
        return ""
    tests = inspect_structure(dataset)
    first = {test.name: test for test in reversed(tests)}
    found: list[tuple[str, StructureTest]] = []
    form = first.get("symplectic", first["volume"])
    if model.symplectic and form.answer == "no":
        found.append(("the symplectic form", form))
    elif model.volume_preserving and first["volume"].answer == "no":
        found.append(("volume preservation", first["volume"]))
    scaled = first.get("symplectic up to a factor")
    if getattr(model.core, "damped", False) and scaled is not None and scaled.answer == "no":
        found.append(("a form that shrinks at a constant rate", scaled))
    if first["autonomous"].answer == "no":
        found.append(("a map that does not depend on time", first["autonomous"]))
    for signs in map(_signs, model.reversing_symmetries):
        found += [
            (f"the reversing symmetry ({test.what})", test)
            for test in tests
            if test.name == "reversing symmetry" and test.answer == "no" and test.signs == signs
        ]
    if not found:
        return ""
    listed = " and ".join(f"{what} (p = {test.p:.1g})" for what, test in found)
    text, shrinks = f"the data contradict {listed}", first["contraction"]
    if shrinks.answer == "yes":
        text += f"; volumes shrink by {_rate(shrinks)}"
    return f"{text}; {_advice(first)}"


def found_structure(dataset: Dataset) -> tuple[str, str]:
    """Return the structure that measured data support beside what they claim, and a sentence.

    The structure is ``damped`` for a uniform contraction of the symplectic form, ``symplectic`` for
    a form that is kept and not claimed, else empty.
    """
    from vpintegrator.data import inspect_structure

    if dataset.is_family or dataset.dim % 2 or dataset.system.explicit_time is not None:
        return "", ""
    first = {test.name: test for test in reversed(inspect_structure(dataset))}
    form, found = first.get("symplectic"), uniform_contraction(first)
    if found is not None:
        return "damped", (
            f"volumes shrink uniformly by {_rate(found)} (p = {found.p:.1g}): sgf is taken with a "
            "constant of friction; --model takes another"
        )
    if form is not None and form.answer == "yes" and not dataset.system.is_canonical:
        return "symplectic", (
            f"the states support the symplectic form{_in_brackets(form)}: sgf is tried, which "
            "keeps it; --model takes another"
        )
    return "", ""


def uniform_contraction(first: dict[str, StructureTest]) -> StructureTest | None:
    """Return the contraction of a form that is preserved up to a constant factor; else None."""
    scaled, found = first.get("symplectic up to a factor"), first["contraction"]
    uniform = scaled is not None and scaled.answer == "yes" and found.answer == "yes"
    return found if uniform and first["volume"].answer == "no" else None


def _signs(matrix: Any) -> tuple[int, ...]:
    """Return the signs of a diagonal matrix; empty for others."""
    diagonal = matrix.diagonal()
    return tuple(int(x) for x in diagonal) if bool((matrix == diagonal.diag()).all()) else ()


def _advice(first: dict[str, StructureTest]) -> str:
    if first["autonomous"].answer == "no":
        return "make the time, or the phase of the drive, a component"
    if uniform_contraction(first) is not None:
        return "--model sgf --option damping=true has a constant rate of contraction"
    if first["volume"].answer == "no":
        return "--model resnet preserves nothing"
    return "--no-reversible leaves symmetries out"
