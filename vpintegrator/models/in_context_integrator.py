"""Learning in context: a map of states and constants, which are read from a few states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import ContextArguments
from vpintegrator.models.base import Integrator
from vpintegrator.models.family import folded
from vpintegrator.models.inference import Context, Inference, Motion, Prior, infer
from vpintegrator.models.normalisation import positive, vector
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.nn.implicit import tolerance

if TYPE_CHECKING:
    from torch import nn


class InContextIntegrator(Integrator):
    r"""A map of states and constants of motion, with constants that are read from a context.

    .. math:: k = \arg\min_k \sum_i \bigl| z_{i+1} - \Phi(z_i; k) \bigr|^2 / \sigma^2 +
        (k - \mu)^T C^{-1} (k - \mu), \qquad z \mapsto \Phi(z; k)

    The context is any number of states of one trajectory, two or more. It is read by attention
    whose read-out is a ridge regression: keys are derivatives of :math:`\Phi` by k, values
    residuals, and iterations of Gauss-Newton are its layers. It is the same for every order of the
    pairs. For each k the *stepper* :math:`\Phi` preserves volume, or the symplectic form, exactly.

    ``forward`` reads the constants from each window. A rollout reads them once. ``at`` gives the
    map of one context as a model of one step.

    Raises
    ------
    InputError
        If the stepper is none of vpgf, sgf, vpff and spff, or its arguments do not fit.

    References
    ----------
    von Oswald et al., Uncovering mesa-optimization algorithms in Transformers, arXiv:2309.05858.

    Examples
    --------
    >>> model = vp.models.InContextIntegrator(dim=3, latent=2, window=4)
    >>> window = torch.rand(5, 4, 3, dtype=torch.float64)
    >>> model.predict(window).shape, model.infer(window).values.shape
    (torch.Size([5, 1, 3]), torch.Size([5, 2]))
    >>> model.stepper.volume_preserving
    True
    """

    name = "ict"

    Arguments = ContextArguments

    def network(self, a: ContextArguments) -> nn.Module:
        """Return the stepper, a model of states (z, k) of its own."""
        size = a.dim + a.latent
        given = a.stepper_arguments
        if given is None:
            given = {"degree": a.degree, "conserved": [*range(a.dim, size)]}
        given = {**given, "dim": size}
        found = ARCHITECTURES.find(a.stepper)(**given, dtype=a.dtype)
        if [*found.conserved] != [*range(a.dim, size)] or found.window != 1:
            raise InputError(
                f"the stepper maps states of {a.dim} components and {a.latent} constants after "
                "them: it has window = 1, and these are conserved"
            )
        self.arguments |= {"stepper_arguments": found.arguments}
        self.arguments["degree"] = found.arguments.get("degree", a.degree)
        self.latent = a.latent
        small = tolerance(found.scale.dtype)
        self.register_buffer("prior_mean", torch.zeros(a.latent, dtype=torch.float64))
        self.register_buffer("prior_factor", torch.eye(a.latent, dtype=torch.float64))
        self.register_buffer("residual", torch.full((a.dim,), small, dtype=torch.float64))
        self.register_buffer("noise", torch.zeros(a.dim, dtype=torch.float64))
        self.description = f"{a.latent} constants read from a context; {found.description}"
        return found

    @classmethod
    def over(cls, plain: Integrator, latent: int, window: int = 4) -> InContextIntegrator:
        """Return an untrained model whose stepper is one of states alone, with constants added.

        Parameters
        ----------
        plain
            A generating function of one step, with its symmetries.
        latent, window
            See the class.

        Raises
        ------
        InputError
            If the model has a chart, explicit time or constants of its own.
        """
        whole("latent", latent, 1)
        arguments, dim = dict(plain.arguments), plain.dim
        if plain.conserved or plain.chart is not None:
            raise InputError(
                "learning in context is for autonomous systems in the states themselves, of which "
                "no component is constant"
            )
        one = torch.eye(latent, dtype=torch.float64)
        rhos = [torch.block_diag(rho, one).tolist() for rho in plain.reversing_symmetries.double()]
        arguments |= {"conserved": [*range(dim, dim + latent)]}
        arguments |= {"reversing_symmetries": rhos} if rhos else {}
        return cls(
            dim=dim,
            window=window,
            latent=latent,
            stepper=plain.name,
            stepper_arguments=arguments,
            dtype=plain.scale.dtype,
        )

    @classmethod
    def around(cls, stepper: Integrator, dim: int, window: int = 4) -> InContextIntegrator:
        """Return the model of a trained stepper, whose constants follow ``dim`` components."""
        made = cls(
            dim=dim,
            window=window,
            latent=stepper.dim - dim,
            stepper=stepper.name,
            stepper_arguments=stepper.arguments,
            dtype=stepper.scale.dtype,
        )
        made.stepper.normalise_like(stepper)
        made.stepper.load_state_dict(stepper.state_dict())
        made.set_normalisation(stepper.shift[:dim], stepper.scale[:dim])
        return made

    @property
    def stepper(self) -> Integrator:
        """The map of states (z, k)."""
        assert isinstance(self.core, Integrator)
        return self.core

    @property
    def measure_preserving(self) -> bool:
        """False: a change of the window changes the constants. See ``stepper``."""
        return False

    @property
    def symplectic(self) -> bool:
        """False: a change of the window changes the constants. See ``stepper``."""
        return False

    @property
    def invertible(self) -> bool:
        """False: see ``stepper``."""
        return False

    def set_prior(self, constants: torch.Tensor) -> None:
        """Take mean and covariance of the constants (trajectory, latent) of training."""
        mean = constants.mean(0)
        covariance = torch.atleast_2d(torch.cov(constants.mT))
        one = torch.eye(len(mean), dtype=mean.dtype)
        small = torch.finfo(mean.dtype).eps * covariance.trace().clamp(min=1e-300)
        with torch.no_grad():
            self.get_buffer("prior_mean").copy_(mean)
            self.get_buffer("prior_factor").copy_(torch.linalg.cholesky(covariance + small * one))

    def set_errors(self, residual: torch.Tensor, noise: torch.Tensor | None = None) -> None:
        """Set the errors (dim,) of the stepper's images, and of states that have noise."""
        least = torch.finfo(self.scale.dtype).eps * self.scale
        with torch.no_grad():
            self.get_buffer("residual").copy_(torch.maximum(residual.to(least), least))
            self.get_buffer("noise").copy_(torch.zeros_like(least) if noise is None else noise)

    def infer(self, states: Any, times: Any = None, noise: Any = None) -> Inference:  # type: ignore[override]
        """Return the constants of each trajectory, from some of its states.

        Parameters
        ----------
        states
            Context (time, dim), or contexts (trajectory, time, dim).
        times : (time,), optional
            Times of the context in any order, whole steps apart; by default one step apart.
        noise : float or (dim,), optional
            Standard deviation of the errors of the states; by default that of the training data.

        Raises
        ------
        InputError
            If the context is too short, not finite, or its times are no whole steps apart.
        """
        context = Context.of(states, times, self.scale, self.dim)
        counts = context.steps(float(self.metadata["step"]) if "step" in self.metadata else None)
        prior = Prior(self.get_buffer("prior_mean"), self.get_buffer("prior_factor"))
        motion = Motion(self.stepper, prior.constants, counts)
        names = [f"k{number + 1}" for number in range(self.latent)]
        own = self.get_buffer("noise") if noise is None else torch.as_tensor(noise).to(self.scale)
        known = own.expand(self.dim) if bool((own > 0).all()) else None
        return infer(context, motion, prior, names, self.get_buffer("residual"), known)

    def begin(self, states: Any, times: Any = None, noise: Any = None) -> torch.Tensor:
        """Return the last states with their constants, windows (trajectory, 1, dim + latent).

        They are what ``stepper`` steps from. Arguments and errors are those of ``infer``.
        """
        found = self.infer(states, times, noise)
        return torch.cat([found.state, found.values], -1).reshape(-1, 1, self.dim + self.latent)

    def at(self, states: Any, times: Any = None, noise: Any = None) -> Integrator:  # type: ignore[override]
        """Return the map of one context (time, dim), a model of one step.

        It trains, compiles, saves, exports and compares as any other. Arguments and errors are
        those of ``infer``.
        """
        found = self.infer(states, times, noise)
        if found.values.ndim != 1:
            raise InputError("one map is of one context (time, dim); give one at a time")
        single = folded(self.stepper, found.values)
        single.metadata = dict(self.metadata)
        return single.eval()

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Map windows (..., window, dim) to those a step later, by the constants of each."""
        z = window.reshape(-1, *window.shape[-2:])
        k = self.infer(z).values
        x = torch.cat([z, k[:, None].expand(*z.shape[:-1], -1)], -1)
        return self.stepper(x.unsqueeze(-2))[..., 0, : self.dim].reshape(window.shape)

    def set_normalisation(self, shift: Any, scale: Any, spread: Any = None) -> None:
        """Set the normalisation of states, that of the stepper too; constants keep theirs."""
        of_stepper = self.stepper
        constants = slice(self.dim, None)
        both = [
            torch.cat([own.to(theirs), theirs[constants].cpu()])
            for own, theirs in (
                (vector("shift", shift, self.dim), of_stepper.shift.double()),
                (positive("scale", scale, self.dim), of_stepper.scale.double()),
            )
        ]
        of_stepper.set_normalisation(*both)
        with torch.no_grad():
            self.shift.copy_(of_stepper.shift[: self.dim])
            self.scale.copy_(of_stepper.scale[: self.dim])
