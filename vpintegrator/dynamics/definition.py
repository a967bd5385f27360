"""Definitions of systems: system files that are read, with their declared properties checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vpintegrator.dynamics.chart import ChartEquations, read_chart
from vpintegrator.dynamics.claims import Trial, check_claims, check_declared
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    Algebra,
    Number,
    Scope,
    TooLong,
    Value,
    parse,
    readable,
)
from vpintegrator.dynamics.plot import Plot, read_plot
from vpintegrator.dynamics.reading import (
    plain_values,
    read_equations,
    read_state_and_formulas,
    table_of,
)
from vpintegrator.dynamics.section import ENERGY, constant, read_section, section_equations
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import check_keys, read_toml

_LONGEST_TEXT = 20_000
_LARGEST_DEFAULT = 10**15
_LONGEST_NAME = 100
_RETURNS = 10  # steps of a trajectory of a return map, unless a recipe says otherwise
_DEFAULTS = {"step": float, "steps": int, "time": float}


@dataclass(frozen=True)
class Words:
    """Text of a system file and its entries for readers.

    Attributes
    ----------
    text, name, source
        The text, the short name of the system, and the source of the text for messages.
    title, subject, reference, description, function
        Entries of the file.
    """

    text: str
    name: str
    source: str
    title: str
    subject: str
    reference: str
    description: str
    function: str


@dataclass(frozen=True)
class Definition:
    """All that makes a :class:`System`: equations, their structure, and the words of the file.

    Reading a file makes one; charts, return maps, families and open parameters make others of it.

    Attributes
    ----------
    words
        Text of the file and its entries for readers.
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
    coordinates
        Formulas of the coordinates of pictures, by name.
    chart
        Equations of the chart and the definition of the system in it; None without a chart.
    flow, return_table
        Definition of the flow of a return map, and the table ``[return_map]``.
    """

    words: Words
    equations: Equations
    parameters: Mapping[str, Any]
    definitions: Mapping[str, Any]
    defaults: dict[str, Any]
    initial_table: Mapping[str, Any] | None = None
    divergence_free: bool = False
    is_canonical: bool = False
    plot: Plot = field(default_factory=Plot)
    coordinates: Mapping[str, Value] = field(default_factory=dict)
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
        _check_open(self, names)
        try:
            flow = None
            if self.flow is not None:
                flow = self.flow.with_open([name for name in names if name != ENERGY])
                energy = self.definitions.get(ENERGY)
                found = open_section(
                    self.equations, flow.equations, self.return_table, energy, names
                )
            else:
                found = open_equations(self.equations, names)
        except (TooLong, ArithmeticError, RecursionError):
            raise InputError(
                f"{_listed(self, names)} cannot vary: the equations are too long where they are no "
                "numbers"
            ) from None
        except InputError as error:  # as it was read with numbers, it is because they are none
            raise InputError(f"{_listed(self, names)} cannot vary: {error}") from None
        return replace(self, equations=found, flow=flow, coordinates={}, chart=None)


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
    given = plain_values(parameters or {}, source)
    table = read_toml(text, source)
    title = _string(table, "title", source) or (name or "untitled system")
    words = Words(
        text=text,
        name=_short_name(name or "-".join(title.lower().split())),
        source=source,
        title=title,
        subject=_string(table, "subject", source),
        reference=_string(table, "reference", source),
        description=_string(table, "description", source),
        function=_string(table, "function", source),
    )
    with within_reach(source):
        if "return_map" in table:
            return _read_return_map(words, table, given)
        return _read(words, table, given)


def _read(words: Words, table: Mapping[str, Any], given: Mapping[str, Any]) -> Definition:
    """Read a file without a return map."""
    defaults = _read_defaults(table, words.source)
    equations, parameters = read_equations(table, words.source, given)
    if equations.is_map:
        _check_map_defaults(defaults, words.source)
    definitions = dict(equations.definitions)
    initial = table.get("initial_conditions")
    return _checked(Definition(words, equations, parameters, definitions, defaults, initial))


def _read_return_map(
    words: Words, table: Mapping[str, Any], given: Mapping[str, Any]
) -> Definition:
    """Take the flow for the flow, and the section for the system."""
    source, given = words.source, dict(given)
    own = table_of(table, "return_map", source)
    energy = own.get("energy")
    if ENERGY not in table.get("parameters", {}):
        energy = given.pop(ENERGY, energy)
    elif energy is not None:
        raise InputError(f"{source}, [parameters] {ENERGY}: this is that of the return map")
    rest = {key: entry for key, entry in table.items() if key != "return_map"}
    flow, value = _read(words, rest, given), None
    parameters, definitions = dict(flow.parameters), dict(flow.definitions)
    if energy is not None:
        value = constant(flow.equations, energy, f"{source}, [return_map] energy")
        parameters[ENERGY] = float(value)  # type: ignore[arg-type]
        definitions[ENERGY] = energy
    section = read_section(flow.equations, own, source, value)
    equations = section_equations(section)
    volume = section.flow.hamiltonian is not None
    volume = volume or (section.stroboscopic and flow.divergence_free)
    return Definition(
        words=replace(words, title=f"{words.title}: return map"),
        equations=equations,
        parameters=parameters,
        definitions=definitions,
        defaults={"step": 1.0, "steps": _RETURNS},
        initial_table=own.get("initial_conditions"),
        divergence_free=volume,
        is_canonical=section.is_canonical or (volume and len(equations.components) == 2),
        flow=flow,
        return_table=own,
    )


def _checked(definition: Definition, points: np.ndarray | None = None) -> Definition:
    """Check the declared properties of the equations, and read what depends on them.

    ``points`` are those of the checks, by default random points.
    """
    source, equations = definition.words.source, definition.equations
    trial = Trial(equations, points)
    if equations.stages or equations.vector_field:
        divergence_free, is_canonical = check_claims(trial, source)
    else:
        divergence_free, is_canonical = check_declared(equations, source)
    table = equations.table
    plot = read_plot(equations, source) if "plot" in table else Plot()
    chart = read_chart(trial, source) if "chart" in table else None
    return replace(
        definition,
        divergence_free=divergence_free,
        is_canonical=is_canonical,
        plot=plot,
        coordinates=plot.coordinates,
        chart=None if chart is None else (chart, _in_chart(definition, chart)),
    )


def _in_chart(definition: Definition, chart: ChartEquations) -> Definition:
    """Return the system in the coordinates of its chart."""
    words = replace(definition.words, source=f"{definition.words.source}, [chart]")
    there = replace(definition, words=words, equations=chart.equations, initial_table=None)
    return _checked(there, chart.points)


def _check_open(definition: Definition, names: Sequence[str]) -> None:
    """Raise InputError where parameters cannot be left open."""
    known, system = definition.parameters, definition.words.name
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none"
            raise InputError(
                f"{system} has no parameter '{name}' that could vary"
                f"{nearest(name, known) or f' (it has: {there})'}"
            )
        if isinstance(known[name], list):
            raise InputError(
                f"{name} of {system} is a list of numbers; only parameters that are single numbers "
                "can vary"
            )
    if len(set(names)) < len(names):
        raise InputError(f"{_listed(definition, names)} are named twice")


def _listed(definition: Definition, names: Sequence[str]) -> str:
    plural = "parameters" if len(names) > 1 else "parameter"
    return f"the {plural} {', '.join(names)} of {definition.words.name}"


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


def _string(table: Mapping[str, Any], key: str, source: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{source}, {key}: expected text in quotes, found {value!r}")
    several = key in ("description", "reference")
    return readable(value, f"{source}, {key}", _LONGEST_TEXT, lines=several)


def _short_name(name: str) -> str:
    """Return a name that can be part of a file's name, and leads to no other folder."""
    return re.sub(r"[\x00-\x1f\x7f/\\:]+", "-", name).strip("-. ")[:_LONGEST_NAME] or "system"


