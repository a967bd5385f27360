"""Candidates for training in vp-train, and the search for functions, degree and depth."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli import training_report
from vpintegrator.cli.architecture import flag
from vpintegrator.cli.common import console
from vpintegrator.errors import InputError
from vpintegrator.storage.files import check_output, safe_name

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import Budget, Found, History
    from vpintegrator.training.search.cheapest import Cheapest

_SEARCHING = "functions, degree and depth are searched for; --functions neurons takes fixed ones"
_KNOWN_FIRST = "generating functions and splittings are tried first; beside them "
_SEARCHED = {
    "sgf": "degree",
    "vpgf": "degree",
    "split": "stages",
    "ict": "degree",
}  # names with a search of their own
_OF_CONTEXT = ("window", "latent", "degree")
_SIZES = ("functions", "degree", "depth", "split", "sweep", "bases")
_SHORTEST = 4.0  # seconds in which a search makes sense
_FEWEST = 100  # epochs
_PATIENCE = 300  # epochs of the training that follows
_NOT_BESIDE_FASTEST = ("start", "target", "epochs", "resume", "adaptive", "orbits")
_OF_THE_END = ("checkpoint_seconds", "log", "restarts", "seconds", "epochs", "target", "patience")

Make = Callable[[dict[str, Any]], "Integrator"]
Show = Callable[["History"], None]


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
    solved, composed
        Functions that return an untrained generating function of a degree, and an untrained
        splitting of a number of stages, where the search may take one of these instead.
    written
        Path of the written model, if it differs from :meth:`path`.
    reasons
        A sentence for each argument that was chosen by the budget.
    fastest
        Error below which the cheapest model is taken.
    cheapest
        All models that the search for the cheapest model compared.
    refine
        Whether generating functions are refined by orbits where states have noise.
    reversible
        Whether reversing symmetries are built in, for models that learn in context.
    """

    architecture: type[Integrator]
    make: Make | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    dtype: str = ""
    network: Integrator | None = None
    normalise: bool = True
    solved: Make | None = None
    composed: Make | None = None
    written: Path | None = None
    reasons: list[str] = field(default_factory=list)
    fastest: float | None = None
    cheapest: Cheapest | None = None
    refine: bool = True
    reversible: bool | None = None

    def path(self, data: Dataset) -> Path:
        """Return the default path of the model file."""
        return self._path_of(data, self.architecture.name)

    def check_other_paths(self, data: Dataset, overwrite: bool) -> None:
        """Refuse to overwrite the file of a generating function, if one may be taken instead."""
        for name in ("sgf", "vpgf", "split") if self.solved or self.composed else ():
            check_output(self._path_of(data, name), overwrite)

    def _path_of(self, data: Dataset, name: str) -> Path:
        return Path(f"{safe_name(data.system.name)}-{name}.safetensors")

    def choose(
        self, training: dict[str, Any], checkpoint: Path | None, refine: bool = True
    ) -> None:
        """Choose functions, degree and depth, if nothing is to be searched for.

        Parameters
        ----------
        training
            Options of the training.
        checkpoint
            Checkpoint to resume, with the functions that it contains.
        refine
            Whether generating functions of noisy states are refined.

        Raises
        ------
        InputError
            If a search is asked for where there can be none, or the checkpoint cannot be read.
        """
        self.refine = refine
        if self.make is not None:
            self.arguments, searching = chosen_functions(
                self.architecture, self.arguments, training, self.dtype, checkpoint, self.make
            )
            if _has_free_width(self.architecture, self.arguments):
                self._choose_width(training, checkpoint)
            if (size := _SEARCHED.get(self.architecture.name)) is not None:
                searching = size not in self.arguments and checkpoint is None
                searching |= self.architecture.name == "ict"  # a search of one degree
            if training["epochs"] is not None or checkpoint is not None or not searching:
                self.solved = self.composed = None
            if self.fastest is not None and not searching:
                raise InputError(
                    "--fastest has no models to choose from: leave out what fixes the model, and "
                    f"train for {_SHORTEST:g} seconds or more"
                )
            self.network = None if searching else self.make(self.arguments)
            if self.network is not None:
                self.network.choices += self.reasons
            if self.network is not None and checkpoint is not None:
                _rest_as_before(self.network, checkpoint)

    def _choose_width(self, training: dict[str, Any], checkpoint: Path | None) -> None:
        """Choose the greatest width that the budget allows, or take the width of the checkpoint."""
        from vpintegrator.training.history import DEFAULT_SECONDS
        from vpintegrator.training.search.sizes import widest

        assert self.make is not None
        make, given = self.make, self.arguments
        if checkpoint is not None:
            self.arguments = _stored(checkpoint, ("width",)) | given
            return
        seconds = _budget(training).seconds or DEFAULT_SECONDS
        width = widest(lambda more: make(given | more), make(given).dim, seconds)
        if width is not None:
            self.arguments = given | {"width": width}
            self.reasons = [f"width {width} was chosen: {seconds:g} s suffice for its parameters"]

    def announce(self, data: Dataset) -> None:
        """Say what is trained."""
        name = self.architecture.name
        if self.network is None and name in _SEARCHED:
            size = _SEARCHED[name]
            fixed = "--degree" if size == "degree" else f"--option {size}=N"
            console().print(f"{name}: the best {size} is searched for; {fixed} fixes it")
        elif self.network is None:
            first = _KNOWN_FIRST if self.solved or self.composed else ""
            console().print(f"{first}{name}: {_SEARCHING}", soft_wrap=True)
        else:
            training_report.announce(self.network, data)

    def train(
        self, data: Dataset, training: dict[str, Any], files: dict[str, Any], show: Show | None
    ) -> tuple[Integrator, History]:
        """Train the model, after a search if it is not known, and return it with its history."""
        from vpintegrator.training import train

        if self.network is None:
            found = self._found(data, training, show)
            searched = found.model
            history = self._train_found(found, data, training, files, show)
            self.cheapest = found.cheapest
            if self.cheapest is not None and found.model is searched and not found.complete:
                self.cheapest = self.cheapest.trained(history.best_validation_error)
            return found.model, history
        options = training | files | {"normalise": self.normalise, "progress": show or False}
        history = train(self.network, data, **options)
        if history.stopped_by == "solved" and self.refine:
            history = self._refined(self.network, data, history, training, files)
        return self.network, history

    def _refined(
        self,
        network: Integrator,
        data: Dataset,
        history: History,
        training: dict[str, Any],
        files: dict[str, Any],
    ) -> History:
        """Refine a solved model by orbits where states have noise, and write it again."""
        from vpintegrator.models import save
        from vpintegrator.training.refinement import is_noisy, refine
        from vpintegrator.training.training_data import TrainingData

        known = TrainingData.of(data)
        if not is_noisy(known, history.best_validation_error):
            return history
        try:
            found = refine(network, known, _budget(training).seconds)
        except (InputError, KeyboardInterrupt):  # no validation orbits; the model is written
            return history
        console().print(f"  {found.words}", soft_wrap=True)
        save(network, files["output"], overwrite=True)
        told = json.loads(network.metadata["training"])
        errors = {name: told[name] for name in ("best_validation_error", "test_error")}
        return replace(history, **errors)

    def _train_found(
        self,
        found: Found,
        data: Dataset,
        training: dict[str, Any],
        files: dict[str, Any],
        show: Show | None,
    ) -> History:
        """Train what a search found; write it as it is where an interrupt leaves no time."""
        from vpintegrator.training import train
        from vpintegrator.training.output import save_somewhere

        network, budget = found.model, _budget(training)
        if found.complete:
            training_report.announce(network, data)
            self._write(found, data, files)
            return found.history
        searched, left = network.metadata["training"], found.left(budget)
        training = training | {
            "seconds": left.seconds,
            "epochs": left.epochs,
            "patience": training["patience"] or _PATIENCE,
            "batch": training["batch"] or found.history.windows or None,
        }
        show = _shown_from(budget.share(found.epochs, found.seconds), show)
        try:
            training_report.announce(network, data)
            if found.ended != "interrupt":
                history = train(network, data, **training, **files, progress=show or False)
                if _is_better(found.rival, history.best_validation_error):
                    error = history.best_validation_error
                    history = self._take_rival(found, error, data, files)
                    if self.written != files["output"]:  # the default file holds the couplings
                        files["output"].unlink(missing_ok=True)
                    return history
                if math.isfinite(history.best_validation_error):
                    return history
        except KeyboardInterrupt:
            if network.metadata["training"] != searched:  # it came when the model was written
                raise
        if _is_better(found.rival, found.error):
            history = self._take_rival(found, found.error, data, files)
            return replace(history, stopped_by="interrupt")
        if math.isfinite(found.error):
            save_somewhere(network, files["output"], files["overwrite"])
        if found.history.warning:
            warnings.warn(found.history.warning, stacklevel=2)
        return replace(found.history, stopped_by="interrupt")

    def _take_rival(
        self, found: Found, error: float, data: Dataset, files: dict[str, Any]
    ) -> History:
        """Write the model that errs less than the couplings that were trained."""
        rival = found.rival
        assert rival is not None
        what = "splitting" if rival.model.name == "split" else "generating function"
        console().print(
            f"  the {what} is taken: it errs by {rival.error:.1e}, the couplings by {error:.1e}",
            soft_wrap=True,
        )
        found.model = rival.model
        self._write(rival, data, files | {"overwrite": True})
        return rival.history

    def _write(self, found: Found, data: Dataset, files: dict[str, Any]) -> None:
        """Write a model that nothing is left to train of, under a name that says what it is."""
        from vpintegrator.training.output import save_somewhere

        if found.history.warning:
            warnings.warn(found.history.warning, stacklevel=4)
        path = files["output"]
        if path == self.path(data):
            path = self._path_of(data, found.model.name)
        save_somewhere(found.model, path, files["overwrite"])
        self.written = path

    def _found(self, data: Dataset, training: dict[str, Any], show: Show | None) -> Found:
        """Search for a model and return the result; the model stores the candidates tried."""
        from vpintegrator.training import (
            find_functions,
            find_generating_function,
            find_in_context,
            find_model,
            find_splitting,
        )

        make, arguments, budget = self.make, self.arguments, _budget(training)
        assert make is not None

        def tell(line: str) -> None:
            console().print(f"  {line}", soft_wrap=True, markup=False)

        def made(more: dict[str, Any]) -> Integrator:
            return make(arguments | more)

        given = {name: value for name, value in training.items() if name not in _OF_THE_END}
        given |= {"tell": tell, "progress": show}
        if self.architecture.name in _SEARCHED:
            given = {name: given[name] for name in ("tell", "progress", "seed")}
            if self.architecture.name == "ict":
                sizes = {n: arguments[n] for n in _OF_CONTEXT if n in arguments}
                return find_in_context(data, budget, reversible=self.reversible, **sizes, **given)
            if self.architecture.name == "split":
                return find_splitting(made, data, budget, **given)
            given["refine"] = self.refine
            return find_generating_function(made, data, budget, **given)
        given["sizes"] = {name: arguments[name] for name in _SIZES[1:] if name in arguments}
        if self.solved or self.composed or self.fastest is not None:
            found = find_model(
                self.solved,
                made,
                data,
                budget,
                composed=self.composed,
                fastest=self.fastest,
                **given,
            )
        else:
            found = find_functions(made, data, budget, **given)
        found.model.metadata["search"] = json.dumps(found.tried)
        return found


