"""What new users try first, by scripts that know the public functions alone."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vpintegrator as vp

ROOT = Path(__file__).parents[1]


def cells(page):
    text = (ROOT / "docs" / "tutorials" / page).read_text()
    return re.findall(r"```\{code-cell\} ipython3\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.thorough
def test_a_network_of_ones_own_becomes_a_figure_and_a_table(tmp_path):
    script = cells("your-network.md")[0]
    # the class and the training loop are the user's; what is left is a few lines
    lines = [line for line in script.splitlines() if line.strip()]
    assert len(lines) <= 30
    script = script.replace("range(400)", "range(20)")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert r"\toprule" in done.stdout and "mine" in done.stdout and "rk4" in done.stdout.lower()
    assert (tmp_path / "figures" / "overview.png").stat().st_size > 10_000


def ring(states):
    """A turn: 20 cells, each two rotations and a thin sextupole."""
    x, px, y, py = states.T
    (c, s), (d, t) = ((np.cos(a), np.sin(a)) for a in 2 * np.pi * np.array([0.2618, 0.2309]))
    for _ in range(20):
        x, px = c * x + s * px, c * px - s * x
        y, py = d * y + t * py, d * py - t * y
        px, py = px - 0.05 * (x**2 - y**2), py + 0.1 * x * y
    return np.stack([x, px, y, py], axis=1)


@pytest.mark.thorough
def test_a_ring_becomes_a_trained_map_and_c_code(tmp_path):
    before = np.random.default_rng(0).uniform(-0.4, 0.4, (1500, 4))
    after = ring(before)
    after[7] = np.nan  # a lost particle
    names = ["x", "px", "y", "py"]
    dataset = vp.import_pairs(before, after, tmp_path / "ring.h5", components=names, title="Ring")
    assert dataset.system.components == ("x", "y", "px", "py")
    model = vp.models.build(dataset.system, "sgf", degree=7)
    history = vp.train(model, dataset)
    assert history.best_validation_error < 1e-7
    errors = {}
    for amplitude in (0.1, 0.4):
        states = amplitude * np.random.default_rng(1).uniform(-1, 1, (50, 4))
        turned = vp.rollout(model, states[:, [0, 2, 1, 3]], 1)[:, 1]
        errors[amplitude] = np.abs(turned - ring(states)[:, [0, 2, 1, 3]]).max()
    assert errors[0.1] < errors[0.4] < 1e-6
    vp.export(model, tmp_path / "ring.c")
    assert "ring" in (tmp_path / "ring.c").read_text()
    # the tracking function itself, by amplitude, over many turns
    assert np.isfinite(vp.rollout(ring, before[:100], 50)).all()


def test_where_the_way_in_is_a_mistake_is_one_sentence(tmp_path):
    with pytest.raises(vp.InputError, match="torch module or a function"):
        vp.compare({"mine": 3}, system="pendulum")
