"""Optimizers: how the weights of a model are found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import torch
from torch.func import jacrev, vmap

from vpintegrator.compiled import CompiledResidual
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.training.least_squares import DampedIteration, NormalEquations, Residual
from vpintegrator.training.linear import enough_pairs
from vpintegrator.training.regression import solve
from vpintegrator.training.residuals import Objective, Residuals, machine_windows, relative
from vpintegrator.training.stiefel_adam import StiefelAdam, projections
from vpintegrator.training.training_data import TrainingData


class Optimizer(ABC):
    """Base class of optimizers; ``BY_NAME`` lists them all.

    Parameters
    ----------
    model
        Trained in place.
    pairs
        Pairs of windows, of which the optimizer reads those that it uses.
    objective
        Objective to minimise.
    batch, learning_rate
        Windows in a step, and the rate at the beginning.
    generator
        Generator of the choice and order of windows, and of the noise.
    compiled
        The residuals as machine code, for those that can use it.
    data
        Training data, for those that choose pairs of their own.

    Attributes
    ----------
    name
        Name for users.
    compiles
        Whether it can use machine code.
    follows_gradients
        Whether steps follow gradients of batches. Such optimizers have a learning rate, and models
        compute with whole batches, as batch norm needs it; else window by window.
    batch_size
        Windows in a step, if no number is given.
    step_seconds
        Approximate time of a step in PyTorch, for the smallest models.
    finished
        Why further epochs change nothing, as in ``History.stopped_by``; empty where they may.
    windows
        Windows in use, if that is a number that changes; else 0.
    """

    name: ClassVar[str]
    compiles: ClassVar[bool] = False
    follows_gradients: ClassVar[bool] = False
    batch_size: ClassVar[int]
    step_seconds: ClassVar[float] = 0.0
    finished: str = ""
    windows: int = 0

    def __init__(
        self,
        model: Model,
        pairs: Pairs,
        objective: Objective | None = None,
        *,
        batch: int | None = None,
        learning_rate: float | None = None,
        generator: torch.Generator,
        compiled: CompiledResidual | None = None,
        data: TrainingData | None = None,
    ) -> None:
        self.model = model
        self.pairs = pairs
        self.generator = generator
        self.data = data
        self.objective = objective or Objective()
        self.batch = batch or self.default_batch(model, self.objective)
        self.learning_rate = learning_rate
        self.residuals = Residuals(model, self.objective, compiled)

    @classmethod
    def default_batch(cls, model: Model, objective: Objective) -> int:
        """Return windows in a step, if no number is given."""
        return cls.batch_size

    @classmethod
    def steps(cls, pairs: int, batch: int) -> float:
        """Return the number of steps in an epoch."""
        return 1.0

    @abstractmethod
    def epoch(self, progress: float) -> float:
        """Improve the model once; return the root mean square distance from the new states.

        It is that of the windows that were used.

        Parameters
        ----------
        progress
            Share of the budget used so far, 0 to 1.
        """

    def observe(self, training_error: float, validation_error: float) -> None:  # noqa: B027
        """Learn how well the last epoch generalises."""

    def roll_back(self) -> None:  # noqa: B027
        """Go on from the better weights that the model has been set back to, more carefully."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return tensors by which :meth:`restore` goes on between two epochs.

        Raises
        ------
        InputError
            If the optimizer keeps none.
        """
        able = ", ".join(each.name for each in BY_NAME.values() if each.follows_gradients)
        raise InputError(f"{self.name} keeps no checkpoint; leave it out, or use one of {able}")

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a state, with the weights of the model at that time."""
        raise NotImplementedError

    def ready(self, pair: Pair) -> Pair:
        """Return inputs with noise, and the states to be predicted from them."""
        inputs, targets, parameters = pair.to(self.model.scale)
        targets = self.objective.new_states(self.model, targets)
        return Pair(self.objective.noisy(self.model, inputs, self.generator), targets, parameters)

    def chosen(self, numbers: torch.Tensor) -> tuple[Pair, torch.Tensor | None]:
        """Return the pairs of some numbers, or all and the rows that machine code is to read."""
        is_read_in_place = self.residuals.compiled is not None and not self.objective.noise
        if is_read_in_place and self.pairs.parameters is None:
            return self.ready(self.pairs.views()), self.pairs.first.index_select(0, numbers)
        return self.ready(self.pairs.pair(numbers)), None