def checked_fastest(fastest: float, given: Sequence[str], model: str) -> float:
    """Return the error of ``--fastest``, if no other option contradicts it.

    Raises
    ------
    InputError
        If it is not positive, or something is.
    """
    from vpintegrator.arguments import positive

    refused = [flag(name) for name in _NOT_BESIDE_FASTEST if name in given]
    refused += ["--model"] if model != "auto" else []
    if refused:
        raise InputError(
            "--fastest trains each model of --model auto until its error is small enough; leave "
            f"out {', '.join(refused)}"
        )
    return positive("--fastest", fastest)


def _is_better(rival: Found | None, error: float) -> bool:
    return rival is not None and rival.error < error


def chosen_functions(
    architecture: type[Integrator],
    arguments: dict[str, Any],
    training: dict[str, Any],
    dtype: str,
    checkpoint: Path | None,
    make: Make,
) -> tuple[dict[str, Any], bool]:
    """Return the arguments with functions chosen, and whether to search for functions.

    Parameters
    ----------
    arguments
        Arguments that the user gave.
    training
        Options of the training.
    checkpoint
        Checkpoint to resume, with the functions that it contains.
    make
        The untrained model of some arguments.

    Raises
    ------
    InputError
        If a search is asked for where there can be none, or the checkpoint cannot be read.
    """
    asked = arguments.get("functions", "")
    if asked not in ("", "auto"):
        return arguments, False
    arguments = {name: value for name, value in arguments.items() if name != "functions"}
    reason = _why_not(architecture, arguments, training, dtype)
    if reason and asked:
        raise InputError(f"--functions auto: {reason}; name the functions")
    if reason:
        return arguments, False
    if checkpoint is not None:
        return _stored_sizes(checkpoint) | arguments, False
    budget = _budget(training)
    if (budget.seconds or _SHORTEST) < _SHORTEST or (budget.epochs or _FEWEST) < _FEWEST:
        from vpintegrator.training.search.sizes import smallest

        model = smallest(lambda more: make(arguments | more), arguments)
        found = {} if model is None else model.arguments
        return arguments | {name: found[name] for name in _SIZES if name in found}, False
    return arguments, True


