"""Additive Hamiltonians, whose parts are found in data."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vpintegrator.data.pairs import Pair
from vpintegrator.models import Model
from vpintegrator.models.additive import (
    Parts,
    combinations_of_two,
    components_alone,
    oscillators,
    spread_directions,
)
from vpintegrator.training.additive import (
    Halves,
    contributions,
    equal_parts,
    error_of,
    fit_additive,
)
from vpintegrator.training.kinds.kind import ModelKind, count, forms, least
from vpintegrator.training.linear import LinearFit
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData

VARIABLES = ("logarithm", "square", "distance", "reciprocal")


@dataclass(frozen=True)
class AdditiveHamiltonians(ModelKind):
    """Sums of functions of components, of differences of two, and of distances of bodies.

    Where these err, parts are of positions and momenta together, or a field turns velocities in the
    plane.

    A low degree is fitted with all parts that may occur. Parts that the held-out pairs do not miss
    are left out, the weakest half first, which leaves the graph of the interactions. Then the
    degree rises as long as the error falls. Parts with the same function get one.

    Attributes
    ----------
    degree
        Functions of each slope while parts are searched for.
    degrees
        Those of the functions that follow.
    rows, final_rows
        Equations for each coefficient while parts are searched for, and of the fits that follow.
    alike, settled
        Ratio of errors up to which the Hamiltonian of fewer parts is kept, and an error below which
        it is kept in any case: further parts make up for the error of the splitting method.
    better
        Ratio of errors from which on one of more parts, or of a higher degree, is kept.
    failures
        Parts in a row that are not left out, after which the rest stays.
    hopeless
        Error of the low degree, relative to the least one of other maps, at which the search ends.
        Higher degrees gain much more where the Hamiltonian has such parts; where they still err
        more than other maps the search ends, too.
    tolerances
        Relative differences up to which two functions may be the same, which the error decides.
    directions
        Of few positions, by their number: directions along which functions are summed, of which all
        polynomials of these positions up to a degree are sums.
    coefficients
        Most coefficients of a fit.
    """

    degree: int = 4
    degrees: tuple[int, ...] = (5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24)
    rows: float = 8.0
    final_rows: float = 100.0
    alike: float = 1.1
    settled: float = TOLERANCES.good
    better: float = 0.7
    failures: int = 3
    hopeless: float = 15.0
    tolerances: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
    directions: Mapping[int, int] = field(default_factory=lambda: {2: 12, 3: 36, 4: 56})
    coefficients: int = 2_000
    name: ClassVar[str] = "additive Hamiltonians"
    canonical: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these states have no such Hamiltonian, or None."""
        dim = data.dataset.dim
        system = data.system
        if not {"symplectic", *["volume"] * (dim == 2)} & {*forms(data)}:
            return "the states are no positions and momenta of a symplectic map"
        if data.dataset.is_family or system.explicit_time is not None:
            return "the Hamiltonian depends on parameters, or on the time"
        if system.periods:
            return "angles are not differences of positions"
        if (dim // 2) * (dim // 2 + 1) // 2 * self.degree > self.coefficients:
            return f"{dim} components have too many differences"
        return super().admits(data) or self.refusal(data, "additive")

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no map is as good as data of usual tolerances."""
        return least(fits) > TOLERANCES.exact

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Find the parts, then raise the degree, then share functions and divide the step."""
        rival = min((fit.error for fit in fits), default=math.inf)
        search = _Search(self, data, train, rival)
        best = search.dictionary()
        if best.error > self.hopeless * rival:
            return
        search.recorded(best)  # what is left where the time ends here
        if len(best.arguments.get("kinetic", ())) > search.half:
            best = search.reduced(best, "kinetic")
        best = search.coupled(best, search.reduced(best, "parts"))
        if best.arguments.get("turning"):
            best = search.reduced(best, "turning")
        search.rows = self.final_rows
        best = search.recorded(search.fit(best.arguments))
        ways = (search.higher, search.thinned, search.shared, search.higher, search.divided)
        for way in (*ways, search.thinned, search.completed, search.higher, search.spread):
            if best.error <= max(TOLERANCES.exact / 100, train.budget.target):
                return
            best = way(best)
            if best.error > rival:
                return


@dataclass(frozen=True)
class _Candidate:
    """A fitted model, what it was built with, and its error at pairs that are left out."""

    model: Model
    arguments: dict[str, Any]
    error: float
    seconds: float

    @property
    def parts(self) -> Parts:
        return list(self.arguments["parts"])

    @property
    def is_joint(self) -> bool:
        """Whether parts are of positions and momenta together."""
        return bool(self.arguments.get("joint"))

    @property
    def is_special(self) -> bool:
        """Whether the map is another than that of a kinetic and a potential energy."""
        return self.is_joint or bool(self.arguments.get("turning"))

    @property
    def words(self) -> str:
        """Size in words."""
        of_positions = [len(part) for part in self.parts]
        distances = sum(n > 1 for n in of_positions)
        parts = f"{len(of_positions) - distances} parts" if distances < len(of_positions) else ""
        bodies = f"{distances} distances" if distances else ""
        functions = len({*self.arguments.get("equal", ())})
        turning = len(self.arguments.get("turning", ()))
        words = [
            " and ".join(filter(None, (parts, bodies))),
            f"{turning} of the field" if turning else "",
            f"{functions} functions" if functions else "",
            f"degree {self.arguments['degree']}",
            f"{self.arguments['substeps']} substeps" if "substeps" in self.arguments else "",
            f"{count(self.model)} coefficients",
        ]
        return ", ".join(filter(None, words))


def _with_parts(arguments: dict[str, Any], name: str, kept: Sequence[int]) -> dict[str, Any]:
    """Return arguments with some of the parts, and the numbers of their functions."""
    result = {**arguments, name: [arguments[name][i] for i in kept]}
    key = "equal" if name == "parts" else "equal_kinetic"
    if numbers := arguments.get(key):
        single = [len(part) == 1 for part in arguments[name]]
        known: dict[tuple[bool, int], int] = {}
        for i in kept:
            count_before = sum(kind == single[i] for kind, _ in known)
            known.setdefault((single[i], numbers[i]), count_before)
        result[key] = [known[single[i], numbers[i]] for i in kept]
    return result


class _Search:
    """Candidates by their errors at pairs that are left out.

    Attributes
    ----------
    rival
        Least error of other maps.
    rows
        Equations for each coefficient.
    """

    def __init__(
        self, kind: AdditiveHamiltonians, data: TrainingData, train: Trainer, rival: float
    ) -> None:
        self.kind = kind
        self.rival = rival
        self.data = data
        self.train = train
        self.rows = kind.rows
        self.half = data.dataset.dim // 2
        self.halves = Halves.of(self._build({}), data)

    def _build(self, arguments: dict[str, Any]) -> Model:
        model = self.kind.build(self.data, "additive", self.train.seed, arguments)
        self.data.normalise(model)
        return model

    def fit(self, arguments: dict[str, Any]) -> _Candidate:
        """Fit a Hamiltonian to pairs, as many as its coefficients need."""
        start = time.perf_counter()
        model = self._build(arguments)
        enough = self.rows * count(model) / self.half
        pairs = self.halves.fitted
        some = slice(max(int(enough), 100))
        fit_additive(model, Pair(pairs.inputs[some], pairs.targets[some]))
        error = error_of(model, self.halves.judged)
        return _Candidate(model, arguments, error, time.perf_counter() - start)

    def recorded(self, candidate: _Candidate) -> _Candidate:
        """Return a candidate; the trainer has noted it if it errs less than other maps."""
        if candidate.error > self.rival:
            return candidate
        size = count(candidate.model)
        pairs = len(self.halves.fitted.inputs)
        error = candidate.error
        result = LinearFit(size, size, pairs, error, error, 0.0, 0.0)
        start = time.perf_counter() - candidate.seconds
        self.train.solved(candidate.model, candidate.words, result, start)
        return candidate

    # all parts that may occur

    def dictionary(self) -> _Candidate:
        """Return the best fit of all parts of a family, at a low degree.

        Differences of momenta are tried, too, where it errs more than other maps.
        """
        n = self.half
        alone = components_alone(n)
        pairs = [*alone, *combinations_of_two(n)]
        families: list[dict[str, Any]] = [{"parts": [*pairs, *combinations_of_two(n, 1.0)]}]
        if number := self.kind.directions.get(n):
            families.append({"parts": spread_directions(n, number)})
        families += [
            {"parts": parts, "variable": variable}
            for parts in self._clouds()
            for variable in ("logarithm", "square")
        ]
        best = self.fit({"parts": pairs, "kinetic": alone, "degree": self.kind.degree})
        for family in families:
            arguments = {**best.arguments, **family}
            if best.error <= self.kind.settled or not self._is_small(arguments["parts"]):
                continue
            other = self.fit(arguments)
            if other.error < best.error / 3:
                best = other
        if best.error > self.rival and n > 1:
            other = self.fit(best.arguments | {"parts": pairs, "kinetic": pairs})
            best = other if other.error < best.error / 3 else best
        enough = max(self.rival / 10, self.kind.settled)
        if best.error <= enough:  # other parts are of no use
            return best
        # special maps have more functions: energies get as many before they are compared
        least = min(best.error, self.fit(best.arguments | {"degree": 2 * self.kind.degree}).error)
        for arguments in (*self._joint(), *self._turned()):
            if least > enough and self._is_small(arguments["parts"]):
                other = self.fit(arguments)
                if other.error < least / 3:
                    best = other
                    least = other.error
        return best

    def _joint(self) -> Iterator[dict[str, Any]]:
        """Yield arguments of Hamiltonians whose parts are of positions and momenta together."""
        n = self.half
        moved = [[[[n + i, factor] for i, factor in part[0]]] for part in combinations_of_two(n)]
        single = [*components_alone(2 * n), *combinations_of_two(n), *moved]
        for variable in ("logarithm", "square"):
            joint = {"joint": True, "degree": self.kind.degree, "variable": variable}
            yield {**joint, "parts": [*single, *oscillators(n)]}

    def _turned(self) -> Iterator[dict[str, Any]]:
        """Yield arguments of motion in the plane with a field that turns velocities."""
        if self.half != 2:
            return
        alone = components_alone(2)
        lines = [*alone, *combinations_of_two(2), *combinations_of_two(2, 1.0)]
        both = [[[0, 1.0]], [[1, 1.0]]]
        spread = spread_directions(2, self.kind.directions[2])
        variables = [([*lines, both], "logarithm"), ([*lines, both], "square"), (spread, "square")]
        for parts, variable in variables:
            yield {
                "parts": parts,
                "turning": parts,
                "kinetic": alone,
                "degree": 2 * self.kind.degree,
                "variable": variable,
            }

    def _is_small(self, parts: Parts, degree: int | None = None) -> bool:
        return len(parts) * (degree or self.kind.degree) <= self.kind.coefficients

    def _clouds(self) -> Iterator[Parts]:
        """Yield components and distances of bodies in the plane and in space.

        The coordinates of a body follow one another, or first those of all bodies along an axis.
        """
        n = self.half
        for axes in (2, 3):
            bodies = n // axes
            if n % axes or not bodies:
                continue
            places = [
                [[axes * body + k for k in range(axes)] for body in range(bodies)],
                [[body + bodies * k for k in range(axes)] for body in range(bodies)],
            ]
            for bodies_by_place in places if bodies > 1 else places[:1]:
                alone = [[[[i, 1.0]] for i in body] for body in bodies_by_place]
                between = [
                    [[[i, -1.0], [j, 1.0]] for i, j in zip(first, second, strict=True)]
                    for place, first in enumerate(bodies_by_place)
                    for second in bodies_by_place[place + 1 :]
                ]
                yield [*components_alone(n), *alone, *between]

    # fewer parts

    def reduced(self, best: _Candidate, name: str) -> _Candidate:
        """Leave out parts that the error does not need, the weakest first."""
        least = best.error
        share = 0.5
        failures = 0
        needed: list[Any] = []  # parts without which the error rises
        while len(parts := best.arguments[name]) > 1 and failures < self.kind.failures:
            sizes = contributions(best.model, self.halves.judged)[name]
            order = [i for i in sizes.argsort().tolist() if parts[i] not in needed]
            left_out = order[: max(int(share * len(order)), 1)]
            if not left_out:
                break
            kept = [i for i in range(len(parts)) if i not in left_out] or order[-1:]
            trial = self.fit(_with_parts(best.arguments, name, kept))
            if trial.error <= max(self.kind.alike * least, self.kind.settled):
                best = trial
                least = min(least, trial.error)
                failures = 0
            elif len(left_out) == 1:
                needed.append(parts[left_out[0]])
                failures += 1
            else:
                share = len(left_out) / 2 / len(order)
        return best

    def coupled(self, whole: _Candidate, best: _Candidate) -> _Candidate:
        """Try differences of momenta, with all parts of positions, and leave out as many."""
        n = self.half
        if best.is_special or best.error <= self.kind.settled or n < 2:
            return best
        if len(best.arguments["kinetic"]) > n:
            return best
        pairs = [*components_alone(n), *combinations_of_two(n)]
        trial = self.fit(whole.arguments | {"kinetic": pairs})
        if trial.error > min(whole.error, best.error) / 3:
            return best
        return self.reduced(self.reduced(trial, "kinetic"), "parts")

    # better functions

    def higher(self, best: _Candidate) -> _Candidate:
        """Raise the degrees as long as the error falls."""
        if any(len(part) > 1 for part in best.parts):
            middle = self.kind.degrees[len(self.kind.degrees) // 3]
            trials = [
                self.fit(best.arguments | {"degree": middle, "variable": variable})
                for variable in VARIABLES
            ]
            first = min(trials, key=lambda each: each.error)
            best = first if first.error < best.error else best
        for name in ("degree",) if best.is_joint else ("degree", "kinetic_degree", "degree"):
            best = self._raised(best, name)
        return best

    def _raised(self, best: _Candidate, name: str, patience: int = 2) -> _Candidate:
        stalled = 0
        for degree in self.kind.degrees:
            small = self._is_small(best.parts, degree)
            if degree <= best.arguments.get(name, 2) or not small:
                continue
            trial = self.fit(best.arguments | {name: degree})
            stalled = 0 if trial.error < self.kind.better * best.error else stalled + 1
            if trial.error < self.kind.better * best.error:
                best = self.recorded(trial)
            if stalled >= patience or best.error <= max(TOLERANCES.exact, self.train.budget.target):
                break
        return best

    def completed(self, best: _Candidate) -> _Candidate:
        """Try once more the parts that were left out at a low degree."""
        if best.is_special:
            return best
        n = self.half
        known = best.parts
        left_out = [*components_alone(n), *combinations_of_two(n)]
        places = [{i for i, _ in part[0]} for part in known if len(part) == 1]
        further = [part for part in left_out if {i for i, _ in part[0]} not in places]
        parts = [*known, *further]
        if not further or not self._is_small(parts, best.arguments["degree"]):
            return best
        arguments = {**best.arguments, "parts": parts}
        if numbers := best.arguments.get("equal"):
            arguments["equal"] = [*numbers, *range(max(numbers) + 1, len(parts))]
        trial = self.fit(arguments)
        if trial.error > best.error / 2:
            return best
        return self.recorded(self.reduced(trial, "parts"))

    def thinned(self, best: _Candidate) -> _Candidate:
        """Leave out parts that better functions do not need."""
        trial = self.reduced(best, "parts")
        return best if trial is best else self.recorded(trial)

    def spread(self, best: _Candidate) -> _Candidate:
        """Try functions along many directions of few positions: polynomials in all of them."""
        number = self.kind.directions.get(self.half, 0)
        if not number or best.is_special or best.error <= self.kind.settled:
            return best
        kept = {key: best.arguments[key] for key in ("kinetic", "degree")}
        if "kinetic_degree" in best.arguments:
            kept["kinetic_degree"] = best.arguments["kinetic_degree"]
        parts = spread_directions(self.half, number)
        trial = self._raised(self.fit(kept | {"parts": parts}), "degree", 3)
        return trial if trial.error < best.error else best

    def shared(self, best: _Candidate) -> _Candidate:
        """Give parts with the same function one, if the error does not rise."""
        sides = {"parts": "equal"} | ({} if best.is_joint else {"kinetic": "equal_kinetic"})
        for name, numbers in sides.items():
            seen: list[Any] = []
            for tolerance in self.kind.tolerances:
                groups = equal_parts(best.model, self.halves.judged, name, tolerance)
                if groups.numbers in seen or groups.functions == len(groups.numbers):
                    continue
                seen.append(groups.numbers)
                parts = groups.turned(best.arguments[name])
                trial = self._of_range(best, {name: parts, numbers: groups.numbers})
                if trial.error <= max(self.kind.alike * best.error, self.kind.settled):
                    best = self.recorded(trial)
                    break
        return best

    def _of_range(self, best: _Candidate, change: dict[str, Any]) -> _Candidate:
        """Return the fit of shared functions; their ranges are larger, and so is the degree."""
        degree = best.arguments["degree"]
        higher = [each for each in self.kind.degrees if each > degree][:2]
        arguments = {**best.arguments, **change}
        trials = [self.fit(arguments | {"degree": each}) for each in (degree, *higher)]
        least = min(trial.error for trial in trials)
        return next(trial for trial in trials if trial.error <= self.kind.alike * least)

    def divided(self, best: _Candidate) -> _Candidate:
        """Divide the step as long as that halves the error."""
        substeps = 2
        while substeps <= 4:
            trial = self.fit(best.arguments | {"substeps": substeps})
            if trial.error > best.error / 2:
                break
            best = self.recorded(trial)
            substeps *= 2
        return best
