"""Measured states along a ring or chain: what is declared, stored and read."""

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli import gen
from vpintegrator.errors import InputError

RNG = np.random.default_rng(0)


def imported(tmp_path, shape, **options):
    before = RNG.normal(size=shape)
    path = tmp_path / "a.h5"
    return vp.import_pairs(before, before + 1, path, overwrite=True, **options)


def test_symplectic_states_on_a_ring_are_bodies(tmp_path):
    system = imported(tmp_path, (12, 32), structure="symplectic", topology="ring").system
    assert system.sites == vp.System(system.text).sites
    assert (system.sites.count, system.sites.fields, system.sites.topology) == (16, 2, "ring")
    assert (system.bodies.count, system.bodies.topology) == (16, "ring")
    model = vp.models.build(system, functions="polynomial", degree=4)
    assert model.name == "spff" and model.bodies == 16


def test_fields_are_told_by_names(tmp_path):
    names = [f"{field}{site}" for site in range(8) for field in "uv"]
    data = imported(tmp_path, (20, 16), components=names, topology="chain")
    system = data.system
    assert (system.sites.count, system.sites.fields, system.sites.topology) == (8, 2, "chain")
    assert system.bodies is None and system.components[:2] == ("u[0]", "u[1]")
    plain = imported(tmp_path, (20, 16), topology="ring").system.sites
    assert (plain.count, plain.fields) == (16, 1)


def test_components_are_stored_field_by_field(tmp_path):
    names = ["u1", "v1", "u2", "v2", "u3", "v3"]
    before = np.arange(60.0).reshape(10, 6)
    path = tmp_path / "a.h5"
    data = vp.import_pairs(before, before + 1, path, components=names, topology="ring")
    first = data.states("train")[0, 0]
    assert np.allclose(np.diff(first[:3]), 2) and first[3] - first[0] == 1


def test_rows_may_have_more_components_than_pairs(tmp_path):
    assert imported(tmp_path, (12, 35), topology="ring").dim == 35
    with pytest.raises(InputError, match=r"fewer pairs than components.*--topology"):
        imported(tmp_path, (12, 35))


def test_the_command_declares_a_ring(tmp_path):
    before = RNG.normal(size=(12, 7))
    for name in ("before", "after"):
        np.save(tmp_path / f"{name}.npy", before)
    pairs = f"{tmp_path / 'before.npy'},{tmp_path / 'after.npy'}"
    path = tmp_path / "a.h5"
    told = CliRunner().invoke(gen.main, ["--pairs", pairs, "--topology", "ring", "-o", str(path)])
    assert told.exit_code == 0, told.output
    assert "7 sites of a ring" in told.output
    assert vp.open_dataset(path).system.sites.topology == "ring"


@pytest.mark.parametrize(
    ("symmetry", "message"),
    [
        ('permute = ["u"]\nalong = "ring"', "name all arrays of the state"),
        ('permute = ["u", "v"]\nalong = "walls"', "along: expected ring or chain"),
        ('permute = ["u", "v"]\nalong = "ring"\ndimension = 2', "no vectors of 2"),
    ],
)
def test_files_that_declare_no_row(symmetry, message):
    text = f"measured = true\nstate = {{ u = 5, v = 5 }}\n\n[[symmetry]]\n{symmetry}\n"
    with pytest.raises(InputError, match=message):
        vp.System(text, "row")


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="needs 3 sites or more"):
        imported(tmp_path, (12, 4), structure="symplectic", topology="ring")
    with pytest.raises(InputError, match="topology"):
        imported(tmp_path, (12, 6), topology="star")
    states = RNG.normal(size=(6, 10, 3))
    options = {"system": "rigid-body", "topology": "ring", "step": 0.1}
    with pytest.raises(InputError, match="topology is claimed of states without a system"):
        vp.import_dataset(states, tmp_path / "b.h5", **options)