def _why_not(
    architecture: type[Integrator], arguments: dict[str, Any], training: dict[str, Any], dtype: str
) -> str:
    """Return the reason why no functions can be searched for; empty if they can."""
    from vpintegrator.training import processes

    if not architecture.Arguments.declared().keys() >= {"functions", "degree", "depth"}:
        return f"the model {architecture.name} has no choice of functions and degree"
    if arguments.get("feed_forward", "coupling") != "coupling":
        return "only couplings have a choice of functions"
    for name in ("width", "activation"):
        if name in arguments:
            return f"{flag(name)} is of neurons"
    if training["optimizer"] not in ("auto", "levenberg-marquardt") or dtype != "float64":
        return "polynomials are trained by Levenberg-Marquardt in float64"
    if training["restarts"] > 1:
        return "--restarts is for functions, degree and depth that are known"
    if processes.count() > 1:
        return "the search runs in one process"
    return ""


def _shown_from(used: float, show: Show | None) -> Show | None:
    """Return a display for the remaining training, after a share ``used`` of the whole."""
    if show is None:
        return None

    def shown(history: History) -> None:
        share = history.share
        history.share = used + (1 - used) * share
        show(history)
        history.share = share

    return shown


def _has_free_width(architecture: type[Integrator], arguments: dict[str, Any]) -> bool:
    """Whether a network without structure is left to be sized."""
    declared = architecture.Arguments.declared().keys()
    return "width" in declared - arguments.keys() and "functions" not in declared


def _stored_sizes(checkpoint: Path) -> dict[str, Any]:
    """Return functions, degree and depth of the training in a checkpoint."""
    return _stored(checkpoint, _SIZES)


def _stored(checkpoint: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the named arguments of the model in a checkpoint."""
    from vpintegrator.training.stored_checkpoint import stored_identity

    stored = stored_identity(checkpoint).get("arguments") or {}
    system = {"functions": "system"} if stored.get("expressions") else {}
    return {name: stored[name] for name in names if name in stored} | system


def _rest_as_before(network: Integrator, checkpoint: Path) -> None:
    """Leave attention at rest if the training of a checkpoint did."""
    from vpintegrator.models.growth import rest_attention
    from vpintegrator.training.stored_checkpoint import stored_identity

    if stored_identity(checkpoint).get("fixed weights"):
        rest_attention(network)


def _budget(training: dict[str, Any]) -> Budget:
    from vpintegrator.training import Budget

    return Budget(training["seconds"], training["epochs"], training["target"]).or_default()
