"""Gaussian posterior of a model's coefficients: models drawn from it keep the structure."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import whole, whole_number
from vpintegrator.errors import InputError
from vpintegrator.storage.reading import read_json

PREFIX = "posterior."  # of the names of its tensors in a model's file
_TENSORS = ("mean", "factor", "noise", "freedom")
_ERRORS = {"images": "images, with that of the states before a step", "states": "all states"}

Drawn = TypeVar("Drawn", bound="WithPosterior")


@dataclass(frozen=True)
class Posterior:
    """Normal distribution of the trained coefficients of a model, and the noise of its data.

    Attributes
    ----------
    mean : Tensor (coefficient,)
        Coefficients of the model.
    factor : Tensor (coefficient, rank)
        Factor F of the covariance :math:`F F^T`.
    noise, freedom : Tensor (dim,)
        Standard deviation of the noise of each component, in its units, and the degrees of freedom
        that it is estimated with; zero for constants.
    errors
        States that have the noise: ``"images"`` of pairs alone, or all ``"states"`` of orbits.
    """

    mean: torch.Tensor
    factor: torch.Tensor
    noise: torch.Tensor
    freedom: torch.Tensor
    errors: str = "images"

    def draws(self, count: int, seed: int = 0) -> torch.Tensor:
        """Return coefficients (draw, coefficient); the first ones do not depend on the count."""
        generator = np.random.default_rng(seed)
        normal = torch.from_numpy(generator.normal(size=(count, self.factor.shape[1])))
        return self.mean + normal @ self.factor.mT

    @property
    def noise_error(self) -> torch.Tensor:
        """Standard error of the noise (dim,)."""
        return self.noise / (2 * self.freedom.clamp(min=1)).sqrt()

    @property
    def words(self) -> str:
        """Description of the noise in one line."""
        pairs = zip(self.noise.tolist(), self.noise_error.tolist(), strict=True)
        levels = ", ".join(f"{level:.3g} ± {error:.1g}" for level, error in pairs if level)
        return f"noise of {_ERRORS[self.errors]}: {levels}"

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors by the names that they have in a model's file."""
        return {PREFIX + name: getattr(self, name) for name in _TENSORS}

    @property
    def text(self) -> str:
        """Metadata in a model's file, as JSON."""
        return json.dumps({"errors": self.errors})

    @classmethod
    def of_file(
        cls, text: str, tensors: Mapping[str, torch.Tensor], model: nn.Module, where: str
    ) -> Posterior:
        """Return the posterior of a model in a file.

        Raises
        ------
        InputError
            If tensors are missing, do not fit the model, or are not finite.
        """
        errors = read_json(text, f"{where}: posterior").get("errors")
        count, dim = sum(p.numel() for p in _trained(model)), int(getattr(model, "dim", 0))
        sizes = {"mean": (count,), "noise": (dim,), "freedom": (dim,)}
        found: dict[str, torch.Tensor] = {}
        for name in _TENSORS:
            tensor = tensors.get(PREFIX + name)
            if (
                tensor is None
                or tensor.dtype != torch.float64
                or (name == "factor" and (tensor.ndim != 2 or len(tensor) != count))
                or tuple(tensor.shape) != sizes.get(name, tuple(tensor.shape))
                or not bool(tensor.isfinite().all())
            ):
                raise InputError(f"{where}: the posterior's {name} does not fit the model")
            found[name] = tensor
        if not isinstance(errors, str) or errors not in _ERRORS or bool((found["noise"] < 0).any()):
            raise InputError(f"{where}: the posterior is damaged")
        return cls(**found, errors=errors)


class WithPosterior:
    """Base of models that may hold a Gaussian posterior of their coefficients.

    Attributes
    ----------
    posterior
        Posterior of generating functions that were trained on noisy states, and of couplings of
        few noisy pairs; None for others, and for states without noise.
    """

    posterior: Posterior | None = None
    metadata: dict[str, str]

    def sample(self: Drawn, n: int, seed: int = 0) -> list[Drawn]:
        """Return models drawn from the posterior of the coefficients.

        Each draw is a model of the same kind, so it keeps the same structure exactly. Generating
        functions (``sgf``, ``vpgf``) that were trained on noisy states hold a posterior, and
        couplings (``spff``, ``vpff``) that were found for few noisy pairs.

        Parameters
        ----------
        n
            Number of draws.
        seed
            Seed of the draws; the first of more draws are the same.

        Raises
        ------
        InputError
            If the model holds no posterior, or was trained further after it was computed.

        Examples
        --------
        >>> noise = {"noise": 0.01}
        >>> dataset = vp.generate("pendulum", "p.h5", count=30, observation=noise, overwrite=True)
        >>> model = vp.models.build(dataset.system, "sgf", degree=6)
        >>> history = vp.train(model, dataset, optimizer="linear")
        >>> draws = model.sample(8)
        >>> len(draws), draws[0].symplectic
        (8, True)
        """
        assert isinstance(self, nn.Module)
        n, seed = whole("n", n), whole_number("seed", seed)
        draws = checked(self).draws(n, seed)
        return [_drawn(self, values, f"{k + 1} of seed {seed}") for k, values in enumerate(draws)]


class WithNoise(WithPosterior):
    """Base of models that know the noise of their data."""

    @property
    def noise(self) -> np.ndarray | None:
        """Estimated standard deviation of the noise of each component (dim,), None if not known."""
        return None if self.posterior is None else self.posterior.noise.numpy().copy()


def checked(model: Any) -> Posterior:
    """Return the posterior of a model.

    Raises
    ------
    InputError
        If the model holds none, or was trained further after it was computed.
    """
    posterior = getattr(model, "posterior", None)
    name = getattr(model, "name", type(model).__name__)
    if posterior is None:
        raise InputError(
            f"the model {name} holds no posterior to draw from: generating functions (sgf, vpgf) "
            "trained on noisy states have one, and couplings of few noisy pairs"
        )
    own = torch.cat([p.detach().reshape(-1) for p in _trained(model)]).cpu()
    if not torch.equal(own, posterior.mean.to(own.dtype)):
        raise InputError(
            f"the coefficients of {name} changed after its posterior was computed; train it again"
        )
    return posterior


def named_draws(model: nn.Module, values: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return drawn coefficients (draw, coefficient) by the names of parameters, (draw, ...)."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    parts = values.split([p.numel() for _, p in named], -1)
    return {
        name: part.reshape(*part.shape[:-1], *p.shape).to(p.detach())
        for (name, p), part in zip(named, parts, strict=True)
    }


def _trained(model: nn.Module) -> list[torch.Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


def _drawn(model: Drawn, values: torch.Tensor, which: str) -> Drawn:
    posterior = model.posterior
    found = copy.deepcopy(model, {id(posterior): posterior})
    found.posterior = None
    assert isinstance(found, nn.Module)
    with torch.no_grad():
        for name, value in named_draws(found, values).items():
            found.get_parameter(name).copy_(value)
    found.metadata["draw"] = which
    return found
