"""Training of models that learn in context: with known parameters, or with none."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from vpintegrator.data import Dataset, open_dataset
from vpintegrator.data.extended import ExtendedDataset
from vpintegrator.errors import InputError
from vpintegrator.models.in_context_integrator import InContextIntegrator
from vpintegrator.models.untrained import build, suited
from vpintegrator.training.history import Budget, History
from vpintegrator.training.latent import STARTING, JointFit, first_constants, moving_states
from vpintegrator.training.residuals import doubt, relative_error
from vpintegrator.training.search.degrees import find_generating_function
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.sizes import count
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    import os

_FIRST = (6, 4, 3, 2)  # degrees at which the number of constants is chosen: the first of few
_FEW = 100  # coefficients of two constants: three take a few seconds then
_SEPARATE = (2, 4, 6)  # degrees of separate fits to trajectories, of which one begins
_LATENT = 6  # constants that are tried
_GAIN = 0.5  # factor of the error that one more constant, or degree, must reach
_PATIENCE = 2  # degrees
_LARGEST = 1_500  # coefficients
_EXACT = 1e-13

Make = Callable[[dict[str, Any]], InContextIntegrator]
Tell = Callable[[str], None]
Show = Callable[[History], None]


def find_in_context(
    dataset: Dataset | str | os.PathLike[str],
    budget: Budget | None = None,
    *,
    window: int = 4,
    latent: int | None = None,
    degree: int | None = None,
    known: bool | None = None,
    reversible: bool | None = None,
    seed: int = 0,
    tell: Tell = lambda line: None,
    progress: Show | None = None,
) -> SearchResult:
    """Return a model that learns the constants of a trajectory in context.

    With ``known`` parameters the stepper is the generating function of the family, solved for, and
    its constants are the coefficients of the equations. Without, constants and stepper are found
    together: coefficients are polynomials in a few latent constants of each trajectory, which begin
    as the principal components of a fit to each, and Gauss-Newton iterations improve both.

    Parameters
    ----------
    dataset
        Trajectories of one step, each with its own values of whatever is constant.
    budget
        Seconds and target that end the search; epochs, which are fits.
    window
        States of a context, by which models are judged.
    latent, degree
        Number of latent constants and degree, in states and constants together; found by the
        validation error where they are not given.
    known
        Whether parameters are taken from the dataset; by default where it has them and ``latent``
        is not given.
    reversible
        Argument of :func:`vpintegrator.models.build`.
    seed, tell, progress
        Arguments of :func:`vpintegrator.training.find_generating_function`.

    Raises
    ------
    InputError
        If states have one component, steps vary, trajectories are too few or too short, or the
        dataset has no parameters that are to be known.

    Examples
    --------
    >>> vary = {"I1": (1.6, 2.4), "I3": (0.55, 0.8)}
    >>> data = vp.generate("rigid-body", "b.h5", count=100, steps=8, vary=vary, overwrite=True)
    >>> found = vp.training.find_in_context(data, latent=2, degree=4)
    >>> found.model.latent, found.error < 1e-2
    (2, True)
    """
    data = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if isinstance(data, ExtendedDataset):
        data = data.plain
    if data.dim < 2:
        raise InputError(
            "learning in context is for complete states of two components or more; --model "
            "transformer reads windows of one"
        )
    if "step" in data.varied:
        raise InputError(
            "learning in context is for one step; train a family without --model ict, whose "
            "parameters are inferred at any step (vp-rollout --context)"
        )
    if known is None:
        known = data.is_family and latent is None
    if known and not data.is_family:
        raise InputError(f"{data.path} holds no parameters; leave out known")
    search = _ContextSearch(data, budget or Budget(), window, seed, tell, progress)
    if known:
        return search.with_parameters(degree, reversible)

    def make(sizes: dict[str, Any]) -> InContextIntegrator:
        made = build(data.system, "ict", window=window, reversible=reversible, seed=seed, **sizes)
        assert isinstance(made, InContextIntegrator)
        return made

    return search.without_parameters(make, latent, degree)


def _size(make: Make, latent: int, degree: int) -> float:
    """Return coefficients of a model, infinite where it cannot be made."""
    try:
        return count(make({"latent": latent, "degree": degree}))
    except InputError:  # too many terms, or none that the symmetries allow
        return math.inf


class _ContextSearch:
    def __init__(
        self,
        dataset: Dataset,
        budget: Budget,
        window: int,
        seed: int,
        tell: Tell,
        progress: Show | None,
    ) -> None:
        self.data, self.budget, self.window, self.seed = TrainingData(dataset), budget, window, seed
        self.tell, self.progress = tell, progress
        self.start = time.perf_counter()
        self.history = History("gauss-newton", seed, 0)
        self.tried: list[str] = []
        self.cost: dict[int, tuple[int, float]] = {}  # by latent constants: size, seconds

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.start

    def with_parameters(self, degree: int | None, reversible: bool | None) -> SearchResult:
        """Return the family of known parameters, whose constants are inferred."""
        extended = ExtendedDataset(self.data.dataset)
        system, dim = extended.system, self.data.dataset.dim
        name = "sgf" if suited(system, {"functions": "polynomial"}) == "spff" else "vpgf"
        options: dict[str, Any] = {"reversible": reversible, "seed": self.seed}
        options |= {"symmetries": False}

        def make(arguments: dict[str, Any]) -> Any:
            return build(system, name, **options, **arguments)

        solved = find_generating_function(
            make,
            extended,
            self.budget,
            sizes={} if degree is None else {"degree": degree},
            seed=self.seed,
            refine=False,
            tell=self.tell,
            progress=self.progress,
        )
        model = InContextIntegrator.around(solved.model, dim, self.window)
        with extended.open_states("train") as states:
            model.set_prior(torch.from_numpy(states[:, 0][:, dim:]))
        inputs, targets = TrainingData(extended).held_out(solved.model)
        errors = (solved.model(inputs) - targets)[:, -1, :dim].detach()
        model.set_errors(*self._errors(errors.square().mean(0).sqrt()))
        model.choices = [system.family.words] if system.family is not None else []
        self.history = solved.history
        error = self._error(model)
        self.tell(f"constants inferred from {self.window} states: error {error:.1e}")
        self.tried = [*solved.tried]
        return self._found(model, error, solved.ended)

    def without_parameters(
        self, make: Make, latent: int | None, degree: int | None
    ) -> SearchResult:
        """Return the number of constants and the degree of the least validation error."""
        states = moving_states(self.data)
        best, error, fit, ended = None, math.inf, None, ""
        try:
            for size in range(1, _LATENT + 1) if latent is None else [latent]:
                found, new = self._begun(make, states, size, degree)
                if fit is not None and new >= _GAIN * error:
                    break
                best, error, fit = found.model, new, found
            assert fit is not None
            poor, first = 0, fit.model.arguments["degree"]
            for higher in range(first + 1, (degree or 64) + 1):
                if ended := self._ended(make, fit.latent, higher, error):
                    break
                fit, new = self._fitted(make, states, fit.constants, higher, fit)
                poor = 0 if new < _GAIN * error else poor + 1
                if new < error:
                    best, error = fit.model, new
                if degree is None and poor >= _PATIENCE:
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            ended = "interrupt"
        assert best is not None
        return self._found(best, error, ended)

    def _begun(
        self, make: Make, states: torch.Tensor, latent: int, degree: int | None
    ) -> tuple[JointFit, float]:
        """Return the first fit of so many constants: that of the best beginning."""
        degrees = [each for each in _FIRST if degree is None or each <= degree] or [degree or 1]
        two = [each for each in degrees if _size(make, 2, each) <= _FEW]
        first = two[0] if two else degrees[-1]
        starts = []
        for separate in _SEPARATE:
            if _size(make, 1, separate) > _FEW:
                continue
            k = first_constants(self._prepared(make, 1, separate), states[:STARTING], latent)
            starts.append(JointFit(self._prepared(make, latent, first), states[:STARTING], k))
        if not starts:
            raise InputError("the states have too many components for polynomials of degree 2")
        begun = min(starts, key=lambda each: each.error)
        return self._fitted(make, states, begun.constants, first)

    def _prepared(self, make: Make, latent: int, degree: int) -> InContextIntegrator:
        model = make({"latent": latent, "degree": degree})
        self.data.check(model)
        self.data.normalise(model)
        return model

    def _fitted(
        self,
        make: Make,
        states: torch.Tensor,
        k: torch.Tensor,
        degree: int,
        last: JointFit | None = None,
    ) -> tuple[JointFit, float]:
        """Return a fit of some sizes, and its validation error."""
        began, latent = self.used, k.shape[1]
        model = self._prepared(make, latent, degree)
        seconds = self.budget.seconds
        end = math.inf if seconds is None else self.start + seconds
        fit = JointFit(model, states, k, last, end)
        fit.iterate()
        model.set_prior(fit.constants)
        model.set_errors(*self._errors(fit.residual))
        error = self._error(model)
        self.cost[latent] = count(model), self.used - began
        line = (
            f"{latent} constants, degree {degree}: {count(model)} coefficients from "
            f"{len(fit.constants):,} trajectories, training error {fit.error:.1e}, validation "
            f"error from {self.window} states {error:.1e} after {self.used:.1f} s"
        )
        self.tell(line)
        self.tried.append(line)
        self.history.parameters, self.history.windows = count(model), len(fit.constants)
        self.history.add(self.used, fit.error, error)
        if self.progress is not None:
            self.history.share = self.budget.share(self.history.epochs, self.used)
            self.progress(self.history)
        return fit, error

    def _ended(self, make: Make, latent: int, degree: int, error: float) -> str:
        """Why no higher degree is tried, if so."""
        budget = self.budget
        if budget.target is not None and error <= budget.target:
            return "target"
        if error < _EXACT:
            return "solved"
        if budget.epochs is not None and self.history.epochs >= budget.epochs:
            return "epochs"
        size = _size(make, latent, degree)
        if size > _LARGEST:
            return "solved"
        before, seconds = self.cost[latent]
        expected = seconds * (size / before) ** 2  # rows of equations, each with all coefficients
        return (
            "seconds"
            if budget.seconds is not None and self.used + expected > budget.seconds
            else ""
        )

    def _errors(self, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Errors of images, and of states where these were measured: both count in a residual."""
        if not self.data.dataset.is_observed:
            return residual, None
        return residual / 10, residual / math.sqrt(2)

    def _error(self, model: InContextIntegrator) -> float:
        inputs, targets = self.data.held_out(model)
        with torch.no_grad():
            error = relative_error(model, inputs, targets, scale=self.data.error_scale)
        return math.inf if math.isnan(error) else error

    def _found(self, model: InContextIntegrator, error: float, ended: str) -> SearchResult:
        history, data = self.history, self.data
        history.best_validation_error = error
        history.parameters = count(model)
        history.test_error = data.test_error(model)
        history.warning = doubt(model, data.held_out(model), data.error_scale, history)
        history.stopped_by = ended or "solved"
        data.describe(model)
        model.metadata["training"] = json.dumps(history.summary())
        model.metadata["search"] = json.dumps(self.tried)
        ended = ended if ended in ("interrupt", "target") else ""
        found = (model, error, history, self.tried, self.used, history.epochs, ended)
        return SearchResult(*found, complete=True)
