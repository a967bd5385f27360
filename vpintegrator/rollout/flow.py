"""Numerical flows: learned and classical maps with one interface for NumPy arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vpintegrator.compiled import compile_method
from vpintegrator.dynamics import Structure, System
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.maps import (
    ClassicalMethod,
    OneStepMethod,
    find_method,
)
from vpintegrator.maps.cursor import Cursor
from vpintegrator.rollout.neural import (
    LearnedCursor,
    as_windows,
    compile_for,
    evaluating,
    network_jacobian,
    network_tangent,
)

if TYPE_CHECKING:
    from vpintegrator.compiled import CompiledMethod, CompiledModel
    from vpintegrator.models import Integrator


class NumericalFlow(ABC):
    r"""A map of windows of states that moves them ``prediction_window`` steps forward in time.

    .. math:: \Phi : (z_1, \dots, z_T) \mapsto (z_{1+P}, \dots, z_{T+P})

    A classical method reads and writes a single state: its windows have one row. All arrays are
    float64, whatever the model computes in.

    Attributes
    ----------
    name, title
        Its name, and that in figures.
    kind
        ``"learned"`` or ``"classical"``.
    method_name, description
        Name of the classical method or of the architecture, and a line about it.
    order
        Order of convergence; None for a learned map.
    structure
        Structure of the map for this system.
    remark
        What else is to be said of the map beside its structure; else empty.
    differentiable
        Whether it has a ``derivative``.
    system
        The system, where it is known.
    domain
        Training domain of a model, where it is known.
    step
        Time step h.
    dim, window, prediction_window
        Components of a state, time steps read, and time steps predicted.
    """

    name: str
    title: str
    kind: str
    method_name: str
    description: str
    order: int | None = None
    structure: Structure = Structure()
    remark: str = ""
    differentiable: bool = True
    system: System | None
    domain: Domain | None = None
    step: float
    dim: int
    window: int = 1
    prediction_window: int = 1

    @abstractmethod
    def map(self, windows: np.ndarray) -> np.ndarray:
        """Map windows (n, window, dim) to the windows ``prediction_window`` steps later.

        NaN where the step cannot be computed.
        """

    @abstractmethod
    def derivative(self, windows: np.ndarray) -> np.ndarray:
        """Return Jacobian matrices of ``map`` at windows (n, window, dim).

        Shape (n, window * dim, window * dim), time before component in rows and columns alike; NaN
        where the step cannot be computed.

        Raises
        ------
        InputError
            If the method is no fixed map: SciPy's adaptive solvers.
        """

    def tangent(self, windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return images (n, window * dim, k) of tangent vectors under the derivative at windows.

        ``vectors`` are (n, window * dim, k), or (window * dim, k) for all windows.
        """
        return self.derivative(windows) @ vectors

    @abstractmethod
    def start(self, first: np.ndarray) -> Cursor:
        """Return a cursor of trajectories from first windows (trajectory, window, dim)."""

    def compile(self, states: np.ndarray, compiled: bool | None) -> Self:
        """Return the flow as machine code for states (n, dim), if wanted and possible.

        Raises
        ------
        InputError
            If ``compiled`` is true and machine code is impossible.
        """
        return self

    def parts(self, first: np.ndarray, steps: int, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield trajectories from first windows part by part, up to the state after ``steps``.

        Each part comes with the step at which it starts: first the windows themselves, then states
        (trajectory, count, dim), at most ``size`` steps of them.
        """
        cursor, done, states = self.start(first), 0, first[:, : steps + 1]
        while True:
            yield done, states
            done += states.shape[1]
            if done > steps:
                return
            states = cursor.advance(min(size, steps + 1 - done))


class ClassicalFlow(NumericalFlow):
    """Classical method with its system and step.

    Parameters
    ----------
    method, system, step
        The method or its name, the system, and the time step.
    compiled
        Machine code of method and system, which then computes the trajectories; see
        :func:`vpintegrator.compiled.compile_method`.

    Raises
    ------
    InputError
        If there is no such method or it does not apply to the system.
    """

    kind = "classical"
    system: System

    def __init__(
        self,
        method: str | ClassicalMethod,
        system: System,
        step: float,
        compiled: CompiledMethod | None = None,
    ) -> None:
        self.method = method if isinstance(method, ClassicalMethod) else find_method(method)
        self.method.require(system)
        self.name = self.method_name = self.method.name
        self.title, self.description = self.method.title, self.method.source
        self.order, self.structure = self.method.order, self.method.structure(system)
        self.differentiable = isinstance(self.method, OneStepMethod)
        self.system, self.step, self.dim = system, float(step), system.dim
        self.compiled = compiled

    def __getstate__(self) -> dict[str, Any]:
        # a library is of one process; another makes its own
        return {**self.__dict__, "compiled": None}

    def compile(self, states: np.ndarray, compiled: bool | None) -> Self:
        flow = copy(self)
        flow.compiled = compile_method(self.method, self.system, states, self.step, compiled)
        return flow

    def map(self, windows: np.ndarray) -> np.ndarray:
        if isinstance(self.method, OneStepMethod):
            return self.method.step(self.system, windows, self.step)
        return self.method.start(self.system, windows[:, 0], self.step).advance(1)

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        if not isinstance(self.method, OneStepMethod):
            raise InputError(
                f"{self.name} has an adaptive step size, so it is no fixed map and has no "
                "derivative; take a method with a fixed step"
            )
        with np.errstate(all="ignore"):
            return self.method.derivative(self.system, windows[:, 0], self.step)

    def start(self, first: np.ndarray) -> Cursor:
        if self.compiled is not None:
            return self.compiled.start(first[:, 0], self.step)
        return self.method.start(self.system, first[:, 0], self.step)


class LearnedFlow(NumericalFlow):
    """A trained model.

    Parameters
    ----------
    model
        The model. Its step is that of its training.
    system
        The system it approximates, where a diagnostic needs it.
    name
        Name; by default that of the architecture.
    step
        Its time step, where its metadata does not say.
    compiled
        The model as machine code, which its trajectories are made with then.
    """

    kind = "learned"

    def __init__(
        self,
        model: Integrator,
        system: System | None = None,
        name: str | None = None,
        step: float | None = None,
        compiled: CompiledModel | None = None,
    ) -> None:
        self.model, self.compiled = model, compiled
        self.name = self.title = model.name if name is None else name
        self.method_name, self.description = model.name, model.description
        self.structure, self.remark = model.structure, remark_on(model)
        self.system, self.dim = system, model.dim
        if "region" in model.metadata:
            self.domain = Domain.from_text(
                model.metadata["region"], f"the training domain of {self.name}"
            )
        self.window, self.prediction_window = model.window, model.prediction_window
        trained = trained_step(model, self.name) or step
        if trained is None:
            raise InputError(f"the model {self.name} does not say for which step it is; give step")
        self.step = float(trained)

    @property
    def iterated(self) -> Integrator:
        """The model that makes trajectories."""
        return self.model

    def compile(self, states: np.ndarray, compiled: bool | None) -> Self:
        flow = copy(self)
        flow.compiled = compile_for(self.iterated, len(states), compiled)
        return flow

    def map(self, windows: np.ndarray) -> np.ndarray:
        import torch

        with evaluating(self.model), torch.inference_mode():
            return self.model(as_windows(self.model, windows)).double().cpu().numpy()

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        return network_jacobian(self.model, windows)

    def tangent(self, windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        if 2 * vectors.shape[-1] > vectors.shape[-2]:
            return super().tangent(windows, vectors)
        return network_tangent(self.model, windows, vectors)

    def start(self, first: np.ndarray) -> Cursor:
        return LearnedCursor(self.model, as_windows(self.model, first), compiled=self.compiled)


def structure_of(flow: NumericalFlow) -> Structure:
    """Return the structure of the system of a flow; that of its map where it is not known."""
    return flow.structure if flow.system is None else flow.system.structure


def remark_on(model: Integrator) -> str:
    """Return words on a model that its structure does not say; else empty."""
    in_chart = model.measure_preserving and not model.structure.keeps_volume
    words = ["preserves the volume of its chart"] if in_chart else []
    return ", ".join([*filter(None, [model.metadata.get("attention")]), *words])


def learned_flow(
    model: Any,
    system: System | None = None,
    name: str | None = None,
    step: float | None = None,
    compiled: CompiledModel | None = None,
) -> LearnedFlow:
    """Return the flow of a model, or of a user's module.

    Raises
    ------
    InputError
        If ``model`` is no model or module, or its system or step is not known.
    """
    from vpintegrator.models.wrapped import check_model, is_own, wrap

    check_model(model, "a flow, where it is no method,")
    if is_own(model):
        if system is None:
            raise InputError(
                "a module of your own needs a system, or its number of components: "
                "vp.wrap(module, dim=..., step=...)"
            )
        step = 1.0 if step is None and system.is_discrete else step
        model = wrap(model, system.dim, step)
    return LearnedFlow(model, system, name, step, compiled)


def trained_step(model: Integrator, name: str) -> float | None:
    """Return the time step of a model's training, None if its metadata have none.

    Raises
    ------
    InputError
        If what the metadata says is no positive number.
    """
    text = model.metadata.get("step")
    if text is None:
        return None
    try:
        step = float(text)
    except ValueError:
        step = math.nan
    if not (math.isfinite(step) and step > 0):
        raise InputError(
            f"the model {name} was trained for the step {text!r}, which is no positive number; its "
            "file is damaged"
        )
    return step


def as_flow(
    method: str | ClassicalMethod | Integrator | NumericalFlow,
    system: System | None = None,
    step: float | None = None,
) -> NumericalFlow:
    """Return the numerical flow of a trained model or of a classical method, by name or not.

    Parameters
    ----------
    method
        A name such as ``"implicit-midpoint"``, a classical method, a model, or a torch module
        that maps states to the next ones (:func:`vpintegrator.wrap`); a flow is given back as it
        is.
    system, step
        System and time step for a classical method or a module. A model knows its step, and the
        step of a map is 1.

    Raises
    ------
    InputError
        If something is missing or the method does not apply to the system.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("rk4", vp.load_system("pendulum"), 0.1)
    >>> flow.step, flow.window
    (0.1, 1)
    """
    if isinstance(method, NumericalFlow):
        return method
    if isinstance(method, str | ClassicalMethod):
        if system is None or step is None:
            raise InputError("a classical method needs a system and a step")
        return ClassicalFlow(method, system, step)
    return learned_flow(method, system, step=step)
