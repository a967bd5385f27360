"""Positions alone in vp-gen."""

import numpy as np

import vpintegrator as vp
from vpintegrator.cli.gen import main as gen


def test_a_potential_is_learned_and_written_as_a_system(run, tmp_path):
    generator = np.random.default_rng(0)
    lines = ["run,time,x"]
    for n, size in enumerate(np.linspace(0.5, 1.5, 6)):
        times = np.sort(generator.uniform(0, 8, 30))
        seen = size * np.cos(2 * times) + 0.01 * generator.normal(size=30)
        lines += [f"{n},{t!r},{x!r}" for t, x in zip(times.tolist(), seen.tolist(), strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    said = run(gen, "--from", "x.csv", "--positions-only", "--potential-degree", 2, "-o", "x.h5")
    assert "px is reconstructed" in said.output and "fitted         c2 = " in said.output
    learned = vp.load_system(tmp_path / "x-system.toml")
    assert learned.components == ("x", "px") and learned.structure == "Hamiltonian"
    run(gen, "x-system.toml", "--count", 4, "--steps", 5, "-o", "more.h5")
    assert vp.open_dataset(tmp_path / "more.h5").shapes["train"][2] == 2
