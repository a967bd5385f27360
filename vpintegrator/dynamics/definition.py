"""Definitions of systems: system files that are read, with their declared properties checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vpintegrator.dynamics.chart import ChartEquations, read_chart
from vpintegrator.dynamics.claims import TrialStates, check_claims, check_declared
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Number, TooLong, Value, readable
from vpintegrator.dynamics.plot import Plot, read_plot
from vpintegrator.dynamics.reading import (
    KEYS,
    TEXTS,
    check_table,
    plain_value,
    read_equations,
    read_parameters,
    read_state_and_formulas,
)
from vpintegrator.dynamics.section import ENERGY, constant, read_section, section_equations
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import read_toml

_LONGEST_TEXT = 20_000
_LARGEST_DEFAULT = 10**15
_LONGEST_NAME = 100
_RETURNS = 10  # steps of a trajectory of a return map, unless a recipe says otherwise
_DEFAULTS: dict[str, Any] = {"step": (int, float), "steps": int, "time": (int, float)}
_SEVERAL_LINES = ("description", "reference")
_NUMERIC = ("reversing_symmetry", "periodic")  # tables of numbers only


@dataclass(frozen=True)
class Definition:
    """All that makes a :class:`System`: equations, their structure, and the texts of the file.

    Reading a file makes one; charts, return maps, families and open parameters make others of it.

    Attributes
    ----------
    text, name, source
        The text, the short name of the system, and the source of the text for messages.
    title, subject, reference, description, function
        Entries of the file.
    equations
        Equations as formulas.
    parameters, definitions
        Values of the parameters, and the parameters as written.
    defaults
        ``step``, ``steps`` and ``time`` where the file suggests them.
    initial_table
        Table ``[initial_conditions]``; None without one.
    divergence_free, is_canonical
        Structure that was found, or is declared of measured states.
    plot
        Options of figures.
    chart
        Equations of the chart and the definition of the system in it; None without a chart.
    flow, return_table
        Definition of the flow of a return map, and the table ``[return_map]``.
    """

    text: str
    name: str
    source: str
    title: str
    subject: str
    reference: str
    description: str
    function: str
    equations: Equations
    parameters: Mapping[str, Any]
    definitions: Mapping[str, Any]
    defaults: dict[str, Any]
    initial_table: Mapping[str, Any] | None = None
    divergence_free: bool = False
    is_canonical: bool = False
    plot: Plot = field(default_factory=Plot)
    chart: tuple[ChartEquations, Definition] | None = None
    flow: Definition | None = None
    return_table: Mapping[str, Any] = field(default_factory=dict)

    def in_canonical_order(self) -> Definition:
        """Return the definition with positions first and then momenta, for states alone.

        It has no initial conditions or chart.
        """
        e = self.equations
        order = [*e.order, *range(len(e.order), len(e.components))]
        place = {old: new for new, old in enumerate(order)}

        def row_of(row: Mapping[int, Number]) -> dict[int, Number]:
            return {place[j]: entry for j, entry in row.items()}

        equations = replace(
            e,
            components=tuple(e.components[i] for i in order),
            symbols=tuple(e.symbols[i] for i in order),
            arrays={name: tuple(place[i] for i in array) for name, array in e.arrays.items()},
            vector_field=tuple(e.vector_field[i] for i in order) if e.vector_field else (),
            stages=tuple({place[i]: value for i, value in stage.items()} for stage in e.stages),
            reversing_symmetries=tuple(
                tuple(row_of(rho[i]) for i in order) for rho in e.reversing_symmetries
            ),
            periods={place[i]: period for i, period in e.periods.items()},
            order=(),
        )
        return replace(self, equations=equations, initial_table=None, chart=None)

    def with_open(self, names: Sequence[str]) -> Definition:
        """Return the definition with some parameters left open, as variables of the formulas.

        Raises
        ------
        InputError
            If there is no such parameter, or it is no number that can be left open: a list, or one
            on which the dimension or an index depends.
        """
        known = {name: value for name, value in self.parameters.items() if type(value) is not list}
        for k, name in enumerate(names):
            if name in names[:k]:
                raise InputError(f"the parameter {name} of {self.name} is named twice")
            if name not in known:
                hint = nearest(name, known) or f" (it has: {', '.join(known) or 'none'})"
                raise InputError(
                    f"{self.name} has no parameter '{name}' that could vary, a single number{hint}"
                )
        try:
            return self._with_open(names)
        except (TooLong, ArithmeticError, RecursionError, InputError) as error:
            told = isinstance(error, InputError)
            reason = str(error) if told else "the equations are too long where they are no numbers"
            raise InputError(
                f"the parameter {', '.join(names)} of {self.name} cannot vary: {reason}"
            ) from None

    def _with_open(self, names: Sequence[str]) -> Definition:
        e, flow = self.equations, None
        if self.flow is None:
            # symmetries and periods stay those of the given equations
            scope = read_parameters(e.definitions, e.source, names)
            table = {key: entry for key, entry in e.table.items() if key not in _NUMERIC}
            equations = replace(
                read_state_and_formulas(table, e.source, scope, e.definitions),
                table=e.table,
                reversing_symmetries=e.reversing_symmetries,
                periods=e.periods,
                open=tuple(scope.values[name] for name in names),  # type: ignore[misc]
            )
        else:
            flow = self.flow.with_open([name for name in names if name != ENERGY])
            own, energy = flow.equations, self.definitions.get(ENERGY)
            symbols = {symbol.name: symbol for symbol in own.open}
            level: Value | None = None
            if ENERGY in names:
                level = symbols[ENERGY] = own.algebra.symbol(ENERGY)
            elif energy is not None:
                level = constant(own, energy, f"{own.source}, [return_map] {ENERGY}")
            section = read_section(own, self.return_table, own.source, level)
            equations = replace(
                section_equations(section, like=e), open=tuple(symbols[name] for name in names)
            )
        plot = replace(self.plot, coordinates={})
        return replace(self, equations=equations, flow=flow, plot=plot, chart=None)


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
    texts: dict[str, Any] = {
        key: readable(
            table.get(key, ""), f"{source}, {key}", _LONGEST_TEXT, lines=key in _SEVERAL_LINES
        )
        for key in TEXTS
    }
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
    initial = table.get("initial_conditions")
    definition = Definition(
        **texts,
        equations=equations,
        parameters=parameters,
        definitions=equations.definitions,
        defaults=defaults,
        initial_table=initial,
    )
    return _checked(definition)


def _read_return_map(
    texts: dict[str, Any], table: Mapping[str, Any], given: Mapping[str, Any]
) -> Definition:
    """Take the flow for the flow, and the section for the system."""
    source, given, own = texts["source"], dict(given), table["return_map"]
    energy = own.get("energy")
    if ENERGY not in table.get("parameters", {}):
        energy = given.pop(ENERGY, energy)
    elif energy is not None:
        raise InputError(f"{source}, [parameters] {ENERGY}: this is that of the return map")
    rest = {key: entry for key, entry in table.items() if key != "return_map"}
    flow, value = _read(texts, rest, given), None
    parameters, definitions = dict(flow.parameters), dict(flow.definitions)
    if energy is not None:
        value = constant(flow.equations, energy, f"{source}, [return_map] energy")
        parameters[ENERGY] = float(value)  # type: ignore[arg-type]
        definitions[ENERGY] = energy
    section = read_section(flow.equations, own, source, value)
    volume = section.flow.hamiltonian is not None
    volume = volume or (section.stroboscopic and flow.divergence_free)
    equations = section_equations(section)
    return replace(
        flow,
        title=f"{flow.title}: return map",
        equations=equations,
        parameters=parameters,
        definitions=definitions,
        defaults={"step": 1.0, "steps": _RETURNS},
        initial_table=own.get("initial_conditions"),
        divergence_free=volume,
        is_canonical=section.is_canonical or (volume and len(equations.components) == 2),
        plot=Plot(),
        chart=None,
        flow=flow,
        return_table=own,
    )


def _checked(definition: Definition, states: np.ndarray | None = None) -> Definition:
    """Check the declared properties of the equations, and read what depends on them.

    ``states`` are those of the checks, by default random ones.
    """
    source, equations = definition.source, definition.equations
    trial = TrialStates(equations, states)
    if equations.stages or equations.vector_field:
        divergence_free, is_canonical = check_claims(trial, source)
    else:
        divergence_free, is_canonical = check_declared(equations, source)
    chart = None
    if "chart" in equations.table:
        there = read_chart(trial, source)
        own = f"{source}, [chart]"
        inside = replace(definition, source=own, equations=there.equations, initial_table=None)
        chart = there, _checked(inside, there.states)
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
    except RecursionError:
        raise InputError(f"{source}: the equations are nested too deeply") from None
    except TooLong as error:
        raise InputError(f"{source}: the equations write out to {error}") from None
    except ArithmeticError:
        raise InputError(
            f"{source}: the derivatives of the equations have a constant that is too large, or no "
            "real number"
        ) from None


def _read_defaults(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    defaults, where = table.get("defaults", {}), f"{source}, [defaults]"
    check_table(defaults, _DEFAULTS, where)
    for key, value in defaults.items():
        if not 0 < value <= _LARGEST_DEFAULT:
            raise InputError(f"{where} {key}: expected a positive number, found {value!r}")
    return {key: value if key == "steps" else float(value) for key, value in defaults.items()}
