"""How often tori and chaos of the standard map are mistaken, of few orbits."""

import numpy as np
import pytest
from click.testing import CliRunner

from vpintegrator.rollout.diagnostics.rotation import ENOUGH


@pytest.mark.parametrize("kick", [0.5, 0.97])
def test_few_orbits_are_mistaken_where_steps_are_enough(script, kick):
    module = script("tori_and_chaos")
    initial = np.random.default_rng(1).uniform(-np.pi, np.pi, (400, 2))
    chaotic = module.is_chaotic(initial, kick, 50_000)
    assert chaotic.mean() == pytest.approx({0.5: 0.015, 0.97: 0.47}[kick], abs=0.05)
    _, tori, chaos = module.mistaken(initial, kick, ENOUGH, chaotic)
    assert tori < {0.5: 0.05, 0.97: 0.1}[kick] and chaos < 0.1
    _, tori, chaos = module.mistaken(initial, kick, 200, chaotic)
    assert 0.05 < tori < 0.25 and chaos < 0.5


def test_the_command(script):
    result = CliRunner().invoke(
        script("tori_and_chaos").main, ["--orbits", "20", "--longest", "400", "--truth", "500"]
    )
    assert result.exit_code == 0 and len(result.output.splitlines()) == 6, result.output
