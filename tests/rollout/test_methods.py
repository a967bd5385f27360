"""Methods of one's own beside those named."""

from dataclasses import replace

import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.maps import ExplicitRungeKutta

RALSTON = ExplicitRungeKutta(
    name="ralston",
    title="Ralston",
    order=2,
    source="Ralston, Math. Comp. 16 (1962) 431-437",
    stages=((2 / 3,),),
    weights=(1 / 4, 3 / 4),
)


def test_a_method_of_ones_own_runs_beside_named_ones_and_is_drawn():
    report = vp.compare(None, ["rk4", RALSTON], system="pendulum", steps=20, trajectories=2)
    assert list(report.runs) == ["rk4", "ralston"]
    assert vp.plotting.errors(report) is not None


@pytest.mark.parametrize(
    ("against", "sentence"),
    [
        (RALSTON, "must be a list"),
        ([3], "not 3"),
        (["rk4", replace(RALSTON, name="rk4")], "cannot be named 'rk4', or two"),
        ([RALSTON, replace(RALSTON, title="Other")], "cannot be named 'ralston', or two"),
        ([replace(RALSTON, name="a/b")], "cannot be named"),
    ],
)
def test_others_are_refused(against, sentence):
    with pytest.raises(InputError, match=sentence):
        vp.compare(None, against, system="pendulum", steps=5, trajectories=1)


def test_a_model_may_not_have_its_name():
    model = vp.models.build(vp.load_system("pendulum"), "vpff", {"functions": "neurons"})
    with pytest.raises(InputError, match="cannot be named 'ralston', or two"):
        vp.compare({"ralston": model}, [RALSTON], system="pendulum", step=0.1, steps=5)
