"""The benchmark of training, quickly: its tables, and that its candidates do the same work."""

import sys

import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.training.residuals import ParameterVector

# seconds whose shares and ratios have few digits
TIMES = {"eager": 0.5, "jax": 0.25, "compiled": 0.1}


@pytest.fixture
def training(script, compiler, monkeypatch):
    """The script as a module, as if JAX were not installed; a layer of the network, not three."""
    monkeypatch.setitem(sys.modules, "jax_transformer", None)
    module = script("training")
    monkeypatch.setitem(module.MODELS, "published vpt", small)
    return module


def small(**options):
    return vp.models.VolumePreservingTransformer(
        dim=3,
        prediction_window=3,
        depth=1,
        feed_forward="triangular",
        weighting="arbitrary",
        **options,
    )


def run(training, *options):
    result = CliRunner().invoke(training.main, ["--quick", "--seconds", "0", *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_tables(training, script):
    figure = script("record_figure")
    found = figure.tables(run(training, "--markdown"))
    steps, jacobians = found.values()
    assert next(iter(found)) == "A first-order step, 64 windows"
    assert [row["dtype"] for row in steps] == ["float64", "float32"]
    assert [row["windows"] for row in jacobians] == ["32"]
    assert {row["model"] for row in (*steps, *jacobians)} == {"published vpt"}
    assert {row["parameters"] for row in steps} == {"60"}
    # nothing is said of a peer that is not installed
    assert all(row["jax"] == row["jax / compiled"] == "" for row in steps)


def test_the_eager_step_is_that_of_machine_code(training, monkeypatch):
    models, optimizers, name = [], [], "published vpt"

    def kept(make, found):
        return lambda *given, **options: found.append(make(*given, **options)) or found[-1]

    def three_calls(candidates, seconds):
        for _ in range(3):
            candidates["eager"]()
            candidates["compiled"]()
        return TIMES

    monkeypatch.setitem(training.MODELS, name, kept(training.MODELS[name], models))
    monkeypatch.setattr(training, "Adam", kept(training.Adam, optimizers))
    monkeypatch.setattr(training, "time_together", three_calls)
    case = training.Case(name, torch.float64, 8)
    before = ParameterVector(case.model).read()
    training._first_order(case, 0.0)
    (optimizer,), (_, eager) = optimizers, models
    assert optimizer.residuals.compiled is not None
    change = optimizer.parameters.detach() - before
    assert 1e-6 < change.abs().max() < 4e-6  # three steps of the rate 1e-6
    torch.testing.assert_close(ParameterVector(eager).read() - before, change, rtol=1e-6, atol=0)
