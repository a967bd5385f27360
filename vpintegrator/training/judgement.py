"""Whether a trained model is worth anything: its errors beside each other and beside no change."""

from __future__ import annotations

import math

from vpintegrator.data.pairs import Pair
from vpintegrator.models import Integrator
from vpintegrator.training.history import History
from vpintegrator.training.objective import Objective
from vpintegrator.training.residuals import ErrorScale, relative

# times the validation error, at least: 7 times is the most of about a dozen systems of the
# catalogue, and 400 where the validation error is rounding, below _ROUNDING
_FAR, _ROUNDING = 100.0, 1e-10


def doubt(model: Integrator, held_out: Pair, scale: ErrorScale, history: History) -> str:
    """Return a warning if errors exceed those of no change, or are far larger on the test group.

    Parameters
    ----------
    model
        Trained.
    held_out
        Pairs of windows of the validation group.
    scale
        The size of errors.
    history
        History with the errors of validation and test.

    Examples
    --------
    >>> from vpintegrator.training.judgement import doubt
    >>> from vpintegrator.training.residuals import ErrorScale
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> windows = torch.zeros(5, 1, 2).double(), torch.ones(5, 1, 2).double()
    >>> history = vp.training.History("adam", 0, 100, best_validation_error=0.1, test_error=1e9)
    >>> doubt(model, windows, ErrorScale((0, 1), 1.0), history)
    'vpff is not to be relied on: its test error 1.0e+09 is far above the validation error 1.0e-01'
    """
    inputs, targets = held_out
    new_states = Objective().new_states(model, targets)
    moved = (inputs[..., -1:, :] - new_states)[..., list(scale.components)].square().sum()
    still = relative(moved.item(), new_states[..., 0].numel(), scale.spread)
    validation, test = history.best_validation_error, history.test_error
    unreliable = f"{model.name} is not to be relied on: its"
    if test > max(_FAR * validation, _ROUNDING):
        return (
            f"{unreliable} test error {test:.1e} is far above the validation error {validation:.1e}"
        )
    for name, error in (("validation", validation), ("test", test)):
        if math.isfinite(still) and error > still:
            return f"{unreliable} {name} error {error:.1e} is above that of no change, {still:.1e}"
    return ""
