"""Output of vp-train: the list of models, the dataset, the models that are tried, the verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.architecture import help_of_options, model_options
from vpintegrator.cli.common import console, progress_bar, tell
from vpintegrator.cli.output import is_asked, write_json
from vpintegrator.models.registry import ARCHITECTURES

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.training import Fit

VERDICT_SECONDS = 30.0  # to compile classical methods and measure costs of a step


def list_models() -> None:
    """Print the architectures and their options."""
    out = console()
    for name, description in ARCHITECTURES.descriptions().items():
        out.print(f"{name}: {description}", style="bold", soft_wrap=True)
        for given, words in help_of_options(ARCHITECTURES.find(name)):
            tell(f"  {given:<44} {words}")
    write_json(
        lambda: {
            name: {
                "description": description,
                "options": [
                    {"option": given, "help": words, "default": default}
                    for given, words, default in model_options(ARCHITECTURES.find(name))
                ],
            }
            for name, description in ARCHITECTURES.descriptions().items()
        }
    )


def announce(data: Dataset) -> None:
    """Print what is trained on."""
    count, states, _ = data.shapes["train"]
    tell(
        f"{data.path}: {data.system.title}, {count} training trajectories of {states - 1} steps, "
        f"step {data.step_text}"
    )


def judge(fit: Fit, data: Dataset, path: Path) -> None:
    """Compare a step of the model with classical methods, here and in its file."""
    import vpintegrator as vp
    from vpintegrator.training.one_step import KEY

    system, table = data.system, None
    if system.is_measured or system.is_discrete or 0 in data.shapes.get("test", (0,)):
        return
    with suppress(KeyboardInterrupt), progress_bar() as bar:  # the model is written already
        bar.add_task("comparison with classical methods", total=None)
        table = vp.one_step(fit.model, data, seconds=VERDICT_SECONDS)
    if table is None or not table.methods:
        return
    fit.model.metadata[KEY] = table.text
    vp.save(fit.model, path, overwrite=True)
    for line in str(table).splitlines() if is_asked("verbose") else table.sentences:
        tell(f"  {line}")


def summarise(fits: Sequence[Fit]) -> None:
    """Tell the errors of the models of several seeds."""
    errors = sorted(fit.error for fit in fits)
    middle = statistics.median(errors)
    tell(f"{len(fits)} seeds: median error {middle:.2e}, from {errors[0]:.2e} to {errors[-1]:.2e}")


def all_results(written: Sequence[tuple[Fit, Path]], count: int) -> dict[str, Any]:
    """Return what ``--json`` writes: the model, or ``models`` where several seeds are trained."""
    each = [results(fit, path) for fit, path in written]
    return each[0] if count == 1 else {"models": each}


def results(fit: Fit, path: Path) -> dict[str, Any]:
    """Return what ``--json`` writes of a model."""
    from vpintegrator.cli.results import model_results

    return {
        "output": path,
        **model_results(fit.model),
        "kind": fit.kind,
        "error": fit.error,
        "deviation": fit.deviation,
        "seconds": fit.seconds,
        "stopped_by": fit.stopped_by,
        "tried": [
            {
                "kind": each.kind,
                "size": each.size,
                "parameters": each.parameters,
                "error": each.error,
                "seconds": each.seconds,
            }
            for each in fit.tried
        ],
        "history": fit.history.summary(),
    }
