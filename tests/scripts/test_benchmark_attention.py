"""The benchmark of attention: its data, and a short run."""

import numpy as np
from click.testing import CliRunner

import vpintegrator as vp


def test_unknown_steps_are_those_of_the_same_body(script):
    """Each trajectory is that of its first state, at some step between half and three halves."""
    case = script("attention").unknown_step(3, 0)
    system = vp.load_system("rigid-body")
    steps = 0.2 * np.linspace(0.5, 1.5, 2001)
    for states in case.true:
        near = vp.solve(system, states[:1], np.append(0.0, steps))[0, 1:]
        step = steps[np.linalg.norm(near - states[1], axis=-1).argmin()]
        again = vp.solve(system, states[:1], step * np.arange(len(states)))[0]
        np.testing.assert_allclose(states, again, atol=5e-3)


def test_a_short_run(script, tmp_path):
    options = ("--seconds", "1", "--seeds", "1", "--count", "30", "--model", "vpff")
    arguments = ["--folder", str(tmp_path), "--case", "a component unseen", *options]
    result = CliRunner().invoke(script("attention").main, arguments)
    assert result.exit_code == 0, result.output
    assert "after 20 steps" in result.output and (tmp_path / "a-component-unseen.h5").exists()
