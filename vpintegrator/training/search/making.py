"""Functions that make untrained models, as searches take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vpintegrator.arguments import called, check_integrator
from vpintegrator.models import Integrator

Arguments = dict[str, Any]  # of a model, by name
Make = Callable[[Arguments], Integrator]


def making(make: Any) -> Make:
    """Return a function whose models are checked to be such.

    Raises
    ------
    InputError
        If ``make`` cannot be called; later, if what it returns is no model.
    """
    called("make", make, "a function of the arguments of a model")

    def made(arguments: Arguments) -> Integrator:
        model: Integrator = make(arguments)
        check_integrator(model)
        return model

    return made