def _read_defaults(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    defaults = table_of(table, "defaults", source)
    check_keys(defaults, _DEFAULTS, f"{source}, [defaults]")
    result = {}
    for key, value in defaults.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = isinstance(value, int) or _DEFAULTS[key] is float
        if not number or not whole or not 0 < value <= _LARGEST_DEFAULT:
            raise InputError(
                f"{source}, [defaults] {key}: expected a positive "
                f"{'whole number' if _DEFAULTS[key] is int else 'number'}, found {value!r}"
            )
        result[key] = _DEFAULTS[key](value)
    return result


def _check_map_defaults(defaults: dict[str, Any], source: str) -> None:
    """A step of a map is one iteration."""
    if defaults.setdefault("step", 1.0) != 1:
        raise InputError(
            f"{source}, [defaults] step: a step of a map is one iteration; leave it out (the key "
            "'iterations' says how many times its stages are applied in one)"
        )


_NUMERIC = ("reversing_symmetry", "periodic")  # tables of numbers only


def open_equations(equations: Equations, names: Sequence[str]) -> Equations:
    """Return the equations with some parameters left open.

    Parameters that the file computes from those follow them, as in ``I3 = "2/3*I1"``. Symmetries
    and periods stay those of the given equations.

    Parameters
    ----------
    equations
        Equations with numbers for all parameters, not of a return map.
    names
        Names of the parameters in the order of the symbols ``open``.
    """
    algebra = Algebra()
    symbols = {name: algebra.symbol(name) for name in names}
    values: dict[str, Value | tuple[Value, ...]] = {}
    integers: dict[str, int] = {}
    scope = Scope(values, integers, algebra)
    for name, text in equations.definitions.items():
        where = f"{equations.source}, [parameters] {name}"
        if isinstance(text, Sequence) and not isinstance(text, str):
            values[name] = tuple(parse(entry, scope, where) for entry in text)
            continue
        value = values[name] = symbols[name] if name in symbols else parse(text, scope, where)
        if isinstance(value, int):
            integers[name] = value
    return replace(
        _read_again(equations, scope, _NUMERIC),
        table=equations.table,
        reversing_symmetries=equations.reversing_symmetries,
        periods=equations.periods,
        open=tuple(symbols.values()),
    )


def open_section(
    equations: Equations,
    flow: Equations,
    table: Mapping[str, Any],
    energy: Any,
    names: Sequence[str],
) -> Equations:
    """Return the equations of a return map with some parameters left open, maybe the energy.

    Parameters
    ----------
    equations
        Equations of the return map with numbers for all parameters.
    flow
        Equations of the flow, with the parameters but the energy left open.
    table
        The table ``[return_map]``.
    energy
        The energy as written; None where there is none.
    names
        Names of the parameters in the order of the symbols ``open``.
    """
    symbols = {symbol.name: symbol for symbol in flow.open}
    level: Value | None = None
    if ENERGY in names:
        level = symbols[ENERGY] = flow.algebra.symbol(ENERGY)
    elif energy is not None:
        level = constant(flow, energy, f"{flow.source}, [return_map] {ENERGY}")
    found = section_equations(read_section(flow, table, flow.source, level), like=equations)
    return replace(found, open=tuple(symbols[name] for name in names))


def _read_again(equations: Equations, scope: Scope, without: Sequence[str]) -> Equations:
    table = {key: entry for key, entry in equations.table.items() if key not in without}
    return read_state_and_formulas(table, equations.source, scope, equations.definitions)
