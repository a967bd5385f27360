"""HDF5 files from strangers: what lies elsewhere, is out of proportion or of another kind."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.storage.hdf5 import write_attributes
from vpintegrator.storage.reading import StoredGroup, open_hdf5


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A small dataset."""
    path = tmp_path_factory.mktemp("sound") / "sound.h5"
    states = np.random.default_rng(0).normal(size=(6, 8, 2))
    return vp.import_dataset(states, path, step=0.1, title="Sound").path


@pytest.fixture
def damaged(sound, tmp_path):
    """Copies of it, changed by a function."""

    def change(function):
        path = Path(shutil.copy(sound, tmp_path / "a.h5"))
        with h5py.File(path, "r+") as file:
            function(file)
        return path

    return change


def replace(name, **options):
    """Put another dataset, or whatever is given, in the place of one."""

    def change(file):
        del file[name]
        if "link" in options:
            file[name] = options["link"]
        else:
            file.create_dataset(name, **options)

    return change


def attribute(name, value, group="/"):
    def change(file):
        del file[group].attrs[name]
        if value is not None:
            write_attributes(file[group], {name: value})

    return change


def external(file):
    secret = Path(file.filename).with_name("secret")
    secret.write_bytes(b"secretly" * 200)
    replace("train/state", shape=(3, 8, 2), dtype="f8", external=[(secret, 0, 384)])(file)


def virtual(file):
    other = Path(file.filename).with_name("other.h5")
    with h5py.File(other, "w") as f:
        f["train/state"] = np.ones((4, 8, 2))
    layout = h5py.VirtualLayout((4, 8, 2), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "train/state", (4, 8, 2))
    del file["train/state"]
    file["train"].create_virtual_dataset("state", layout)


def bomb(file):
    options = {"shape": (10**9, 8, 2), "chunks": (1 << 15, 8, 2), "compression": "gzip"}
    replace("train/state", dtype="f8", **options)(file)
    file["train/state"][:1000] = 0.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (external, "train, state: its numbers lie in other files"),
        (virtual, "train, state: its numbers lie in other files"),
        (bomb, "out of proportion to the .* bytes"),
        (replace("train", link=h5py.ExternalLink("other.h5", "/train")), "link to somewhere else"),
        (lambda file: file.pop("validation"), "there is no group 'validation'"),
        (lambda file: file.pop("test/time"), "test: there is no dataset 'time'"),
        (replace("train/state", data=np.ones((4, 8))), r"expected the shape \(any, any, any\)"),
        (replace("train/state", shape=(4, 8, 2), dtype="c16"), "expected real numbers"),
        (replace("train/state", dtype="f8", data=h5py.Empty("f8")), "is empty"),
        (attribute("step", np.nan), "'step' must be a positive number, not nan"),
        (attribute("step", "0.1"), "'step' must be a positive number, not '0.1'"),
        (attribute("step", None), "'step' is missing"),
        (attribute("seed", -1), "'seed' must be a whole .at least 0. number"),
        (attribute("title", np.bytes_(b"\xff")), "'title' must be a text in UTF-8"),
        (attribute("accuracy", "{"), "'accuracy' is not JSON"),
        (attribute("accuracy", '{"a": ' * 5000 + "1" + "}" * 5000), "is not JSON"),
        (attribute("format_version", "x"), "'format_version' must be a whole"),
        (attribute("format_version", 99), "has format version 99"),
        (attribute("format", None), "is an HDF5 file of another program"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_dataset_is_one_sentence(damaged, change, said):
    path = damaged(change)
    with pytest.raises(InputError, match=said) as caught:
        vp.open_dataset(path)
    assert str(caught.value).startswith(str(path))


def test_damaged_numbers_are_told_when_they_are_read(damaged):
    path = damaged(replace("train/state", data=np.ones((4, 8, 2)), fletcher32=True))
    with h5py.File(path) as file:
        at = file["train/state"].id.get_chunk_info(0).byte_offset
    whole = bytearray(path.read_bytes())
    whole[at + 5] ^= 1
    path.write_bytes(whole)
    dataset = vp.open_dataset(path)
    with pytest.raises(InputError, match="is damaged or incomplete"):
        dataset.states("train")
    with pytest.raises(InputError, match="is damaged or incomplete"):
        dataset.windows(2)


def test_the_callers_own_errors_are_left_as_they_are(sound):
    for error in (KeyError, OSError, ValueError):
        with (
            pytest.raises(error, match="mine"),
            open_hdf5(sound, "vpintegrator-dataset", newest=1),
        ):
            raise error("mine")
    with pytest.raises(IndexError):
        vp.open_dataset(sound).states("train", 10)


@pytest.mark.parametrize("kind", ["folder", "nothing", "text", "cut"])
def test_what_is_no_hdf5_file_is_one_sentence(sound, tmp_path, kind):
    path = tmp_path / "a.h5"
    if kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path.write_bytes(b"hello" if kind == "text" else sound.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"a\.h5"):
        vp.open_dataset(path)


def test_a_chunk_without_room_for_its_checksum_does_not_crash_hdf5(tmp_path):
    path = tmp_path / "cut.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        made = file.create_dataset("x", data=np.arange(5.0), chunks=(5,), fletcher32=True)
        assert made.id.get_chunk_info(0).size == 44
    raw = path.read_bytes()
    place = raw.index(b"TREE", raw.index(b"TREE") + 1) + 24  # the chunk's size in its B-tree
    assert raw[place : place + 4] == bytes([44, 0, 0, 0])
    for size in (0, 3, 4):
        path.write_bytes(raw[:place] + bytes([size, 0, 0, 0]) + raw[place + 4 :])
        with h5py.File(path) as file, pytest.raises(InputError, match="cut short"):
            StoredGroup(file, path).array("x", (5,))


# Texts of variable length


def _texts_of_variable_length(file):
    """Names of attributes and datasets of texts of variable length."""
    found = []

    def visit(name, item):
        for key in item.attrs:
            if h5py.check_string_dtype(item.attrs.get_id(key).dtype) is not None:
                info = h5py.check_string_dtype(item.attrs.get_id(key).dtype)
                found.extend([f"{name}@{key}"] * (info.length is None))
        if isinstance(item, h5py.Dataset) and h5py.check_string_dtype(item.dtype) is not None:
            found.append(name)

    visit("", file)
    file.visititems(visit)
    return found


def test_own_files_hold_texts_of_fixed_length(sound, tmp_path):
    report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=5, trajectories=2)
    report.save(tmp_path / "rollout.h5")
    varied = vp.generate(
        "pendulum", tmp_path / "varied.h5", count=10, steps=4, vary={"step": [0.1, 0.2]}
    )
    for path in (sound, tmp_path / "rollout.h5", varied.path):
        with h5py.File(path) as file:
            # words for xarray, which nothing here reads
            assert all(name.endswith("/component") for name in _texts_of_variable_length(file))
    assert isinstance(varied.attributes["title"], str)


