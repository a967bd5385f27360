"""Tables of a system file that give an expression for each component, or for arrays of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vpintegrator.dynamics.expressions import Scope, Value, parse
from vpintegrator.errors import InputError, nearest


def read_components(
    entries: Mapping[str, Any],
    where: str,
    scope: Scope,
    components: tuple[str, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> dict[int, Value]:
    """Read one expression for each component.

    A scalar is given as ``z1 = "..."``, an array as ``q = "...i..."`` or as a list of expressions.

    Returns
    -------
    dict
        Expressions by the number of the component, for those that are named.

    Raises
    ------
    InputError
        For a component that the state does not have, or that is given twice.
    """
    found: dict[int, Value] = {}
    for key, text in entries.items():
        here = f"{where} {key}"
        new: dict[int, Value] = {}
        if key in arrays:
            indices = arrays[key]
            if isinstance(text, list):
                if len(text) != len(indices):
                    raise InputError(
                        f"{here}: {len(text)} expressions for {len(indices)} components"
                    )
                texts = text
            else:
                texts = [text] * len(indices)
            if "i" in scope.values or "i" in scope.integers:
                raise InputError(f"{here}: 'i' is the component's index; rename the parameter 'i'")
            for i, (index, entry) in enumerate(zip(indices, texts, strict=True)):
                local = replace(scope, integers={**scope.integers, "i": i})
                new[index] = parse(entry, local, here)
        elif key in components:
            new[components.index(key)] = parse(text, scope, here)
        else:
            known = [*arrays, *components]
            raise InputError(
                f"{here}: the state has no component '{key}'"
                f"{nearest(key, known) or ' (it has: ' + ', '.join(known[:12]) + ')'}"
            )
        for index, expression in new.items():
            if index in found:
                raise InputError(f"{here}: component {components[index]} is given twice")
            found[index] = expression
    return found
