"""Machine code of attention on long windows: seconds to make it, and time of a step.

    python scripts/benchmarks/windows.py

Untrained models of default sizes read 8 or 16 states of four components and give the next one.
Beside the machine code stands PyTorch, in the same run.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from unittest.mock import patch

from harness import benchmark, duration, machine, print_table, ratio, time_together

# isort: split

import numpy as np
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled.powers import operations, simplest

MODELS = ("vpt", "vpmt", "transformer")
ORBITS = 16


def made(model: vp.models.Model, windows: np.ndarray) -> tuple[CompiledModel, float]:
    """Return machine code and the seconds that it takes, with nothing in the cache."""
    with (
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, VPINTEGRATOR_CACHE=cache),
    ):
        start = time.perf_counter()
        code = CompiledModel(model, len(windows), windows)
        return code, time.perf_counter() - start


def pytorch(model: vp.models.Model, windows: torch.Tensor, calls: int) -> None:
    """Iterate a model in PyTorch."""
    with torch.no_grad():
        for _ in range(calls):
            windows = model(windows)


@benchmark(seconds=3.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Compare steps of maps of long windows."""
    system = vp.load_system("henon-heiles")
    random = np.random.default_rng(0)
    start = system.sample_initial(ORBITS, random)
    rows = []
    for name in MODELS[: 1 if quick else None]:
        for window in (4,) if quick else (8, 16):
            sizes = {"window": window, "prediction_window": 1}
            model = vp.models.build(system, name, sizes, seed=0).eval()
            noise = 0.01 * random.normal(size=(ORBITS, window, system.dim))
            windows = start[:, None] + noise
            code, needed = made(model, windows)
            calls = 2 if quick else 200
            runs = {
                "code": partial(code.predict, windows, calls),
                "PyTorch": partial(pytorch, model, torch.from_numpy(windows), calls // 10 or 1),
            }
            spent = time_together(runs, 0.0 if quick else seconds)
            step = spent["code"] / calls
            eager = spent["PyTorch"] / (calls // 10 or 1)
            size = operations(simplest(model, limit=1_000_000)[0])
            cells = [name, window, f"{size:,}", f"{needed:.1f} s", duration(step)]
            rows.append([*cells, duration(eager), ratio(eager, step)])
    columns = ["model", "window", "operations", "made in", "a step", "PyTorch", "ratio"]
    print_table(f"Machine code of long windows, {ORBITS} orbits", columns, rows, [machine()])


if __name__ == "__main__":
    main()
