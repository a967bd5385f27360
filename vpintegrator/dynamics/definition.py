"""Definitions of systems: system files that are read, with their declared properties checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from vpintegrator.dynamics.chart import read_chart
from vpintegrator.dynamics.claims import TrialStates, check_claims
from vpintegrator.dynamics.expressions.algebra import TooLong
from vpintegrator.dynamics.expressions.parsing import readable
from vpintegrator.dynamics.plot import Plot, read_plot
from vpintegrator.dynamics.properties import Definition
from vpintegrator.dynamics.reading import (
    KEYS,
    TEXTS,
    check_table,
    plain_value,
    read_equations,
)
from vpintegrator.dynamics.section import (
    ENERGY,
    SAMPLED,
    constant,
    read_section,
    section_equations,
)
from vpintegrator.dynamics.trial_states import domain_states, trial_of
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml

_LONGEST_TEXT = 20_000
_LARGEST_DEFAULT = 10**15
_LONGEST_NAME = 100
_RETURNS = 10  # steps of a trajectory of a return map, unless a recipe says otherwise
_DEFAULTS: dict[str, Any] = {"step": (int, float), "steps": int, "time": (int, float)}


def read_definition(
    text: str,
    name: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> Definition:
    """Read a system file and check its declared properties.

    Parameters
    ----------
    text, name, parameters, source
        Arguments of :class:`System`.

    Raises
    ------
    InputError
        If the text is not a valid system or declares what does not hold.
    """
    source = source or name or "system"
    given = plain_value(parameters or {}, source)
    table = read_toml(text, source)
    check_table(table, KEYS, source)
    texts: dict[str, Any] = {}
    for key in TEXTS:
        several = key in ("description", "reference")
        texts[key] = readable(table.get(key, ""), f"{source}, {key}", _LONGEST_TEXT, several)
    texts["title"] = texts["title"] or name or "untitled system"
    name = name or "-".join(texts["title"].lower().split())
    # the name can be part of a file's name, and leads to no other folder
    name = re.sub(r"[\x00-\x1f\x7f/\\:]+", "-", name).strip("-. ")[:_LONGEST_NAME] or "system"
    texts |= {"text": text, "name": name, "source": source}
    with within_reach(source):
        if "return_map" in table:
            return _read_return_map(texts, table, given)
        return _read(texts, table, given)


def _read(texts: dict[str, Any], table: Mapping[str, Any], given: Mapping[str, Any]) -> Definition:
    """Read a file without a return map."""
    source = texts["source"]
    defaults = _read_defaults(table, source)
    equations, parameters = read_equations(table, source, given)
    if equations.is_map and defaults.setdefault("step", 1.0) != 1:
        raise InputError(
            f"{source}, [defaults] step: a step of a map is one iteration; leave it out (the key "
            "'iterations' says how many times its stages are applied in one)"
        )
    definition = Definition(
        **texts,
        equations=equations,
        parameters=parameters,
        definitions=equations.definitions,
        defaults=defaults,
        initial_table=table.get("initial_conditions"),
    )
    return _checked(definition, trial_of(definition))


def _read_return_map(
    texts: dict[str, Any], table: Mapping[str, Any], given: Mapping[str, Any]
) -> Definition:
    """Take the flow for the flow, and the section for the system."""
    source = texts["source"]
    given = dict(given)
    declaration = table["return_map"]
    energy = declaration.get("energy")
    if ENERGY not in table.get("parameters", {}):
        energy = given.pop(ENERGY, energy)
    elif energy is not None:
        raise InputError(f"{source}, [parameters] {ENERGY}: this is that of the return map")
    rest = {key: entry for key, entry in table.items() if key != "return_map"}
    flow = _read(texts, rest, given)
    value = None
    parameters = dict(flow.parameters)
    definitions = dict(flow.definitions)
    if energy is not None:
        value = constant(flow.equations, energy, f"{source}, [return_map] energy")
        parameters[ENERGY] = float(value)  # type: ignore[arg-type]
        definitions[ENERGY] = energy
    section = read_section(flow.equations, declaration, source, value)
    volume = section.flow.hamiltonian is not None
    volume = volume or (section.stroboscopic and flow.divergence_free)
    equations = section_equations(section, states=domain_states(flow, SAMPLED))
    return replace(
        flow,
        title=f"{flow.title}: return map",
        equations=equations,
        parameters=parameters,
        definitions=definitions,
        defaults={"step": 1.0, "steps": _RETURNS},
        initial_table=declaration.get("initial_conditions"),
        divergence_free=volume,
        is_canonical=section.is_canonical or (volume and len(equations.components) == 2),
        plot=Plot(),
        chart=None,
        flow=flow,
        return_table=declaration,
    )


def _checked(definition: Definition, trial: TrialStates) -> Definition:
    """Check the declared properties of the equations, and read what depends on them."""
    source = definition.source
    equations = definition.equations
    if equations.stages or equations.vector_field:
        divergence_free, is_canonical = check_claims(trial, source)
    else:
        is_canonical = bool(equations.symplectic)  # measured states are believed
        divergence_free = is_canonical or bool(equations.divergence_free)
    chart = None
    if "chart" in equations.table:
        there = read_chart(trial, source)
        where = f"{source}, [chart]"
        inside = replace(definition, source=where, equations=there.equations, initial_table=None)
        chart = there, _checked(inside, TrialStates(there.equations, there.states))
    return replace(
        definition,
        divergence_free=divergence_free,
        is_canonical=is_canonical,
        plot=read_plot(equations, source) if "plot" in equations.table else Plot(),
        chart=chart,
    )


@contextmanager
def within_reach(source: str) -> Iterator[None]:
    """Tell in a sentence where formulas are too long, too deep or too large."""
    try:
        yield
    except TooLong as error:
        raise InputError(f"{source}: the equations write out to {error}") from None
    except (RecursionError, ArithmeticError):
        raise InputError(
            f"{source}: the equations are nested too deeply, or a constant of their derivatives is "
            "too large or no real number"
        ) from None


def _read_defaults(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    defaults = table.get("defaults", {})
    where = f"{source}, [defaults]"
    check_table(defaults, _DEFAULTS, where)
    for key, value in defaults.items():
        if not 0 < value <= _LARGEST_DEFAULT:
            raise InputError(f"{where} {key}: expected a positive number, found {value!r}")
    return {key: value if key == "steps" else float(value) for key, value in defaults.items()}
