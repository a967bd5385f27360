"""Candidates for training in vp-train, and the search for functions, degree and depth."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli import training_report
from vpintegrator.cli.architecture import flag
from vpintegrator.cli.common import console
from vpintegrator.cli.output import is_asked
from vpintegrator.errors import InputError
from vpintegrator.runtime.deadline import ending_of
from vpintegrator.storage.files import check_output, safe_name

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import Files, History, SearchResult
    from vpintegrator.training.search.cheapest import Cheapest
    from vpintegrator.training.search.options import SearchOptions
    from vpintegrator.training.training_data import TrainingData

_SEARCHING = "functions, degree and depth are searched for; --functions neurons takes fixed ones"
_KNOWN_FIRST = "generating functions and splittings are tried first; beside them "
_SEARCHED = {
    "sgf": "degree",
    "vpgf": "degree",
    "split": "stages",
}  # names with a search of their own
_SIZES = ("functions", "degree", "depth", "split", "sweep", "bases")
_SHORTEST = 4.0  # seconds in which a search makes sense
_FEWEST = 100  # epochs
_EXACT = 1e-12  # error of a map of one structure, at which no other is tried
_IMPROVED = 0.9  # times the error before: what a map of less structure must reach
_PATIENCE = 300  # epochs of the training that follows

Make = Callable[[dict[str, Any]], "Integrator"]


@dataclass
class Candidate:
    """Architecture and arguments of the model to train, as far as they are known.

    Attributes
    ----------
    architecture
        Class of the model.
    make
        Function that returns the untrained model with the arguments passed to it.
    arguments
        Arguments of the model that were given.
    dtype
        Data type of the weights.
    network
        The untrained model; None until its arguments are chosen, or found by a search.
    normalise
        Whether training sets the normalisation of the model.
    solved, composed, linear
        Functions that return an untrained generating function of a degree, an untrained splitting
        of a number of stages, and an untrained linear map, where the search may take one of these
        instead.
    written
        Path of the written model, if it differs from :meth:`path`.
    reasons
        A sentence for each argument that was chosen by the budget.
    others
        Candidates of other structures, where states claim none: the error decides.
    is_plain
        Whether a one-step map is asked for, by the default method of training.
    fastest
        Error below which the cheapest model is taken.
    cheapest
        All models that the search for the cheapest model compared.
    found
        Result of the search, if there was one.
    """

    architecture: type[Integrator]
    make: Make | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    dtype: str = ""
    network: Integrator | None = None
    normalise: bool = True
    solved: Make | None = None
    composed: Make | None = None
    linear: Make | None = None
    written: Path | None = None
    reasons: list[str] = field(default_factory=list)
    others: list[Candidate] = field(default_factory=list)
    is_plain: bool = False
    fastest: float | None = None
    cheapest: Cheapest | None = None
    found: SearchResult | None = None

    def path(self, data: Dataset) -> Path:
        """Return the default path of the model file."""
        return self._path_of(data, self.architecture.name)

    def check_other_paths(self, data: Dataset, overwrite: bool) -> None:
        """Refuse to overwrite the file of a generating function, if one may be taken instead."""
        names = ["sgf", "vpgf", "split", "linear"] if self.may_take_others else []
        for name in [*names, *(each.architecture.name for each in self.others)]:
            check_output(self._path_of(data, name), overwrite)

    @property
    def may_take_others(self) -> bool:
        """Whether the search may take a model of another architecture."""
        return bool(self.solved or self.composed or self.linear)

    def _path_of(self, data: Dataset, name: str) -> Path:
        return Path(f"{safe_name(data.system.name)}-{name}.safetensors")

    def choose(self, options: SearchOptions) -> None:
        """Choose functions, degree and depth, if nothing is to be searched for.

        Parameters
        ----------
        options
            Options of the training.

        Raises
        ------
        InputError
            If a search is asked for where there can be none.
        """
        if self.make is not None:
            self.arguments, searching = chosen_functions(
                self.architecture, self.arguments, options, self.dtype, self.make
            )
            if _has_free_width(self.architecture, self.arguments):
                self._choose_width(options)
            if (size := _SEARCHED.get(self.architecture.name)) is not None:
                searching = size not in self.arguments
            searching |= self.architecture.name == "linear"  # few data are fitted by all pairs
            if options.budget.epochs is not None or not searching:
                self.solved = self.composed = self.linear = None
            if self.fastest is not None and not searching:
                raise InputError(
                    "--fastest has no models to choose from: leave out what fixes the model, and "
                    f"train for {_SHORTEST:g} seconds or more"
                )
            self.network = None if searching else self.make(self.arguments)
            if self.network is not None:
                self.network.choices += self.reasons

    def _choose_width(self, options: SearchOptions) -> None:
        """Choose the greatest width that the budget allows."""
        from vpintegrator.training.search.sizes import widest
        from vpintegrator.training.train import DEFAULT_SECONDS

        assert self.make is not None
        make, given = self.make, self.arguments
        seconds = options.budget.seconds or DEFAULT_SECONDS
        width = widest(lambda more: make(given | more), make(given).dim, seconds)
        if width is not None:
            self.arguments = given | {"width": width}
            self.reasons = [f"width {width} was chosen: {seconds:g} s suffice for its parameters"]

    def announce(self, data: Dataset) -> None:
        """Say what is trained."""
        name, (count, states, _) = self.architecture.name, data.shapes["train"]
        line = (
            f"{data.path}: {data.system.title}, {count} training trajectories of {states - 1} steps"
        )
        console().print(f"{line}, step {data.step_text}", soft_wrap=True, markup=False)
        if self.others:
            names = ", ".join(each.architecture.name for each in [self, *self.others])
            _say(f"the states claim no structure: {names} are tried, and the error decides")
        if self.network is None and name in _SEARCHED:
            size = _SEARCHED[name]
            fixed = "--degree" if size == "degree" else f"--option {size}=N"
            _tell(f"{name}: the best {size} is searched for; {fixed} fixes it")
        elif self.network is None and name != "linear":
            first = _KNOWN_FIRST if self.may_take_others else ""
            first = f"linear maps, {first}" if self.linear else first
            _tell(f"{first}{name}: {_SEARCHING}")
        elif self.network is not None:
            training_report.announce(self.network, data)

    @property
    def trained(self) -> Integrator:
        """The model that training ended with."""
        assert self.network is not None
        return self.network

    def search(self, data: Dataset, options: SearchOptions) -> None:
        """Search for the model, if it is not known."""
        if self.network is not None:
            return
        budget = options.budget.or_default()
        options = replace(options, budget=budget, tell=_tell)
        self.found = self._searched_structures(data, options)
        self.network, self.cheapest = self.found.model, self.found.cheapest
        self.network.metadata["search"] = json.dumps(self.found.tried)
        if self.found.summary:
            _say(f"models tried, and their errors: {self.found.summary}")

    def _searched_structures(self, data: Dataset, options: SearchOptions) -> SearchResult:
        """Search for a model of each structure in an equal share of the seconds."""
        best: SearchResult | None = None
        summaries, refusals = [], []
        candidates = [self, *self.others]
        for number, candidate in enumerate(candidates):
            rest = options.rest(1 / (len(candidates) - number)) if self.others else options
            try:
                found = candidate._searched(data, rest)
            except InputError as error:
                refusals.append(error)
                continue
            except KeyboardInterrupt:
                if best is None:
                    raise
                best.ended = "interrupt"
                break
            summaries += [found.summary] if found.summary else []
            if best is None or found.least < _IMPROVED * best.least:
                best = found
            if found.ended == "interrupt" or best.least <= _EXACT:
                break
        if best is None:
            raise refusals[0]
        if self.others:
            best.seconds, best.summary = options.used, "; ".join(summaries)
        return best

    def _searched(self, data: Dataset, options: SearchOptions) -> SearchResult:
        from vpintegrator.training.search.couplings import find_couplings
        from vpintegrator.training.search.degrees import find_degree
        from vpintegrator.training.search.few_pairs import find_few_pairs, is_for_few_pairs
        from vpintegrator.training.search.linear_maps import find_linear_map
        from vpintegrator.training.search.models import search
        from vpintegrator.training.search.proposals import SearchTask
        from vpintegrator.training.search.stages import find_stages
        from vpintegrator.training.training_data import TrainingData

        make, arguments, name = self.make, self.arguments, self.architecture.name
        assert make is not None

        def made(more: dict[str, Any]) -> Integrator:
            return make(arguments | more)

        known = TrainingData.of(data)
        if name == "resnet":
            return self._network(made, data, known, options)
        if name == "split":
            return find_stages(made, known, options)
        if name == "linear":
            return find_linear_map(made, known, options)
        if name in _SEARCHED:
            return find_degree(made, known, options)
        given = {name: arguments[name] for name in _SIZES[1:] if name in arguments}
        options = replace(options, sizes=given)
        if not self.may_take_others and self.fastest is None:
            few = self.is_plain and is_for_few_pairs(made, known)
            return (find_few_pairs if few else find_couplings)(made, known, options)
        task = SearchTask(known, options, self.solved, self.composed, made, self.fastest)
        return search(replace(task, linear=self.linear))

    def _network(
        self, make: Make, data: Dataset, known: TrainingData, options: SearchOptions
    ) -> SearchResult:
        """Train a network without structure, of the width that the seconds allow."""
        from vpintegrator.training import SearchResult, train
        from vpintegrator.training.search.options import keywords
        from vpintegrator.training.search.sizes import count, widest

        seconds = options.budget.seconds or 0.0
        width = widest(lambda more: make(more), data.dim, seconds)
        model = make({} if width is None else {"width": width})
        limits = replace(options.budget, patience=_PATIENCE)
        history = train(
            model,
            known,
            **keywords(options.method, limits, options.execution),
            progress=options.progress or False,
        )
        error = history.best_validation_error
        line = f"{model.name}, {count(model)} parameters: {error:.1e} after {options.used:.0f} s"
        options.tell(line)
        return SearchResult(
            model,
            error,
            history,
            tried=[line],
            ended="interrupt" if history.stopped_by == "interrupt" else "",
            complete=True,
            summary=f"{model.name} {error:.1e}",
        )

    def train(self, data: Dataset, options: SearchOptions, files: Files) -> History:
        """Train the model, and write it; a search may have left nothing to train."""
        from vpintegrator.training import train
        from vpintegrator.training.search.options import keywords

        network, found = self.trained, self.found
        limits = replace(options, budget=options.budget.or_default())
        if found is not None and found.complete:
            training_report.announce(network, data)
            return self._write(found, data, files)
        before = network.metadata.get("training")
        try:
            if found is not None:
                training_report.announce(network, data)
                if found.ended == "interrupt":
                    return self._leave(found, data, files, "interrupt")
                if limits.is_late():
                    return self._leave(found, data, files, "seconds")
                options = _after_search(found, options)
            history = train(
                network,
                data,
                **keywords(
                    options.method, options.budget, options.objective, options.execution, files
                ),
                normalise=self.normalise,
                progress=options.progress or False,
            )
        except KeyboardInterrupt as interruption:
            if found is None or network.metadata["training"] != before:  # the model was written
                raise
            return self._leave(found, data, files, ending_of(interruption))
        except InputError:  # nothing was learned
            if found is None or found.rival is None:
                raise
            return self._take_rival(found, math.inf, data, files)
        if found is not None:
            return self._compared(found, history, data, files)
        return history

    def _compared(
        self, found: SearchResult, history: History, data: Dataset, files: Files
    ) -> History:
        """Keep the model that was trained after a search, or its rival if that errs less."""
        error = history.best_validation_error
        if _is_better(found.rival, error):
            history = self._take_rival(found, error, data, files)
            if self.written != files.output and files.output is not None:
                Path(files.output).unlink(missing_ok=True)  # it holds the couplings
        elif not math.isfinite(error):
            return self._leave(found, data, files, history.stopped_by)
        elif self.cheapest is not None:
            self.cheapest = self.cheapest.trained(error)
        return history

    def _leave(self, found: SearchResult, data: Dataset, files: Files, ending: str) -> History:
        """Write the model of a search as it is, where an interruption leaves no time."""
        from vpintegrator.models.saving import save_somewhere

        if _is_better(found.rival, found.error):
            history = self._take_rival(found, found.error, data, files)
            return replace(history, stopped_by=ending)
        if math.isfinite(found.error) and files.output is not None:
            save_somewhere(found.model, files.output, files.overwrite)
        if found.history.warning:
            warnings.warn(found.history.warning, stacklevel=2)
        return replace(found.history, stopped_by=ending)

    def _take_rival(
        self, found: SearchResult, error: float, data: Dataset, files: Files
    ) -> History:
        """Write the model that errs less than the couplings that were trained."""
        rival = found.rival
        assert rival is not None
        _say(f"{rival.noun} is taken: it errs by {rival.error:.1e}, the couplings by {error:.1e}")
        self.network = rival.model
        return self._write(rival, data, replace(files, overwrite=True))

    def _write(self, found: SearchResult, data: Dataset, files: Files) -> History:
        """Write a model that nothing is left to train of, under a name that says what it is."""
        from vpintegrator.models.saving import save_somewhere

        if found.history.warning:
            warnings.warn(found.history.warning, stacklevel=4)
        path = files.output
        assert path is not None
        if path == self.path(data):
            path = self._path_of(data, found.model.name)
        save_somewhere(found.model, path, files.overwrite)
        self.written = Path(path)
        return found.history


def _say(line: str) -> None:
    console().print(f"  {line}", soft_wrap=True, markup=False)


def _tell(line: str) -> None:
    if is_asked("verbose"):
        _say(line)


def _after_search(found: SearchResult, options: SearchOptions) -> SearchOptions:
    """Return the options of the training that follows a search."""
    budget, batch, show = options.budget.or_default(), options.method.batch, options.progress
    left, used = found.left(budget), budget.share(found.epochs, found.seconds)

    def shown(history: History) -> None:
        share = history.share
        history.share = used + (1 - used) * share
        if show is not None:
            show(history)
        history.share = share

    return replace(
        options,
        budget=replace(left, patience=left.patience or _PATIENCE),
        method=replace(options.method, batch=batch or found.history.windows or None),
        progress=None if show is None else shown,
    )


def _is_better(rival: SearchResult | None, error: float) -> bool:
    return rival is not None and rival.error < error


def chosen_functions(
    architecture: type[Integrator],
    arguments: dict[str, Any],
    options: SearchOptions,
    dtype: str,
    make: Make,
) -> tuple[dict[str, Any], bool]:
    """Return the arguments with functions chosen, and whether to search for functions.

    Parameters
    ----------
    arguments
        Arguments that the user gave.
    options
        Options of the training.
    make
        The untrained model of some arguments.

    Raises
    ------
    InputError
        If a search is asked for where there can be none.
    """
    asked = arguments.get("functions", "")
    if asked not in ("", "auto"):
        return arguments, False
    arguments = {name: value for name, value in arguments.items() if name != "functions"}
    reason = _why_not(architecture, arguments, options, dtype)
    if reason and asked:
        raise InputError(f"--functions auto: {reason}; name the functions")
    if reason:
        return arguments, False
    budget = options.budget
    if (budget.seconds or _SHORTEST) < _SHORTEST or (budget.epochs or _FEWEST) < _FEWEST:
        from vpintegrator.training.search.sizes import smallest

        model = smallest(lambda more: make(arguments | more), arguments)
        found = {} if model is None else model.arguments
        return arguments | {name: found[name] for name in _SIZES if name in found}, False
    return arguments, True


def _why_not(
    architecture: type[Integrator], arguments: dict[str, Any], options: SearchOptions, dtype: str
) -> str:
    """Return the reason why no functions can be searched for; empty if they can."""
    if not architecture.Arguments.declared().keys() >= {"functions", "degree", "depth"}:
        return f"the model {architecture.name} has no choice of functions and degree"
    if arguments.get("feed_forward", "coupling") != "coupling":
        return "only couplings have a choice of functions"
    for name in ("width", "activation"):
        if name in arguments:
            return f"{flag(name)} is of neurons"
    if options.method.optimizer not in ("auto", "levenberg-marquardt") or dtype != "float64":
        return "polynomials are trained by Levenberg-Marquardt in float64"
    return ""


def _has_free_width(architecture: type[Integrator], arguments: dict[str, Any]) -> bool:
    """Whether a network without structure is left to be sized."""
    declared = architecture.Arguments.declared().keys()
    return "width" in declared - arguments.keys() and "functions" not in declared
