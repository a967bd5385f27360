"""The model that vp-train takes by default: a generating function, or couplings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.training.degree_selection import find_generating_function
from vpintegrator.training.history import Budget, NothingLearned
from vpintegrator.training.search import Found, find_functions
from vpintegrator.training.training_data import TrainingData

COEFFICIENTS = 1_500  # of a generating function: some ten seconds
EPOCHS = 200  # of couplings beside a solved generating function: some ten seconds
_EXACT = 1e-12  # error of couplings that nobody needs to improve
_CHEAPER = 10.0  # times the error of a generating function, at which couplings are preferred
GOOD = 1e-8  # error beyond which the search for couplings gets the rest of the budget

Make = Callable[[dict[str, Any]], Integrator]


def find_model(
    solved: Make,
    trained: Make,
    dataset: Dataset,
    budget: Budget,
    *,
    sizes: dict[str, Any] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Found:
    """A generating function by linear solves, or couplings where these are as good.

    Couplings are explicit, so that their step costs less. They get a fixed number of epochs beside
    a generating function. They are taken if their error is below 1e-12, or at most ten times that
    of the generating function. Where neither is below 1e-8, couplings get the rest of the budget.

    Parameters
    ----------
    solved, trained
        The untrained generating function of a ``degree``, and the untrained couplings of
        ``functions``, ``degree`` and ``depth``.
    dataset, budget
        To train on, and limits for all of it.
    sizes
        ``degree`` or ``depth`` of couplings where they are given.
    tell
        Called with a line about each model that was tried, and one about the choice.
    options
        Of :func:`vpintegrator.training.find_functions`.

    Returns
    -------
    Found
        ``complete`` where nothing is left to train. Else couplings to be trained on, whose
        ``rival`` is the generating function: the better of the two is to be kept in the end.

    Raises
    ------
    InputError
        If no model can be trained.

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
    progress, seed = options.get("progress"), options.get("seed", 0)
    start = time.perf_counter()
    data, closed = TrainingData(dataset), None
    for variables in ({}, {"functions": "system"}):
        if closed is not None and (closed.error <= _EXACT or closed.ended):
            break
        try:
            found = find_generating_function(
                _with(solved, variables),
                data,
                replace(budget, epochs=None),
                most=COEFFICIENTS,
                seed=seed,
                tell=tell,
                progress=progress if callable(progress) else None,
            )
        except InputError as error:
            if not variables:
                tell(f"no generating function: {error}")
                return find_functions(trained, dataset, budget, sizes=sizes, tell=tell, **options)
            continue
        closed = found if closed is None or found.error < closed.error else closed
    assert closed is not None
    if closed.ended:
        return closed
    closed.seconds = time.perf_counter() - start
    left = closed.left(budget)
    if closed.error > GOOD:
        tell(
            "couplings are trained for the rest of the budget: the generating function errs by "
            f"{closed.error:.1e}"
        )
        try:
            return replace(
                find_functions(trained, dataset, left, sizes=sizes, tell=tell, **options),
                rival=closed,
            )
        except NothingLearned:
            return closed
    few = Budget(epochs=min(EPOCHS, left.epochs or EPOCHS), target=left.target)
    try:
        couplings = find_functions(trained, dataset, few, sizes=sizes, tell=tell, **options)
    except InputError as error:
        tell(f"the generating function is taken: {error}")
        return closed
    chosen, reason = _chosen(closed, couplings)
    tell(reason)
    return replace(
        chosen, tried=[*closed.tried, *couplings.tried, reason], complete=True, rival=None
    )


def _with(make: Make, more: dict[str, Any]) -> Make:
    return lambda arguments: make(more | arguments)


def _chosen(closed: Found, couplings: Found) -> tuple[Found, str]:
    """One of the two, and why, in a sentence."""
    errors = f"{couplings.error:.1e} beside {closed.error:.1e} of the generating function"
    if couplings.error <= _EXACT:
        return couplings, f"couplings are taken, whose step is explicit: they err by {errors}"
    if couplings.error <= _CHEAPER * closed.error:
        return couplings, (
            f"couplings are taken, whose step is explicit and costs less: they err by {errors}"
        )
    return closed, f"the generating function is taken: couplings err by {errors}"
