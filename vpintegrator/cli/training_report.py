"""Output of vp-train: the list of models, the model to train, and the result of the training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpintegrator.cli.architecture import help_of_options, model_options
from vpintegrator.cli.common import console, tell
from vpintegrator.cli.output import is_asked, write_json
from vpintegrator.models.registry import ARCHITECTURES

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import History


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


def announce(model: Integrator, data: Dataset) -> None:
    """Print the model to train and the dataset."""
    count = sum(p.numel() for p in model.parameters())
    traits = ["volume-preserving" if model.volume_preserving else "not volume-preserving"]
    if model.measure_preserving and not model.volume_preserving:
        traits = ["preserves the volume of its coordinates"]
    if model.symplectic:
        traits = ["symplectic"]
    if len(model.reversing_symmetries):
        traits.append(f"reversible ({len(model.reversing_symmetries)} symmetries)")
    tell(f"  {model.name}: {', '.join(traits)}; {count} parameters")
    tell(f"  {model.description}")
    if not is_asked("verbose"):
        return
    for line in model.choices:
        tell(f"  {line}")
    tell(
        f"  window {model.window}, predicting {model.prediction_window}; step {data.step_text}; "
        f"{data.shapes['train'][0]} training trajectories of {data.system.title}"
    )


def attention_words(model: Integrator) -> str:
    """Return words on attention at the identity, and on what that means; else empty."""
    from vpintegrator.models.one_step import without_attention

    alone = without_attention(model) is not None
    effect = ": the states of a window are mapped one by one" if alone else ""
    return model.attention_at_identity and f"{model.attention_at_identity}{effect}"


def report(model: Integrator, history: History, path: Path) -> None:
    """Print the result of a training, and the path of the model."""
    ending = {
        "interrupt": "interrupted; the best model so far is kept, --start goes on from it",
        "divergence": "the error exploded again and again; the best model before is kept",
    }.get(history.stopped_by, f"stopped by {history.stopped_by}")
    how = "" if history.device == "cpu" else f" on {history.device}"
    how += ", compiled" if history.compiled else ""
    tell(f"  {history.optimizer}{how}: {history.epochs} epochs in {history.used:.0f} s, {ending}")
    if history.not_compiled and history.epochs and history.stopped_by != "solved":
        tell(f"  not compiled: {history.not_compiled}")
    if history.rollbacks:
        tell(f"  went back to the best weights {history.rollbacks} times")
    tell(
        f"  relative error one window ahead: validation {history.best_validation_error:.2e} "
        f"(epoch {history.best_epoch}), test {history.test_error:.2e}"
    )
    if words := attention_words(model):
        tell(f"  {words}")
    if history.overfitted:
        tell(
            f"  the training windows were learned better and others worse after epoch "
            f"{history.best_epoch}: give more trajectories, --noise or --horizon"
        )
    tell(f"  written to {path}")
