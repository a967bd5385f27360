"""Proposals of the search for a model: what each needs, what it costs, what it makes.

A further kind of model is a class of :class:`Proposal` and an entry in :data:`PROPOSALS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from vpintegrator.models.untrained import is_made
from vpintegrator.training.search.couplings import find_couplings
from vpintegrator.training.search.degrees import FIRST, find_degree
from vpintegrator.training.search.few_pairs import find_few_pairs, is_for_few_pairs
from vpintegrator.training.search.linear_maps import find_linear_map
from vpintegrator.training.search.options import Arguments, Make, SearchOptions, making
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.stages import find_stages
from vpintegrator.training.training_data import TrainingData

COEFFICIENTS = 1_500  # coefficients of a generating function: some ten seconds
_FIRST = 500  # coefficients of polynomials if exact terms may replace them: one second
EPOCHS = 200  # epochs of couplings beside a good map: some ten seconds
EXACT = 1e-12  # error that exact terms and maps in a row need not improve
# error beyond which the search for couplings gets the rest of the budget: the ABC flow's generating
# function errs by 1.8e-9 after 14 s, couplings by 3e-12 after 150
GOOD = 1e-9
_HAMILTONIAN: Arguments = {"functions": "hamiltonian"}
_LOWEST: Arguments = {"degree": FIRST}


@dataclass(frozen=True)
class SearchTask:
    """Data, options and untrained models of a search.

    Attributes
    ----------
    data, options
        Training data, and options of the search; sizes are those of couplings.
    fastest
        Error below which the model of the cheapest step is taken; None for the least error.
    solved, composed, trained, linear
        Untrained generating function of a degree, splitting of some stages, couplings, and linear
        map; None where there are to be none.
    """

    data: TrainingData
    options: SearchOptions
    solved: Make | None = None
    composed: Make | None = None
    trained: Make | None = None
    fastest: float | None = None
    linear: Make | None = None

    def __post_init__(self) -> None:
        for name in ("solved", "composed", "trained", "linear"):
            make = getattr(self, name)
            object.__setattr__(self, name, None if make is None else making(make))


class Proposal(ABC):
    """A kind of model that a search tries.

    Attributes
    ----------
    words
        Name of the kind in lists: "generating functions of polynomials".
    noun
        Name of the model in sentences: "the generating function".
    enough
        Error of an earlier model at which the proposal is left out.
    latest
        Share of the seconds after which the proposal does not begin.
    explicit
        Whether a step is explicit, and costs less than that of an implicit map.
    """

    words: str = ""
    noun: ClassVar[str] = "the model"
    enough: float = 0.0
    latest: float = 1.0
    explicit: ClassVar[bool] = False

    @abstractmethod
    def is_possible(self, task: SearchTask) -> bool:
        """Whether what the model is made of is known."""

    @abstractmethod
    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Return the trained model, beside those that were found before.

        Raises
        ------
        InputError
            If there is none.
        """

    def is_needless(self, met: Sequence[SearchResult]) -> bool:
        """Whether a cheaper model of this kind is among those below the error that is asked for."""
        return False


