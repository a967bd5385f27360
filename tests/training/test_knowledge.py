"""What a training may know of a system: its states and what a file of measurements declares."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import weights
from vpintegrator.errors import InputError
from vpintegrator.training import KINDS, GeneratingFunctions, Network, TrainingOptions, search
from vpintegrator.training.kinds.kind import forms
from vpintegrator.training.training_data import TrainingData

EAGER = TrainingOptions(compiled=False)
MAP = """
state = ["q", "p"]
symplectic = true
parameters = { K = 0.5 }
[[map]]
p = "p + K*sin(q)"
[[map]]
q = "q + p"
[periodic]
q = "2*pi"
[initial_conditions]
distribution = "uniform"
low = [-1, -1]
high = [1, 1]
"""
# system, other values of its parameters, and options of the data
SYSTEMS = {
    "volume": ("rigid-body", {"I1": 3.0, "I3": 0.5}, {}),
    "angle": ("pendulum", {"g": 2.5}, {}),
    "chart": ("lotka-volterra-2d", {"a": 1.5}, {}),
    "explicit time": ("forced-duffing", {"gamma": 0.1}, {}),
    "family": ("pendulum", {"g": 2.5}, {"vary": {"step": [0.1, 0.3]}}),
    "map by formula": (MAP, {"K": 0.8}, {}),
}
KINDS_OF = {
    "all": lambda: KINDS,
    "vpt": lambda: [Network({"depth": 1, "width": 4}, architecture="vpt", training=EAGER)],
    "vpff": lambda: [search("vpff", training=EAGER)],
    "sgf": lambda: [search("sgf")],
}


def data_of(case, folder):
    """A dataset, and the same states beside other equations with the same claims."""
    name, values, options = SYSTEMS[case]
    system = vp.load_system(name)
    values = {key: value for key, value in values.items() if key in system.parameters}
    assert values, f"{name} has none of these parameters"
    dataset = vp.generate(name, folder / "a.h5", count=30, steps=4, **options)
    return dataset, dataset.attached(vp.load_system(name, **values))


@pytest.mark.parametrize("kinds", KINDS_OF)
@pytest.mark.parametrize("case", SYSTEMS)
@pytest.mark.filterwarnings("ignore:.* is not to be relied on", "ignore:the flow of")
def test_other_equations_of_the_same_claims_give_the_same_map(case, kinds, tmp_path):
    """Bit by bit: nothing of the formulas, or of the parameters in them, reaches the training."""
    results = []
    for dataset in data_of(case, tmp_path):
        try:
            results.append(vp.fit(dataset, KINDS_OF[kinds](), epochs=2, progress=False))
        except InputError as error:
            results.append(str(error))
    first, second = results
    if isinstance(first, str):  # such as sgf for a volume-preserving flow
        assert first == second
        return
    assert first.model.name == second.model.name
    assert [fit.error for fit in first.tried] == [fit.error for fit in second.tried]
    assert torch.equal(weights(first.model), weights(second.model))
    states = TrainingData(data_of_model(first, tmp_path)).held("train")[:, :1]
    windows = np.repeat(states, first.model.window, axis=1)
    if not first.model.parameter_count:
        np.testing.assert_array_equal(first.model.map(windows), second.model.map(windows))


def data_of_model(result, folder):
    return vp.open_dataset(folder / "a.h5")


def test_a_section_is_learned_from_its_images(tmp_path):
    section = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    dataset = vp.generate(section, tmp_path / "a.h5", count=100, steps=3)
    blind = TrainingData(dataset).system
    assert blind.flow is None and blind.is_measured
    fits = [vp.fit(dataset, [search("sgf")], progress=False, equations=e) for e in (False, True)]
    assert fits[0].error == fits[1].error < 1


def test_a_system_without_its_equations_declares_what_measurements_can():
    for name in (
        "pendulum",
        "rigid-body",
        "lotka-volterra-2d",
        "forced-duffing",
        "double-pendulum",
    ):
        system = vp.load_system(name)
        blind = system.without_equations()
        assert blind.components == system.components and blind.structure == system.structure
        assert blind.explicit_time == system.explicit_time and blind.period == system.period
        assert not blind.has_formulas and not blind.invariants and not blind.functions
        assert not blind.hamiltonian_formula and not blind.field_formulas and not blind.text
        assert blind.may_preserve_volume == system.may_preserve_volume
        assert (blind.chart is None) == (system.chart is None)
        assert blind.without_equations() is blind
        with pytest.raises(InputError, match="not known"):
            blind.vector_field(np.zeros(system.dim))


@pytest.mark.parametrize("case", ["step", "I1"])
def test_a_family_is_the_identity_at_step_zero(case, tmp_path):
    vary = {"step": [0.1, 0.3]} | ({} if case == "step" else {"I1": [1.5, 2.5]})
    dataset = vp.generate("rigid-body", tmp_path / "a.h5", count=40, steps=3, vary=vary)
    data = TrainingData(dataset)
    assert data.family.coefficients == [f"z[{i}]" for i in range(len(vary))]
    result = vp.fit(dataset, [search("vpgf", {"degree": 3})], progress=False)
    states = torch.from_numpy(dataset.states("test")[:, :1])
    k = torch.zeros(len(states), len(vary), dtype=torch.float64)
    k[:, 1:] = 2.0  # the moment
    assert torch.equal(result.model(states, k), states)


def test_components_that_stay_are_found_in_the_data(tmp_path):
    text = """
    state = ["x", "y", "c"]
    vector_field = { x = "y*c", y = "-x*c", c = "0" }
    initial_conditions = { distribution = "uniform", low = [-1, -1, 1], high = [1, 1, 2] }
    """
    dataset = vp.generate(text, tmp_path / "a.h5", count=30, steps=3, step=0.2)
    assert TrainingData(dataset).moving == [0, 1] == TrainingData(dataset, equations=True).moving


def test_sources_are_told(tmp_path):
    dataset = vp.generate("pendulum", tmp_path / "a.h5", count=40, steps=20)
    learned = vp.fit(dataset, progress=False)
    made = vp.fit(dataset, equations=True, progress=False)
    assert learned.provenance == learned.model.provenance == "learned from 620 pairs of states"
    assert made.provenance == made.model.provenance == "made from the equations"
    assert learned.provenance in str(learned) and made.provenance in str(made)
    assert learned.kind == "generating functions" and made.kind == "splittings"


def test_equations_that_are_unknown_or_of_no_use_are_refused(tmp_path):
    measured = vp.import_dataset(np.random.default_rng(0).normal(size=(20, 3, 2)),
                                 tmp_path / "m.h5", step=0.1)  # fmt: skip
    for call in (
        vp.fit,
        lambda data, **options: vp.train(vp.models.LinearMap(dim=2), data, **options),
    ):
        with pytest.raises(InputError, match="holds no equations"):
            call(measured, equations=True)
    dataset = vp.generate("pendulum", tmp_path / "a.h5", count=20, steps=3)
    with pytest.raises(InputError, match="resnet has no use for equations"):
        vp.fit(dataset, [Network(architecture="resnet")], equations=True, epochs=1)
    with pytest.raises(InputError, match="no equations"):
        vp.fit(dataset, [search("split")])


@pytest.mark.parametrize(
    ("system", "name", "arguments", "helps"),
    [
        ("rigid-body", "split", {}, True),
        ("coupled-oscillators", "vpff", {"functions": "system"}, True),
        ("rigid-body", "vpff", {"functions": "system"}, False),  # its equations are polynomials
        ("rigid-body", "spt", {}, False),  # three components, which no equations change
    ],
)
def test_equations_are_recommended_only_where_they_help(system, name, arguments, helps, tmp_path):
    dataset = vp.generate(system, tmp_path / "a.h5", count=20, steps=3)
    network = Network(arguments, architecture=name, training=EAGER)
    with pytest.raises(InputError) as caught:
        vp.fit(dataset, [network], epochs=1)
    assert ("--equations" in str(caught.value)) == helps


def test_volume_is_kept_in_states_whose_chart_is_canonical(tmp_path):
    """The declared chart is singular near the origin, where the states are not."""
    data = vp.generate("charged-particle", tmp_path / "a.h5", count=20, steps=20)
    training_data = TrainingData(data)
    assert forms(training_data) == ("symplectic", "volume")
    kind = GeneratingFunctions(form="volume")
    model = kind.build(training_data, "vpgf", 0, {"degree": 2})
    assert model.coordinates.chart is None
    symplectic = GeneratingFunctions(form="symplectic")
    assert symplectic.build(training_data, "sgf", 0, {"degree": 2}).coordinates.chart is not None
    canonical = vp.generate("pendulum", tmp_path / "b.h5", count=20, steps=20)
    assert forms(TrainingData(canonical)) == ("symplectic",)
