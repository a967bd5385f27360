"""Observation of generated states: components or functions of them, hidden parameters, noise.

    [observe]
    components = ["q1", "height = 1 - cos(q2)"]   # by default all components of the state
    hide = ["m1"]                                 # what varies, but is not told
    noise = 1e-3                                  # standard deviation, relative to the spread

The recipe's seed gives the noise. Of observed data nothing is known but the names, the periods of
angles, and the values of what varies and is told: no equations, and no structure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vpintegrator.arguments import not_negative
from vpintegrator.data.split import GROUPS
from vpintegrator.data.variation import STEP, Variation
from vpintegrator.dynamics import System
from vpintegrator.dynamics.equations import StateFunction
from vpintegrator.dynamics.expressions.parsing import check_name, parse
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.toml import check_keys, toml_text

_STREAM = 1  # random stream, apart from those of initial states and of what varies
_FEWEST_STEPS = 2  # a window of two states, and the next state


@dataclass(frozen=True)
class Observation:
    """Quantities that are observed of the states of a recipe.

    Attributes
    ----------
    components
        Names of components, functions of the state as ``"sin(q)"``, or these with a name, as
        ``"height = 1 - cos(q)"``. The name of an array is all of its components; q1 is another name
        of q[0]. Empty for all components of the state.
    hide
        The step or parameters that vary and are not told.
    noise
        Standard deviation of Gaussian noise, relative to that of each observed quantity over the
        training group.

    Examples
    --------
    >>> observation = vp.data.Observation(("q",), noise=1e-3)
    >>> dataset = vp.generate("pendulum", "q.h5", count=10, observe=observation, overwrite=True)
    >>> dataset.system.components, dataset.system.kind
    (('q',), 'measured')
    >>> dataset.complete_states("train").shape  # (trajectory, time, dim)
    (7, 11, 2)
    """

    components: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    noise: float = 0.0

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Observation:
        """Read the table ``[observe]`` of a recipe.

        Raises
        ------
        InputError
            If a key is unknown, or a value of another kind.
        """
        where = f"{where}, [observe]"
        check_keys(table, ("components", "hide", "noise"), where)
        texts: dict[str, tuple[str, ...]] = {}
        for key in ("components", "hide"):
            given = table.get(key, ())
            is_list = isinstance(given, list | tuple)
            if not is_list or not all(isinstance(text, str) and text.strip() for text in given):
                raise InputError(f"{where} {key}: expected a list of texts, as in {key} = ['q1']")
            texts[key] = tuple(text.strip() for text in given)
        return cls(**texts, noise=not_negative(f"{where} noise", table.get("noise", 0.0)))

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes an equal observation; empty where all is observed exactly."""
        entries = {"components": [*self.components], "hide": [*self.hide], "noise": self.noise}
        return {key: value for key, value in entries.items() if value}

    @property
    def words(self) -> str:
        """The observation in words: ``q1, q2; I1 hidden; noise 0.001 of the spread``."""
        parts = [
            ", ".join(self.components),
            f"{', '.join(self.hide)} hidden" if self.hide else "",
            f"noise {self.noise:g} of the spread" if self.noise else "",
        ]
        return "; ".join(filter(None, parts))

    def check(self, system: System, vary: Variation, steps: int, where: str) -> None:
        """Raise InputError where something else is named than there is, or orbits are too short."""
        where = f"{where}, [observe]"
        for name in self.hide:
            if name not in vary.ranges:
                known = name == STEP or name in system.parameters
                hint = f"; give it a range: --vary {name}=LOW:HIGH (vary=... in Python)"
                other = nearest(name, [STEP, *system.parameters]) or "; it is no parameter"
                raise InputError(
                    f"{where} hide: {printable(name)} does not vary{hint if known else other}"
                )
        self.quantities(system, where)
        if steps < _FEWEST_STEPS:
            raise InputError(
                f"{where}: observed states need trajectories of {_FEWEST_STEPS} steps or more, for "
                f"a window and what follows, not of {steps}"
            )

    def quantities(self, system: System, where: str = "[observe]") -> dict[str, str]:
        """Return the texts of the observed quantities by their names.

        Raises
        ------
        InputError
            If two have one name, or a name or an expression is not understood.
        """
        texts: dict[str, str] = {}
        plain = _plain_names(system)
        known = {name: other for other, name in plain.items()} | {n: n for n in plain}
        for text in self.components or system.components:
            array = [name for name in plain if re.fullmatch(rf"{re.escape(text)}\[\d+\]", name)]
            name, equals, formula = (part.strip() for part in text.partition("="))
            formula = formula if equals else text
            for each in array or [known.get(formula, formula)]:
                key = check_name(name, where) if equals else plain.get(each, f"y{len(texts) + 1}")
                if key in texts:
                    raise InputError(f"{where} components: {key} is there twice")
                texts[key] = each
                self._values(system, [each], f"{where} {key}")
        return texts

    def _values(self, system: System, texts: Sequence[str], where: str) -> StateFunction | None:
        """Return the function of states that gives expressions; None where all are components."""
        if all(text in system.components for text in texts):
            return None
        system.require_formulas("a function of the state that is observed")
        equations = system.equations
        names = _plain_names(system)
        symbols = dict(zip(names.values(), equations.symbols, strict=True))
        scope = replace(equations.scope, values=symbols | dict(equations.scope.values))
        return StateFunction(equations, [parse(text, scope, where) for text in texts])

    def system(self, system: System, vary: Variation) -> System:
        """Return the system of observed states: one of which no equations are known."""
        quantities = self.quantities(system)
        numbers = {name: k for k, name in enumerate(system.components)}
        periods = {
            name: repr(system.periods[numbers[text]])
            for name, text in quantities.items()
            if numbers.get(text) in system.periods
        }
        told = {n: system.parameters[n] for n in vary.parameters if n not in self.hide}
        entries = {"title": f"{system.title}, observed", "measured": True, "state": [*quantities]}
        text = toml_text(entries, {"parameters": told, "periodic": periods})
        return System(text, f"{system.name}-observed")

    def states(
        self, system: System, states: Mapping[str, np.ndarray], parameters: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Return observed states (trajectory, time, quantity) of each group, without noise.

        Parameters
        ----------
        system
            The system, with the parameters left open that vary.
        states, parameters
            Of each group, (trajectory, time, dim), and the values of these parameters,
            (trajectory, name), or None.

        Raises
        ------
        InputError
            If a function is not finite at a state.
        """
        quantities = self.quantities(system)
        observe = self.function(system)
        result = {}
        for group, full in states.items():
            result[group] = observe(full, parameters[group])
            if len(bad := np.argwhere(~np.isfinite(result[group]))):
                trajectory, time, k = bad[0]
                name, text = [*quantities.items()][k]
                raise InputError(
                    f"{name} = {text} is not finite at time {time} of trajectory {trajectory} of "
                    f"the {group} group; observe another function, or begin elsewhere"
                )
        return result

    def function(self, system: System) -> Callable[..., np.ndarray]:
        """Return the function of states (trajectory, ..., dim) that gives the observed quantities.

        Its second argument are values of open parameters, (trajectory, name), or None. Values that
        are not finite stay.
        """
        texts = [*self.quantities(system).values()]
        function = self._values(system, texts, "[observe]")
        numbers = [] if function else [system.components.index(text) for text in texts]

        def observe(states: np.ndarray, parameters: np.ndarray | None = None) -> np.ndarray:
            if function is None:
                return states[..., numbers]
            values: tuple[np.ndarray, ...] = ()
            if parameters is not None and parameters.shape[1]:
                shape = (len(parameters), *[1] * (states.ndim - 2), parameters.shape[1])
                values = (parameters.reshape(shape),)
            with np.errstate(all="ignore"):
                return np.asarray(function(states, *values), dtype=np.float64)

        return observe

    def noisy(self, states: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Return observed states of each group with noise."""
        generator = np.random.default_rng([seed, _STREAM])
        scale = self.noise * states["train"].std(axis=(0, 1))  # (quantity,)
        return {
            group: states[group] + scale * generator.normal(size=states[group].shape)
            for group in GROUPS
        }


def _plain_names(system: System) -> dict[str, str]:
    """Return names without brackets of the components, q1 for q[0]; where one is taken, q_0."""
    names: dict[str, str] = {}
    for name in system.components:
        match = re.fullmatch(r"(\w+)\[(\d+)\]", name)
        plain = f"{match[1]}{int(match[2]) + 1}" if match else name
        taken = plain in (*system.components, *names.values()) and plain != name
        names[name] = re.sub(r"\W+", "_", name).strip("_") if taken else plain
    return names


def split_list(text: str) -> list[str]:
    """Return the entries of a list with commas between them; those in brackets separate none.

    Examples
    --------
    >>> from vpintegrator.data.observation import split_list
    >>> split_list("q1, angle = atan2(x, y)")
    ['q1', 'angle = atan2(x, y)']
    """
    entries = [""]
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += letter
    return [entry.strip() for entry in entries]