class LevenbergMarquardt(Optimizer, Residual):
    """The damped iteration on the residuals of some windows, with their exact Jacobian.

    The windows in use are a random subset. A new subset is drawn when no step lowers the cost: the
    subset is fitted to rounding, or a minimum is reached. The subset is doubled when its error is
    below the validation error, and the latter has not improved for some iterations. A larger subset
    before that would only slow iterations down.

    Memory: a block of the Jacobian (8 MiB, and a few times that for intermediate values) and a
    matrix of (parameters)^2, 3.2 GB for 20,000; where there is no C++ compiler, and on a GPU, three
    of them. The number of windows does not matter.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`Optimizer`.
    batch
        Windows in use to begin with; by default so many that there are four residuals for each
        parameter, two of more than 1,000 parameters, and at least 256 (or all there are).
    """

    name = "levenberg-marquardt"
    compiles = True
    step_seconds = 0.05
    block_bytes: ClassVar[int] = 1 << 23  # of the Jacobian
    together: ClassVar[int] = 16  # windows whose residuals are differentiated row by row

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # validation error, and iterations since it fell
        self.best = math.inf
        self.stalled = 0
        axes = (0, 0, None if self.pairs.parameters is None else 0)
        self.jacobian = vmap(jacrev(self._residual_twice, has_aux=True), (None, *axes))
        self.transforms = True  # whether torch.func can follow the model
        self.restart()
        vector = self.iteration.parameters
        self.equations = NormalEquations(vector, self.residuals.compiled is not None)
        rows = self.objective.residuals_of_window(self.model)
        self.block = max(self.block_bytes // (8 * rows * len(vector)), 16)

    @classmethod
    def default_batch(cls, model: Model, objective: Objective) -> int:
        """Return the number of windows that determines the parameters well."""
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        # with more parameters J^T J takes most of the time: with two rows for each the error after
        # 30 to 40 s is 1.5 to 3 times smaller (neurons of 1,440 and polynomials of 1,188 parameters
        # on the rigid body, a transformer of 1,623)
        rows = 4 if count <= 1_000 else 2
        return max(rows * count // objective.residuals_of_window(model), 256)

    def restart(self, damping: float = 0.0) -> None:
        """Draw another subset of windows, and go on from the model's parameters."""
        self.pair = self.ready(self.pairs.sample(self.batch, self.generator))
        self.size = self.pair.targets[..., 0].numel()
        self.windows = len(self.pair.inputs)
        first = 1e-7 if self.model.record.history else 1e-3
        self.iteration = DampedIteration(self, self.residuals.read(), first)
        self.iteration.damping = damping

    def epoch(self, progress: float) -> float:
        """Do one iteration; ``progress`` is not used."""
        if self.iteration.step():
            self.residuals.write(self.iteration.parameters)
        else:
            self.restart()
        return relative(self.squares, self.size)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when others get no better, and those in use do."""
        if validation_error < 0.9 * self.best:
            self.best = validation_error
            self.stalled = 0
            return
        self.stalled += 1
        overfitted = validation_error > 1.3 * training_error  # with four residuals a parameter
        if overfitted and self.stalled >= 10 and self.batch < len(self.pairs):
            self.batch = 2 * self.batch
            self.stalled = 0
            self.restart(self.iteration.damping)

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them with twice as many windows.

        What fits those in use and is far off on others says that these are too few.
        """
        self.batch = min(2 * self.batch, len(self.pairs))
        self.restart()

    def cost(self, parameters: torch.Tensor) -> float:
        """Return the weighted sum of squares over the windows in use, and keep the plain one."""
        sums = self.residuals.sums(parameters, self.pair)
        cost, self.squares = sums.tolist()
        return float(cost)

    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations of the windows in use, overwritten by the next call."""
        self.equations.clear()
        for jacobian, residual in self._jacobians(parameters):
            self.equations.add(jacobian, residual)
        return self.equations

    def _jacobians(self, parameters: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield J (row, parameter) and r (row,), block by block of windows."""
        if (compiled := self.residuals.compiled) is not None:
            vector = parameters.detach().numpy()
            for rows in compiled.jacobians(vector, *machine_windows(self.pair)):
                check_time()
                yield torch.from_numpy(rows[0]), torch.from_numpy(rows[1])
            return
        for part in self.pair.split(self.block):
            check_time()
            if self.transforms:
                try:
                    jacobian, residual = self.jacobian(parameters, *part)
                    yield jacobian.reshape(-1, len(parameters)), residual.detach().reshape(-1)
                    continue
                except RuntimeError:  # recurrent layers, gradients inside a forward, branches
                    self.transforms = False
            for few in part.split(self.together):
                yield self._by_rows(parameters, few)

    def _by_rows(self, parameters: torch.Tensor, pair: Pair) -> tuple[torch.Tensor, torch.Tensor]:
        """Return J (row, parameter) and r (row,) of a few windows in reverse mode, row by row."""
        check_time()
        vector = parameters.detach().requires_grad_()
        residual = self.residuals(vector, pair)  # (row,)
        if not residual.requires_grad:  # a branch of the network without parameters
            return residual.new_zeros(len(residual), len(vector)), residual
        rows = torch.eye(len(residual)).to(residual)  # (row, row)
        options: Any = {"retain_graph": True}
        try:
            (jacobian,) = torch.autograd.grad(
                residual, vector, rows, is_grads_batched=True, **options
            )
        except RuntimeError:  # kernels that take one row at a time
            each = [torch.autograd.grad(residual, vector, row, **options)[0] for row in rows]
            jacobian = torch.stack(each)
        return jacobian, residual.detach()

    def _residual_twice(self, vector: torch.Tensor, *pair: Any) -> tuple[torch.Tensor, ...]:
        return (self.residuals(vector, Pair(*pair)),) * 2  # once to be differentiated


class Adam(Optimizer):
    """Steps along gradients of batches (Kingma and Ba, arXiv 1412.6980).

    An epoch passes once over all windows; of more than 524,288 windows it takes as many at random.
    The rate falls along a half cosine from ``learning_rate`` to a thousandth of it over the budget,
    which is what lets the error keep falling to the end. Parameters are one vector: updates of many
    small tensors would take longer than the rest.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`Optimizer`.
    batch, learning_rate
        1024 windows and 0.005 by default.
    """

    name = "adam"
    compiles = True
    follows_gradients = True
    batch_size = 1024
    step_seconds = 0.005
    first_rate: ClassVar[float] = 5e-3
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    longest: ClassVar[int] = 1 << 19  # windows after which an epoch of a large group ends

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rate = self.learning_rate or self.first_rate
        self.parameters = torch.nn.Parameter(self.residuals.read())
        self.optimizer = self.torch_optimizer()

    def torch_optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer of torch that does the steps."""
        return torch.optim.Adam([self.parameters], self.rate, self.betas, fused=True)

    @classmethod
    def steps(cls, pairs: int, batch: int) -> float:
        """Return the number of steps in an epoch, one for each batch."""
        return min(pairs, cls.longest) / batch

    def move(self, gradient: torch.Tensor, rate: float) -> None:
        """Do one step from the parameters along a gradient of the loss."""
        self.optimizer.param_groups[0]["lr"] = rate
        self.parameters.grad = gradient
        self.optimizer.step()

    def decay(self, progress: float) -> float:
        """Return the factor of the learning rate at a share of the budget."""
        return 1e-3 + (1 - 1e-3) * (0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))

    def divisor(self, squares: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor | int:
        """Return the inverse of the derivative of a batch's loss by its sum of squares."""
        return len(numbers) * self.objective.residuals_of_window(self.model)

    def epoch(self, progress: float) -> float:
        """Train on the windows once, at a rate that falls with ``progress``."""
        rate = self.rate * self.decay(progress)
        self.parameters.data.copy_(self.residuals.read())
        sums = self.parameters.new_zeros(2, requires_grad=False)
        states = 0
        batches = self.pairs.shuffled(self.batch, self.generator)
        eager = self.residuals.compiled is None  # machine code knows no modes
        if eager:
            self.model.train()
        try:
            for numbers in islice(batches, math.ceil(self.longest / self.batch)):
                squares, gradient = self.residuals.gradient(self.parameters, *self.chosen(numbers))
                self.move(gradient / self.divisor(squares[0], numbers), rate)
                sums += squares
                states += len(numbers)
        finally:  # also of an epoch that is left
            if eager:
                self.model.eval()
            self.residuals.write(self.parameters.detach())
        states *= self.objective.residuals_of_window(self.model) // self.model.dim
        return relative(sums.tolist()[1], states)

    def roll_back(self) -> None:
        """Reset the optimizer's moments, and reduce the learning rate."""
        self.rate *= 0.3
        self.optimizer.state.clear()

    def torch_optimizers(self) -> list[torch.optim.Optimizer]:
        """Return all optimizers of torch whose moments are a part of the state."""
        return [self.optimizer]

    def state(self) -> dict[str, torch.Tensor]:
        """Return rate, random numbers and moments."""
        rate = torch.tensor(self.rate, dtype=torch.float64, device="cpu")
        state = {"rate": rate, "generator": self.generator.get_state()}
        for i, optimizer in enumerate(self.torch_optimizers()):
            for place, moments in optimizer.state_dict()["state"].items():
                for name, value in moments.items():
                    state[f"{i}.{place}.{name}"] = torch.as_tensor(value)
        return state

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a state, with the weights of the model at that time."""
        self.rate = float(state["rate"])
        self.generator.set_state(state["generator"])
        for i, optimizer in enumerate(self.torch_optimizers()):
            moments: dict[int, dict[str, Any]] = {}
            for name, value in state.items():
                number, _, rest = name.partition(".")
                if number == str(i):
                    place, _, moment = rest.partition(".")
                    # whole numbers again, as powers by integer tensors are in single precision
                    number_or_tensor = value if value.is_floating_point() else int(value)
                    moments.setdefault(int(place), {})[moment] = number_or_tensor
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


class PublishedAdam(Adam):
    r"""Adam as in arXiv 2312.11166: large batches, and a rate that falls exponentially.

    The loss of a batch is the relative error
    :math:`\| z^{\text{predicted}} - z^{\text{true}} \| / \| z^{\text{true}} \|` of all its states
    together. The rate falls from 1e-2 to 1e-6 over the budget; the moments decay by 0.9 and 0.99.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 6; GeometricMachineLearning.jl,
    ``AdamOptimizerWithDecay``, whose rate falls with every batch by as much as here in an epoch.
    """

    name = "adam, as published"
    batch_size = 16384
    first_rate = 1e-2
    betas = (0.9, 0.99)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        new = self.objective.new_states(self.model, self.pairs.views().targets)
        self.target_squares = new.square().sum((1, 2))[self.pairs.first]  # (pair,)

    def decay(self, progress: float) -> float:
        return 1e-4**progress

    def divisor(self, squares: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return 2 * squares.sqrt() * self.target_squares[numbers].sum().sqrt()


class Momentum(Adam):
    """Gradient descent with momentum: batches and the fall of the rate are those of ``Adam``.

    Polyak, USSR Comput. Math. Math. Phys. 4 (1964). A step is ``learning_rate`` times the sum of
    the gradients so far, each older one counting 0.9 times as much.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`Optimizer`.
    batch, learning_rate
        1024 windows and 0.1 by default.
    """

    name = "momentum"
    first_rate = 0.1
    decay_of_gradients: ClassVar[float] = 0.9

    def torch_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.parameters], self.rate, self.decay_of_gradients)


class ManifoldAdam(Adam):
    """Adam on the Stiefel manifold for projections of heads, and ``Adam`` for all other weights.

    The rows of the projections are orthonormal at first, and stay so to rounding. Batches and the
    fall of the rate are those of ``Adam``; see :class:`StiefelAdam` for the steps.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`Optimizer`.
    batch, learning_rate
        1024 windows and 0.005 by default.
    """

    name = "stiefel-adam"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.weights: list[torch.nn.Parameter] = []
        self.places: list[slice] = []  # of the weights in the vector of all parameters
        wanted = {id(heads.weight) for heads in projections(self.model)}
        end = 0
        for weight in self.residuals.trained.values():
            place = slice(end, end + weight.numel())
            end = place.stop
            if id(weight) in wanted:
                view = self.parameters.data[place].view(weight.shape)  # in the vector's memory
                self.weights.append(torch.nn.Parameter(view))
                self.places.append(place)
        self.on_manifold = StiefelAdam(self.weights, lr=self.rate, betas=self.betas)

    def move(self, gradient: torch.Tensor, rate: float) -> None:
        """Move the projections on the manifold, and the other weights along the gradient."""
        gradient = gradient.clone()
        for weight, place in zip(self.weights, self.places, strict=True):
            weight.grad = gradient[place].reshape(weight.shape).clone()
            gradient[place] = 0.0  # Adam leaves weights without a gradient where they are
        super().move(gradient, rate)
        self.on_manifold.param_groups[0]["lr"] = rate
        self.on_manifold.step()

    def torch_optimizers(self) -> list[torch.optim.Optimizer]:
        """Return both optimizers."""
        return [self.optimizer, self.on_manifold]

    def roll_back(self) -> None:
        """Reset the moments of both optimizers, and reduce the learning rate."""
        super().roll_back()
        self.on_manifold.state.clear()


class LinearSolve(Optimizer):
    """Linear least-squares solve for a generating function, a linear map or a polynomial.

    One epoch is the whole training. Random pairs of the training group give twenty equations for
    each coefficient.
    """

    name = "linear"
    finished = "solved"

    @classmethod
    def default_batch(cls, model: Model, objective: Objective) -> int:
        """Return the number of pairs that gives twenty equations for each coefficient."""
        return enough_pairs(model)

    def epoch(self, progress: float) -> float:
        """Solve; return the leave-one-out error."""
        assert self.data is not None
        return solve(self.model, self.data, self.generator.initial_seed(), self.batch).error


class LBFGS(Optimizer):
    """torch's L-BFGS with a strong Wolfe line search; an epoch is 20 of its iterations.

    Liu and Nocedal, Math. Program. 45 (1989) 503-528.

    Its vectors are on the CPU, where the model is on a GPU, too: it looks at a number after nearly
    every operation on them, for each of which a GPU would be waited for. So a gradient is a copy
    there and a copy back.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`Optimizer`.
    batch
        2048 windows by default: one subset throughout, as the method needs.
    """

    name = "l-bfgs"
    compiles = True
    batch_size = 2048
    step_seconds = 0.5
    iterations: ClassVar[int] = 20  # of an epoch

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parameters = torch.nn.Parameter(self.residuals.read().cpu())
        self.pair = self.ready(self.pairs.sample(self.batch, self.generator))
        self.roll_back()

    def epoch(self, progress: float) -> float:
        """Do some iterations; ``progress`` is not used."""
        self.parameters.data.copy_(self.residuals.read())
        self.optimizer.step(self._closure)
        vector = self.parameters.detach().to(self.pair.inputs.device)
        self.residuals.write(vector)
        squares = self.residuals.sums(vector, self.pair)[1].item()
        return relative(squares, self.pair.targets[..., 0].numel())

    def _closure(self) -> float:
        vector = self.parameters.detach().to(self.pair.inputs.device)
        squares, gradient = self.residuals.gradient(vector, self.pair)
        self.parameters.grad = (gradient / self.pair.targets.numel()).cpu()
        return (squares[0] / self.pair.targets.numel()).item()

    def roll_back(self) -> None:
        """Forget what was learned of the curvature; tolerances do not end the iterations."""
        endless = {"tolerance_grad": 0, "tolerance_change": 0, "line_search_fn": "strong_wolfe"}
        sizes = {"max_iter": self.iterations, "history_size": 50}
        self.optimizer = torch.optim.LBFGS([self.parameters], **sizes, **endless)  # type: ignore[arg-type]


_ALL: tuple[type[Optimizer], ...] = (
    LevenbergMarquardt,
    Adam,
    Momentum,
    ManifoldAdam,
    LinearSolve,
    LBFGS,
)
BY_NAME = {kind.name: kind for kind in _ALL}
