"""Plain learners of maps of states, for ``from_states.py``: each is a function of twenty lines.

A learner takes states (orbit, time, dim) and seconds of processor time, and returns a function of
states (n, dim) that gives those one step later, with its settings in words. Pairs of every fifth
orbit choose settings; the last fit is to all pairs. With a window the function takes windows that
are one row, (n, window * dim).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy import linalg
from scipy.spatial.distance import cdist

Step = Callable[[np.ndarray], np.ndarray]


class Pairs(NamedTuple):
    """Normalised states (pair, dim) before a step, and normalised increments."""

    before: np.ndarray
    change: np.ndarray

    def take(self, places: np.ndarray) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.before[places], self.change[places])


class Units:
    """Normalisation of windows of states and of increments, component by component."""

    def __init__(self, states: np.ndarray, window: int = 1) -> None:
        self.window = window
        flat = states.reshape(-1, states.shape[-1])
        change = np.diff(states, axis=1).reshape(-1, states.shape[-1])
        self.shift = np.tile(flat.mean(0), window)
        self.scale = np.tile(np.where(flat.std(0) > 0, flat.std(0), 1.0), window)
        self.mean = change.mean(0)
        self.size = np.where(change.std(0) > 0, change.std(0), 1.0)

    def pairs(self, states: np.ndarray) -> Pairs:
        """Return the pairs of orbits (orbit, time, dim)."""
        count = states.shape[1] - self.window
        rows = [states[:, k : k + count] for k in range(self.window)]
        before = np.concatenate(rows, -1).reshape(-1, len(self.shift))  # (pair, window * dim)
        change = np.diff(states[:, self.window - 1 :], axis=1).reshape(-1, states.shape[-1])
        return Pairs((before - self.shift) / self.scale, (change - self.mean) / self.size)

    def step(self, increments: Step) -> Step:
        """Return the map to the next states of a function of normalised increments."""
        dim = len(self.size)

        def step(z: np.ndarray) -> np.ndarray:
            newest = z[:, -dim:]
            return newest + self.mean + self.size * increments((z - self.shift) / self.scale)

        return step


def split(pairs: Pairs, times: int) -> tuple[Pairs, Pairs]:
    """Return the pairs of four fifths of the orbits, and of every fifth orbit."""
    left_out = np.arange(len(pairs.before)) // (times - 1) % 5 == 4
    return pairs.take(~left_out), pairs.take(left_out)


def rbf(states: np.ndarray, seconds: float, most: int = 4_000) -> tuple[Step, str]:
    """Fit Gaussian kernels to the increments, with one length and one nugget."""
    units = Units(states)
    pairs = units.pairs(states)
    chosen = np.arange(0, len(pairs.before), max(-(-len(pairs.before) // most), 1))
    own, others = split(pairs, states.shape[1])
    if len(chosen) < len(pairs.before):
        own = pairs.take(chosen[::2])
        others = pairs.take(chosen[1::2])
    end = time.process_time() + seconds
    squares = cdist(own.before, own.before, "sqeuclidean")
    away = cdist(others.before, own.before, "sqeuclidean")
    trials: dict[tuple[float, float], float] = {}

    def error(length: float, nugget: float) -> float:
        key = (length, nugget)
        if key not in trials:
            if time.process_time() > end:
                return math.inf
            try:
                K = np.exp(squares / (-2 * length**2))
                K.flat[:: len(K) + 1] += nugget
                c = linalg.cho_solve(linalg.cho_factor(K, overwrite_a=True), own.change)
                wrong = np.exp(away / (-2 * length**2)) @ c - others.change
                trials[key] = float((wrong**2).mean())
            except linalg.LinAlgError:
                trials[key] = math.inf
        return trials[key]

    for length, nugget in itertools.product(2.0 ** np.arange(-1, 6), 10.0 ** np.arange(-13, 0, 3)):
        error(float(length), float(nugget))
    for _ in range(3):
        length, nugget = min(trials, key=lambda key: trials[key])
        near = itertools.product((0.7, 0.84, 1.0, 1.19, 1.41), (0.1, 1.0, 10.0))
        for by_length, by_nugget in near:
            error(length * by_length, nugget * by_nugget)
    length, nugget = min(trials, key=lambda key: trials[key])
    pairs = pairs.take(chosen)
    while True:  # more pairs may need a larger nugget
        K = np.exp(cdist(pairs.before, pairs.before, "sqeuclidean") / (-2 * length**2))
        K.flat[:: len(K) + 1] += nugget
        try:
            c = linalg.cho_solve(linalg.cho_factor(K), pairs.change)
            break
        except linalg.LinAlgError:
            nugget *= 10

    def increments(x: np.ndarray) -> np.ndarray:
        return np.exp(cdist(x, pairs.before, "sqeuclidean") / (-2 * length**2)) @ c

    return units.step(increments), f"length {length:.2g}, nugget {nugget:.0e}"


def mlp(
    states: np.ndarray, seconds: float, width: int = 64, window: int = 1, seed: int = 0
) -> tuple[Step, str]:
    """Train two layers by Adam, for at most half of the seconds."""
    units = Units(states, window)
    # (pair, dim)
    x = torch.from_numpy(units.pairs(states).before)
    y = torch.from_numpy(units.pairs(states).change)
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(x.shape[1], width), torch.nn.Tanh(), torch.nn.Linear(width, width)]
    last = torch.nn.Linear(width, y.shape[1])
    net = torch.nn.Sequential(*layers, torch.nn.Tanh(), last).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    start = time.process_time()
    epochs = 0
    while (share := (time.process_time() - start) / (seconds / 2)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * 0.5 * (1 + math.cos(math.pi * share)) + 1e-6
        for batch in torch.randperm(len(x)).split(512):
            optimizer.zero_grad()
            (net(x[batch]) - y[batch]).square().mean().backward()
            optimizer.step()
        epochs += 1

    def increments(z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            values: np.ndarray = net(torch.from_numpy(z)).numpy()
        return values

    return units.step(increments), f"{epochs} epochs"


def ridge(states: np.ndarray, seconds: float, most: int = 3_000) -> tuple[Step, str]:
    """Fit polynomials of degree 2 to 6, degree and penalty chosen by the split."""
    units = Units(states)
    pairs = units.pairs(states)
    own, others = split(pairs, states.shape[1])
    dim = states.shape[-1]
    trials: dict[tuple[int, float], float] = {}
    penalties = 10.0 ** np.arange(-15, 1, 2)
    for degree in range(2, 7):
        if math.comb(dim + degree, degree) > most and trials:
            break
        U, sizes, V = np.linalg.svd(monomials(own.before, degree), full_matrices=False)
        rows = monomials(others.before, degree) @ V.T  # (pair, rank)
        for penalty in penalties:
            filters = sizes / (sizes**2 + penalty * len(own.before))
            wrong = rows @ (filters[:, None] * (U.T @ own.change)) - others.change
            trials[degree, float(penalty)] = float((wrong**2).mean())
    degree, penalty = min(trials, key=lambda key: trials[key])
    U, sizes, V = np.linalg.svd(monomials(pairs.before, degree), full_matrices=False)
    filters = sizes / (sizes**2 + penalty * len(pairs.before))
    c = V.T @ (filters[:, None] * (U.T @ pairs.change))  # (term, dim)
    words = f"degree {degree}, penalty {penalty:.0e}"
    return units.step(lambda x: monomials(x, degree) @ c), words


def monomials(x: np.ndarray, degree: int) -> np.ndarray:
    """Return all products (n, term) of at most so many components of x (n, dim) / 2."""
    columns = [np.ones((len(x), 1)), *(x[:, [i]] / 2 for i in range(x.shape[1]))]
    extended = np.concatenate(columns, 1)
    combinations = itertools.combinations_with_replacement(range(extended.shape[1]), degree)
    places = np.array(list(combinations))
    result = extended[:, places[:, 0]]
    for k in range(1, degree):
        result = result * extended[:, places[:, k]]
    return result


LEARNERS = {"RBF": rbf, "MLP": mlp, "ridge": ridge}
