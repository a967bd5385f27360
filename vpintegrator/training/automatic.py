"""Default choice of a model by vp-train: generating functions, splittings, couplings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from vpintegrator.arguments import of_kind, positive
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models.untrained import is_made
from vpintegrator.training.cheapest import compare_costs
from vpintegrator.training.degree_selection import FIRST, find_generating_function
from vpintegrator.training.found import Found
from vpintegrator.training.history import Budget
from vpintegrator.training.making import Make, making
from vpintegrator.training.search import find_functions
from vpintegrator.training.stage_selection import find_splitting
from vpintegrator.training.training_data import TrainingData

COEFFICIENTS = 1_500  # coefficients of a generating function: some ten seconds
_FIRST = 500  # coefficients of polynomials if exact terms may replace them: one second
EPOCHS = 200  # epochs of couplings beside a solved generating function: some ten seconds
_EXACT = 1e-12  # error that exact terms and maps in a row need not improve
_ROUNDING = 1e-14  # error of couplings that is as good as any
_CHEAPER = 10.0  # times the error of an implicit map, at which explicit ones are preferred
# error beyond which the search for couplings gets the rest of the budget: the ABC flow's generating
# function errs by 1.8e-9 after 14 s, couplings by 3e-12 after 150
GOOD = 1e-9


class _Attempt(NamedTuple):
    """Functions that are tried where those before err by more than ``enough``."""

    words: str
    functions: dict[str, Any]
    sizes: dict[str, Any] | None
    enough: float


_EXACT_TERMS = {"functions": "hamiltonian"}
_LOWEST = {"degree": FIRST}
_ATTEMPTS = [
    _Attempt("with exact terms of the Hamiltonian:", _EXACT_TERMS, None, _EXACT),
    # halving the step divides the error of five exact terms by a hundred, at twice the cost
    *(
        _Attempt(f"{n} such maps in a row:", _EXACT_TERMS | {"repeats": n}, _LOWEST, _EXACT)
        for n in (2, 3, 4, 6)
    ),
    _Attempt("with functions of the system:", {"functions": "system"}, None, GOOD),
]


def find_model(
    solved: Make | None,
    trained: Make,
    dataset: Dataset,
    budget: Budget,
    *,
    composed: Make | None = None,
    sizes: dict[str, Any] | None = None,
    fastest: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Found:
    """Return a generating function by linear solves, a learned splitting, or couplings.

    Splittings are tried where polynomials err by more than 1e-12, exact terms of generating
    functions where a splitting does not suffice either. Splittings and couplings are explicit, so
    that their step costs less: they are taken if their error is below 1e-14, or at most ten times
    that of the generating function. Couplings are tried where no splitting
    errs by less than 1e-9: for a fixed number of epochs beside a generating function below that,
    else for the rest of the budget.

    Parameters
    ----------
    solved, trained
        The untrained generating function of a ``degree``, None to try none, and the untrained
        couplings of ``functions``, ``degree`` and ``depth``.
    dataset, budget
        Training dataset, and limits of the whole search.
    composed
        The untrained splitting of ``stages``, None to try none.
    sizes
        ``degree`` or ``depth`` of couplings where they are given.
    fastest
        Validation error below which the model of the cheapest step is taken. Each candidate is
        trained until its error is so small: polynomials, exact terms, maps in a row, splittings
        and couplings. Costs are those of machine code. The least error is kept where none is below.
        The result holds all candidates as ``cheapest``. This error replaces the target of the
        budget.
    tell
        Called with a line about each model that was tried, and one about the choice.
    options
        Options of :func:`vpintegrator.training.find_functions`.

    Returns
    -------
    Found
        ``complete`` where nothing is left to train, also after an interrupt. Else couplings to be
        trained on, whose ``rival`` is the generating function: the better of the two is to be kept
        in the end.

    Raises
    ------
    InputError
        If no model can be trained, or ``fastest`` is not positive.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> def solved(arguments):
    ...     return vp.models.build(dataset.system, "sgf", **arguments)
    >>> def trained(arguments):
    ...     return vp.models.build(dataset.system, "spff", **arguments)
    >>> budget = vp.training.Budget(seconds=20, target=1e-6)
    >>> vp.training.find_model(solved, trained, dataset, budget).error < 1e-6
    True
    """
    trained = making(trained)
    solved, composed = (None if make is None else making(make) for make in (solved, composed))
    of_kind("dataset", dataset, Dataset, "a dataset, as vp.open_dataset gives it")
    of_kind("budget", budget, Budget, "a vp.training.Budget")
    if composed is not None and not is_made(composed, {"stages": 1}):
        composed = None
    if fastest is not None:
        limits = replace(budget, target=positive("fastest", fastest))
        return _find_fastest(solved, composed, trained, dataset, limits, sizes, tell, options)
    start = time.perf_counter()
    known = _known_equations(solved, composed, dataset, budget, tell, options)
    if known is None:
        return find_functions(trained, dataset, budget, sizes=sizes, tell=tell, **options)
    known.seconds = time.perf_counter() - start
    good = known.error <= GOOD
    split = known if known.model.name == "split" else known.rival
    known = replace(known, rival=None)
    if known.ended or (split is not None and split.error <= GOOD):
        return known
    left = replace(known.left(budget), epochs=budget.epochs)  # its own are degrees
    if good:
        left = replace(left, epochs=min(EPOCHS, left.epochs or EPOCHS))
    else:
        tell(
            f"couplings are trained for the rest of the budget: {_words(known)} errs by "
            f"{known.error:.1e}"
        )
    try:
        couplings = find_functions(trained, dataset, left, sizes=sizes, tell=tell, **options)
    except KeyboardInterrupt:
        return _interrupted(known)
    except InputError as error:
        tell(f"{_words(known)} is taken: {error}")
        return known
    if not good and couplings.ended != "interrupt":
        return replace(couplings, rival=known)
    chosen, reason = _chosen(known, couplings)
    tell(reason)
    tried = [*known.tried, *couplings.tried, reason]
    chosen = replace(chosen, tried=tried, complete=True, rival=None)
    return _interrupted(chosen) if couplings.ended == "interrupt" else chosen


def _known_equations(
    solved: Make | None,
    composed: Make | None,
    dataset: Dataset,
    budget: Budget,
    tell: Callable[[str], None],
    options: dict[str, Any],
) -> Found | None:
    """Return the better of generating function and splitting, the other as rival, or None."""
    start, data = time.perf_counter(), TrainingData(dataset)
    seed, progress = options.get("seed", 0), options.get("progress")
    solver = None if solved is None else _Solver(solved, data, budget, seed, tell, progress)
    closed = split = None
    if solver is not None:
        try:
            closed = solver.first()
        except InputError as error:
            tell(f"no generating function: {error}")
    if closed is not None and closed.ended:
        return closed
    if composed is not None and (closed is None or closed.error > _EXACT):
        left = _rest(budget, time.perf_counter() - start)
        try:
            split = _splitting(composed, data, left, tell, options)
        except KeyboardInterrupt:
            if closed is None:
                raise
            return _interrupted(closed)
    if split is not None and split.ended:
        return split if closed is None or split.error < closed.error else _interrupted(closed)
    if closed is not None and solver is not None:
        closed = solver.further(closed, math.inf if split is None else split.error)
    if closed is None or split is None:
        return closed or split
    taken = split if split.error <= max(_ROUNDING, _CHEAPER * closed.error) else closed
    tell(
        f"{_words(taken)} is taken: the splitting errs by {split.error:.1e}, the generating "
        f"function by {closed.error:.1e}"
    )
    tried = [*closed.tried, *split.tried]
    return replace(taken, tried=tried, ended=closed.ended, rival=None if taken is split else split)


def _splitting(
    composed: Make,
    data: TrainingData,
    budget: Budget,
    tell: Callable[[str], None],
    options: dict[str, Any],
) -> Found | None:
    """Return the splitting of known equations, if one can be trained."""
    progress = options.get("progress")
    tell("exact flows of the parts of the equations:")
    try:
        return find_splitting(
            composed,
            data,
            replace(budget, epochs=None),
            seed=options.get("seed", 0),
            tell=tell,
            progress=progress if callable(progress) else None,
        )
    except InputError as error:
        tell(f"none: {error}")
        return None


def best_generating_function(
    make: Make,
    dataset: Dataset,
    budget: Budget | None = None,
    *,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    progress: Any = None,
) -> Found:
    """Return the best generating function: of polynomials, then of what is known of the equations.

    Exact terms of the Hamiltonian, then two to six equal maps in a row, are tried until the error
    is below 1e-12, and functions of the system where it stays above 1e-9.

    Parameters
    ----------
    make
        The untrained generating function of ``functions``, ``degree`` and ``repeats``.
    dataset, budget
        Training dataset, and limits of the whole search; no attempt begins after half of the
        seconds.
    seed, tell, progress
        Arguments of :func:`vpintegrator.training.find_generating_function`.

    Raises
    ------
    InputError
        If there is none of polynomials.
    """
    solver = _Solver(make, TrainingData(dataset), budget or Budget(), seed, tell, progress)
    return solver.further(solver.first())


class _Solver:
    """Solves for generating functions of several kinds within one budget."""

    def __init__(
        self,
        make: Make,
        data: TrainingData,
        budget: Budget,
        seed: int,
        tell: Callable[[str], None],
        progress: Any,
    ) -> None:
        self.make, self.data, self.budget = make, data, budget
        self.seed, self.tell = seed, tell
        self.progress = progress if callable(progress) else None
        self.start = time.perf_counter()

    @property
    def late(self) -> bool:
        """Whether half of the seconds are used."""
        seconds = self.budget.seconds
        return seconds is not None and time.perf_counter() - self.start > seconds / 2

    def __call__(
        self,
        functions: dict[str, Any],
        sizes: dict[str, Any] | None = None,
        most: int = COEFFICIENTS,
    ) -> Found:
        """Return the best degree."""
        used = time.perf_counter() - self.start
        return find_generating_function(
            _with(self.make, functions),
            self.data,
            replace(_rest(self.budget, used), epochs=None),  # its own are degrees
            sizes=sizes,
            most=most,
            seed=self.seed,
            tell=self.tell,
            progress=self.progress,
        )

    @cached_property
    def sizes(self) -> dict[str, Any] | None:
        """Degrees to try; for clusters of bodies only the lowest if exact terms are better."""
        if not (_can(self.make, {}) and _can(self.make, _EXACT_TERMS)):
            return None
        return _LOWEST if self.make(_LOWEST).bodies else None

    def first(self) -> Found:
        """Fit polynomials without further functions."""
        most = _FIRST if _can(self.make, _EXACT_TERMS) else COEFFICIENTS
        return self({}, self.sizes, most=most)

    def further(self, best: Found, reached: float = math.inf) -> Found:
        """Return the best model with functions of the equations, unless ``reached`` is better."""
        for attempt in _ATTEMPTS:
            if min(best.error, reached) <= attempt.enough or best.ended or self.late:
                continue
            if not _can(self.make, attempt.functions):
                continue
            self.tell(attempt.words)
            try:
                found = self._tried(attempt)
            except InputError as error:
                self.tell(f"none: {error}")
                continue
            except KeyboardInterrupt:
                return _interrupted(best)
            best = replace(found if found.error < best.error else best, ended=found.ended)
        return _interrupted(best) if best.ended == "interrupt" else best

    def _tried(self, attempt: _Attempt) -> Found:
        return self(attempt.functions, attempt.sizes or self.sizes)

    def below(self, target: float) -> list[Found]:
        """Return the smallest model of each kind with an error of at most ``target``."""
        found: list[Found] = []
        for attempt in (None, *_ATTEMPTS):
            if (found and found[-1].ended == "interrupt") or (found and self.late):
                break
            if attempt is not None and self._needless(attempt, found, target):
                continue
            try:
                self.tell("polynomials:" if attempt is None else attempt.words)
                one = self.first() if attempt is None else self._tried(attempt)
                found.append(one)
            except InputError as error:
                self.tell(f"none: {error}")
            except KeyboardInterrupt:
                if not found:
                    raise
                found[-1] = _interrupted(found[-1])
        return found

    def _needless(self, attempt: _Attempt, found: list[Found], target: float) -> bool:
        """Whether an attempt cannot be made, or a cheaper one of its kind was good enough."""
        met = [each.model.arguments for each in found if each.error <= target]
        if "repeats" in attempt.functions:
            good = any("hamiltonian" in each and each["degree"] == FIRST for each in met)
        else:
            good = attempt.functions != _EXACT_TERMS and bool(met)
        return good or not _can(self.make, attempt.functions)


def _find_fastest(
    solved: Make | None,
    composed: Make | None,
    trained: Make,
    dataset: Dataset,
    budget: Budget,
    sizes: dict[str, Any] | None,
    tell: Callable[[str], None],
    options: dict[str, Any],
) -> Found:
    """Return the model with the cheapest step among models below the target error."""
    assert budget.target is not None
    start, data, closed = time.perf_counter(), TrainingData(dataset), list[Found]()
    if solved is not None:
        seed, progress = options.get("seed", 0), options.get("progress")
        closed = _Solver(solved, data, budget, seed, tell, progress).below(budget.target)
    if composed is not None and not (closed and closed[-1].ended == "interrupt"):
        left = _rest(budget, time.perf_counter() - start)
        try:
            split = _splitting(composed, data, left, tell, options)
            closed += [] if split is None else [split]
        except KeyboardInterrupt:
            if not closed:
                raise
            closed[-1] = _interrupted(closed[-1])
    found = list(closed)
    if not closed or closed[-1].ended != "interrupt":
        left = _rest(budget, time.perf_counter() - start)
        try:
            found.append(find_functions(trained, dataset, left, sizes=sizes, tell=tell, **options))
        except InputError as error:
            if not closed:
                raise
            tell(f"no couplings: {error}")
        except KeyboardInterrupt:
            if not closed:
                raise
            found[-1] = _interrupted(found[-1])
    best, last = min(found, key=lambda each: each.error), found[-1]
    try:
        pairs = [(each.model, each.error) for each in found]
        cheapest = None if last.ended == "interrupt" else compare_costs(pairs, data, budget.target)
    except KeyboardInterrupt:
        cheapest = None
    if cheapest is None:
        return replace(_interrupted(best), complete=True)
    if best.error > budget.target and len(found) > len(closed):  # couplings are trained on
        rival = min(closed, key=lambda each: each.error, default=None)
        used = time.perf_counter() - start
        return replace(last, rival=rival, cheapest=cheapest, seconds=used)
    tell(cheapest.sentence)
    tried = [*(line for each in found for line in each.tried), cheapest.sentence]
    taken = found[cheapest.place]
    return replace(taken, tried=tried, cheapest=cheapest, complete=True, ended="")


def _can(make: Make, functions: dict[str, Any]) -> bool:
    """Whether there are such functions: whether what they are made of is known."""
    return is_made(make, _LOWEST | functions)  # a higher one may have too many terms


def _interrupted(found: Found) -> Found:
    return replace(found, history=replace(found.history, stopped_by="interrupt"), ended="interrupt")


def _rest(budget: Budget, used: float) -> Budget:
    return replace(budget, seconds=budget.seconds and max(budget.seconds - used, 0.1))


def _with(make: Make, more: dict[str, Any]) -> Make:
    return lambda arguments: make(more | arguments)


def _words(found: Found) -> str:
    return "the splitting" if found.model.name == "split" else "the generating function"


def _chosen(known: Found, couplings: Found) -> tuple[Found, str]:
    """Choose between two models; return the choice and its reason in a sentence."""
    errors = f"{couplings.error:.1e} beside {known.error:.1e} of {_words(known)}"
    if couplings.error <= _ROUNDING:
        return couplings, f"couplings are taken, whose step is explicit: they err by {errors}"
    if couplings.error <= _CHEAPER * known.error:
        return couplings, (
            f"couplings are taken, whose step is explicit and costs less: they err by {errors}"
        )
    return known, f"{_words(known)} is taken: couplings err by {errors}"
