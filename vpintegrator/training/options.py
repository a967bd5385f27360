"""Options of a training beside its budget: optimizer, loss, device."""

from __future__ import annotations

from dataclasses import dataclass, fields

from vpintegrator.arguments import one_of, positive, whole
from vpintegrator.runtime.devices import check_device
from vpintegrator.training.residuals import Loss, Objective


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training, each with the default of :func:`vpintegrator.train`.

    Attributes
    ----------
    recipe, optimizer, batch, learning_rate
        Training of a paper, name of the optimizer, windows in a step, and first learning rate.
    loss, horizon, noise
        Loss, predictions in a row that count, and noise on the inputs.
    initial_scheme, normalise
        Whether polynomials begin as a splitting, and whether the normalisation is set.
    device, compiled
        Device of the training, and whether machine code is used.

    Raises
    ------
    InputError
        If a value is out of range, or the recipe decides it.

    Examples
    --------
    >>> from vpintegrator.training import TrainingOptions
    >>> TrainingOptions(optimizer="adam", batch=64).changed
    {'optimizer': 'adam', 'batch': 64}
    """

    recipe: str | None = None
    optimizer: str = "auto"
    batch: int | None = None
    learning_rate: float | None = None
    loss: str | Loss = "mean-square"
    horizon: int = 1
    noise: float = 0.0
    initial_scheme: str = "auto"
    normalise: bool = True
    device: str = "cpu"
    compiled: bool | None = None

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.recipe is not None:
            one_of("recipe", self.recipe, ["published"])
            one_of("optimizer of the published recipe", self.optimizer, ["auto", "adam"])
            object.__setattr__(self, "loss", "relative")
            object.__setattr__(self, "normalise", False)
        one_of("initial_scheme", self.initial_scheme, ("auto", "none"))
        if self.batch is not None:
            whole("batch", self.batch)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        _ = self.objective

    @property
    def objective(self) -> Objective:
        """The least-squares problem."""
        return Objective(self.loss, self.horizon, self.noise)

    @property
    def changed(self) -> dict[str, object]:
        """Options that differ from their defaults, by name."""
        values = {each: getattr(self, each.name) for each in fields(self)}
        return {each.name: value for each, value in values.items() if value != each.default}
