"""Search for a model among the proposals: one loop, and the choice between its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vpintegrator.arguments import grouped, of_kind, positive
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.runtime.deadline import BEYOND, TimeIsUp, until
from vpintegrator.training.history import Show
from vpintegrator.training.residuals import Objective
from vpintegrator.training.search.cheapest import compare_costs
from vpintegrator.training.search.options import (
    Arguments,
    Budget,
    Execution,
    Make,
    Method,
    SearchOptions,
    Tell,
)
from vpintegrator.training.search.proposals import (
    EXACT,
    GOOD,
    PROPOSALS,
    CouplingProposal,
    FewPairsProposal,
    LinearProposal,
    Proposal,
    SearchTask,
)
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.training_data import TrainingData

_ROUNDING = 1e-14  # error that is as good as any
_IMPROVED = 0.9  # times the error of a linear map, below which another map is better
_CHEAPER = 10.0  # times the error of an implicit map, at which explicit ones are preferred


@grouped(method=Method, objective=Objective, execution=Execution)
def find_model(
    solved: Make | None,
    trained: Make,
    dataset: Dataset,
    budget: Budget,
    *,
    composed: Make | None = None,
    sizes: Arguments | None = None,
    fastest: float | None = None,
    method: Method,
    objective: Objective,
    execution: Execution,
    tell: Tell = lambda line: None,
    progress: Show | bool | None = None,
) -> SearchResult:
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
    method, optimizer, batch, learning_rate, seed, initial_scheme
        Arguments of :func:`vpintegrator.train`, for every training.
    objective, loss, horizon, noise
        Arguments of :func:`vpintegrator.train`, for every training.
    execution, device, compiled
        Arguments of :func:`vpintegrator.train`, for every training.
    progress
        Called with the history after each epoch.

    Returns
    -------
    SearchResult
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
    of_kind("dataset", dataset, Dataset, "a dataset, as vp.open_dataset gives it")
    of_kind("budget", budget, Budget, "a vp.training.Budget")
    if fastest is not None:
        budget = replace(budget, target=positive("fastest", fastest))
    shown = progress if callable(progress) else None
    options = SearchOptions(
        budget, method, objective, execution, sizes or {}, tell=tell, progress=shown
    )
    task = SearchTask(TrainingData(dataset), options, solved, composed, trained, fastest)
    return search(task)


def best_generating_function(
    make: Make,
    dataset: Dataset,
    budget: Budget | None = None,
    *,
    seed: int = 0,
    tell: Tell = lambda line: None,
    progress: Show | None = None,
) -> SearchResult:
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
    options = SearchOptions(budget or Budget(), Method(seed=seed), tell=tell, progress=progress)
    return search(SearchTask(TrainingData(dataset), options, solved=make))


def search(task: SearchTask, proposals: Sequence[Proposal] = PROPOSALS) -> SearchResult:
    """Return the best model of the proposals, or the cheapest below an error if one is asked for.

    Parameters
    ----------
    task
        Data, options and untrained models.
    proposals
        Kinds of models in the order in which they are tried.

    Raises
    ------
    InputError
        If no model can be trained.
    KeyboardInterrupt
        If it comes before any model was trained.
    """
    return _Search(task).run(proposals)


class _Search:
    """Results of the proposals so far, and the choice between them."""

    def __init__(self, task: SearchTask) -> None:
        self.task, self.options = task, task.options
        self.results: list[tuple[Proposal, SearchResult]] = []
        self.refusals: list[InputError] = []
        self.reasons: list[str] = []
        self.is_interrupted = False

    def _explain(self, choice: str, errors: str) -> None:
        """Say which model is taken, and by which errors; the summary has these already."""
        self.options.tell(f"{choice}: {errors}")
        self.reasons.append(choice)

    @property
    def found(self) -> list[SearchResult]:
        """Models that were trained."""
        return [found for _, found in self.results]

    def run(self, proposals: Sequence[Proposal]) -> SearchResult:
        """Try one proposal after the other, and choose."""
        for proposal in proposals:
            try:
                with until(self.options.end()):
                    if not self._is_wanted(proposal):
                        continue
                    self._try(proposal)
            except InputError as error:
                self.refusals.append(error)
                self.options.tell(f"no {proposal.words}: {error}")
            except KeyboardInterrupt as interruption:
                if not self.results:
                    raise self.options.nothing(interruption) from None
                self.is_interrupted = not isinstance(interruption, TimeIsUp)
            if self._is_over():
                break
        if not self.results:
            raise self.refusals[-1] if self.refusals else InputError("there is nothing to train")
        chosen = self._chosen() if self.task.fastest is None else self._cheapest()
        chosen.seconds = self.options.used
        tried = ", ".join(f"{kind.words} {found.error:.1e}" for kind, found in self.results)
        own = [chosen.summary] if chosen.summary else []
        chosen.summary = "; ".join([tried, *own, *self.reasons])
        return chosen

    def _try(self, proposal: Proposal) -> None:
        if not isinstance(proposal, CouplingProposal) and (self.results or self.refusals):
            self.options.tell(f"{proposal.words}:")
        elif self.results and self._known().error > GOOD:
            known = self._known()
            self.options.tell(
                f"couplings are trained for the rest of the budget: {known.noun} errs by "
                f"{known.error:.1e}"
            )
        found = replace(proposal.find(self.task, self.found), noun=proposal.noun)
        self.results.append((proposal, found))
        self.is_interrupted = found.ended == "interrupt"

    def _is_over(self) -> bool:
        """Whether nothing more is tried; each kind has the error that is asked for as a target."""
        if self.is_interrupted or not self.results:
            return self.is_interrupted
        kind, last = self.results[-1]
        if isinstance(kind, LinearProposal) and last.error <= EXACT:
            return True
        return bool(last.ended) and self.task.fastest is None

    def _is_wanted(self, proposal: Proposal) -> bool:
        """Whether a proposal can be made, and models so far leave something to gain."""
        late = bool(self.results) and self.options.is_late(proposal.latest)
        if late or not proposal.is_possible(self.task):
            return False
        if self.task.fastest is not None:
            met = [each for each in self.found if each.error <= self.task.fastest]
            return not proposal.is_needless(met)
        if not self.results:
            return True
        if isinstance(proposal, CouplingProposal):
            explicit = [found for kind, found in self.results if kind.explicit]
            return all(each.error > GOOD for each in explicit)
        least = min(each.error for each in self.found)
        return least > proposal.enough

    def _known(self) -> SearchResult:
        """Return the best of linear maps, generating functions and splittings."""
        chosen: SearchResult | None = None
        for explicit in (False, True):
            kinds = [
                found
                for kind, found in self.results
                if kind.explicit == explicit
                and not isinstance(kind, CouplingProposal | LinearProposal)
            ]
            if kinds:
                best = min(kinds, key=lambda each: each.compared)
                slack = 1.0 if self.task.data.is_few else _CHEAPER  # few data: the least error
                taken = chosen is None or _is_preferred(best, chosen, slack)
                chosen = best if taken else chosen
        linear = [found for kind, found in self.results if isinstance(kind, LinearProposal)]
        # a linear map has the structure of the pairs, but for their errors; others have it exactly
        return linear[0] if chosen is None else chosen

    def _chosen(self) -> SearchResult:
        """Return the best model; couplings to be trained on where no other is good."""
        tried = [line for each in self.found for line in each.tried]
        last, couplings = self.results[-1]
        if not isinstance(last, CouplingProposal):
            known = self._known()
            if len(self.results) > 1:
                verb = "are" if known.noun == FewPairsProposal.noun else "is"
                self._explain(f"{known.noun} {verb} taken", f"error {known.error:.1e}")
            chosen = replace(known, tried=tried, ended=self.found[-1].ended)
            return _interrupted(chosen) if self.is_interrupted else chosen
        if len(self.results) == 1:
            return couplings
        known = self._known()
        if known.error > GOOD and not self.is_interrupted:
            return replace(couplings, rival=known, tried=tried)
        chosen = couplings if _is_preferred(couplings, known) else known
        choice, errors = _reason(couplings, known)
        self._explain(choice, errors)
        chosen = replace(chosen, tried=[*tried, f"{choice}: {errors}"], ended="", complete=True)
        return _interrupted(chosen) if self.is_interrupted else chosen

    def _cheapest(self) -> SearchResult:
        """Return the model of the cheapest step below the error that is asked for."""
        target = self.task.fastest
        assert target is not None
        best = min(self.found, key=lambda each: each.error)
        try:
            pairs = [(each.model, each.error) for each in self.found]
            with until(self.options.end(BEYOND)):
                data = self.task.data
                cheapest = None if self.is_interrupted else compare_costs(pairs, data, target)
        except KeyboardInterrupt:
            cheapest = None
        if cheapest is None:
            return replace(_interrupted(best), complete=True)
        kind, last = self.results[-1]
        if best.error > target and isinstance(kind, CouplingProposal):  # these are trained on
            rival = min(self.found[:-1], key=lambda each: each.error, default=None)
            return replace(last, rival=rival, cheapest=cheapest)
        self.options.tell(cheapest.sentence)
        tried = [*(line for each in self.found for line in each.tried), cheapest.sentence]
        taken = self.found[cheapest.place]
        return replace(taken, tried=tried, cheapest=cheapest, complete=True, ended="")


def _is_preferred(explicit: SearchResult, other: SearchResult, slack: float = _CHEAPER) -> bool:
    """Whether an explicit map is taken instead of another, whose step may cost more."""
    if other.noun == LinearProposal.noun:  # which costs less
        return explicit.compared < _IMPROVED * other.error
    return explicit.compared <= max(_ROUNDING, slack * other.compared)


def _interrupted(found: SearchResult) -> SearchResult:
    return replace(found, history=replace(found.history, stopped_by="interrupt"), ended="interrupt")


def _reason(couplings: SearchResult, known: SearchResult) -> tuple[str, str]:
    """Return which model is taken and why, and the errors in words."""
    errors = f"couplings err by {couplings.error:.1e}, {known.noun} by {known.error:.1e}"
    if not _is_preferred(couplings, known):
        return f"{known.noun} is taken", errors
    dear = couplings.error <= _ROUNDING or known.noun == LinearProposal.noun
    cost = "" if dear else " and costs less"
    return f"couplings are taken, whose step is explicit{cost}", errors