def test_long_texts_and_letters_of_all_kinds_are_kept(tmp_path):
    points = np.random.default_rng(0).uniform(-1, 1, (3000, 2)).tolist()
    table = {"distribution": "points", "points": points}
    system = vp.load_system(
        'title = "Schwingung é ψ 振"\nstate = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2"'
    )
    dataset = vp.generate(
        system, tmp_path / "a.h5", count=4, step=0.1, steps=3, initial_conditions=table
    )
    again = vp.open_dataset(tmp_path / "a.h5")
    assert len(again.attributes["recipe"]) > 65_536
    assert again.attributes == dataset.attributes
    assert again.system.title == "Schwingung é ψ 振"


def _with_broken_heap(path, item="/", key="system", text="x" * 300):
    """Replace a text by one of variable length, in a heap in which HDF5 goes round for ever."""
    with h5py.File(path, "r+") as file:
        if key in file[item].attrs:
            del file[item].attrs[key]
        file[item].attrs[key] = text
    data = bytearray(path.read_bytes())
    for heap in (match.start() for match in re.finditer(b"GCOL", bytes(data))):
        place = heap + 16
        while data[place] and place < heap + 4000:
            (size,) = struct.unpack_from("<Q", data, place + 8)
            struct.pack_into("<Q", data, place + 8, 2**64 - 16)
            place += 16 + -(-size // 8) * 8
    path.write_bytes(data)


READ = """
import sys, vpintegrator as vp
try:
    print(getattr(vp.models if sys.argv[1] == "load_gml" else vp, sys.argv[1])(sys.argv[2]))
except vp.InputError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(
    ("door", "key"),
    [
        *(("open_dataset", key) for key in ("format", "system", "note")),
        *(("show", key) for key in ("format", "system")),
        ("load_gml", "format"),
    ],
)
def test_a_heap_in_which_hdf5_hangs_is_not_read(sound, tmp_path, door, key):
    path = Path(shutil.copy(sound, tmp_path / "a.h5"))
    _with_broken_heap(path, key=key)
    arguments = [sys.executable, "-c", READ, door, str(path)]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60)  # it would hang
    assert result.stdout.startswith("refused:"), result.stdout + result.stderr
