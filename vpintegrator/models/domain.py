"""Domain of the data that a model was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vpintegrator.dynamics.training_domain import recorded_domain
from vpintegrator.errors import InputError
from vpintegrator.nn.tensor_arguments import last_size


def in_domain(model: Any, states: Any) -> Any:
    """Return whether states lie in the domain of the data, see ``Integrator.in_domain``."""
    keys = ("region", "system")
    if not all(key in model.metadata for key in keys):
        raise InputError("the model does not say which states it was trained on; train it")
    region, system = recorded_domain(
        *(model.metadata[key] for key in keys),
        model.metadata.get("system_name", "system"),
        model.metadata.get("parameters", "{}"),
    )
    given = states if torch.is_tensor(states) else np.asarray(states, dtype=np.float64)
    last_size("states", torch.as_tensor(given), {"dim": model.dim})
    inside = region.holds(system, given[..., : model.state_dim])
    if model.chart is not None:
        with torch.no_grad():
            images = model.chart(torch.as_tensor(given).to(model.shift))
        placed = images.isfinite().all(-1)
        inside &= placed if torch.is_tensor(states) else placed.cpu().numpy()
    return inside