@dataclass(frozen=True)
class LinearProposal(Proposal):
    """Linear maps, by least squares."""

    words: str = "linear maps"
    noun: ClassVar[str] = "the linear map"
    explicit: ClassVar[bool] = True

    def is_possible(self, task: SearchTask) -> bool:
        """Whether a linear map is asked for."""
        return task.linear is not None and is_made(task.linear, {})

    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Solve."""
        assert task.linear is not None
        return find_linear_map(task.linear, task.data, task.options)


@dataclass(frozen=True)
class GeneratingFunctionProposal(Proposal):
    """Polynomials, beside further functions; their coefficients follow from linear solves."""

    words: str = "generating functions of polynomials"
    noun: ClassVar[str] = "the generating function"
    functions: Arguments = field(default_factory=dict)
    enough: float = -1.0
    latest: float = 0.5
    lowest: bool = False  # whether the lowest degree is the only one

    def is_possible(self, task: SearchTask) -> bool:
        """Whether the system has such functions; a higher degree may have too many terms."""
        if task.solved is None:
            return False
        return not self.functions or is_made(task.solved, _LOWEST | self.functions)

    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Solve for the best degree."""
        assert task.solved is not None
        solved = task.solved
        beside = is_made(solved, _LOWEST | _HAMILTONIAN)
        most = _FIRST if beside and not self.functions else COEFFICIENTS
        sizes = _LOWEST if self.lowest else {}
        return find_degree(
            lambda arguments: solved(self.functions | arguments),
            task.data,
            replace(task.options.limited(None), sizes=sizes),  # epochs would be degrees
            most,
        )

    def is_needless(self, met: Sequence[SearchResult]) -> bool:
        """Whether the same functions in fewer maps, or any simpler ones, are below the error."""
        arguments = [each.model.arguments for each in met]
        if "repeats" in self.functions:
            return any("hamiltonian" in each and each.get("degree") == FIRST for each in arguments)
        return bool(self.functions) and self.functions != _HAMILTONIAN and bool(met)


@dataclass(frozen=True)
class SplittingProposal(Proposal):
    """Exact flows of the parts of the equations, with learned times."""

    words: str = "exact flows of the parts of the equations"
    noun: ClassVar[str] = "the splitting"
    enough: float = EXACT
    explicit: ClassVar[bool] = True

    def is_possible(self, task: SearchTask) -> bool:
        """Whether the equations are a sum of parts with exact flows."""
        return task.composed is not None and is_made(task.composed, {"stages": 1})

    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Train splittings of more and more stages."""
        assert task.composed is not None
        return find_stages(task.composed, task.data, replace(task.options.limited(None), sizes={}))


@dataclass(frozen=True)
class FewPairsProposal(Proposal):
    """Explicit couplings of polynomials, fitted to few pairs of measured states."""

    words: str = "couplings"
    noun: ClassVar[str] = "couplings"
    enough: float = GOOD
    explicit: ClassVar[bool] = True

    def is_possible(self, task: SearchTask) -> bool:
        """Whether the data are few, and couplings are asked for that suit them."""
        return task.trained is not None and is_for_few_pairs(task.trained, task.data)

    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Fit larger and larger models to all pairs."""
        assert task.trained is not None
        return find_few_pairs(task.trained, task.data, task.options.rest())


@dataclass(frozen=True)
class CouplingProposal(Proposal):
    """Explicit couplings of polynomials or neurons, trained from a small model on."""

    words: str = "couplings"
    noun: ClassVar[str] = "couplings"
    explicit: ClassVar[bool] = True

    def is_possible(self, task: SearchTask) -> bool:
        """Whether couplings are asked for; few data have a proposal of their own."""
        return task.trained is not None and not FewPairsProposal().is_possible(task)

    def find(self, task: SearchTask, found: Sequence[SearchResult]) -> SearchResult:
        """Train for the budget, or for 200 epochs beside a map that errs by less than 1e-9."""
        assert task.trained is not None
        options = task.options.rest()
        if task.fastest is None and any(each.error <= GOOD for each in found):
            options = options.limited(min(EPOCHS, options.budget.epochs or EPOCHS))
        return find_couplings(task.trained, task.data, options)


PROPOSALS: tuple[Proposal, ...] = (
    LinearProposal(),
    GeneratingFunctionProposal(latest=1.0),
    SplittingProposal(),
    GeneratingFunctionProposal("exact terms of the Hamiltonian", _HAMILTONIAN, EXACT),
    # halving the step divides the error of five exact terms by a hundred, at twice the cost
    *(
        GeneratingFunctionProposal(
            f"{n} maps of exact terms in a row", _HAMILTONIAN | {"repeats": n}, EXACT, lowest=True
        )
        for n in (2, 3, 4, 6)
    ),
    GeneratingFunctionProposal("functions of the system", {"functions": "system"}, GOOD),
    FewPairsProposal(),
    CouplingProposal(),
)
