"""Writing files: whole or absent, on the disk, and nobody's work lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vpintegrator.errors import InputError
from vpintegrator.storage.files import check_output, filling, locked, replacing, safe_name


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_appears_meanwhile_stays_and_the_new_one_is_kept(tmp_path):
    (tmp_path / "a-2.h5").write_text("also there")
    with (
        pytest.raises(InputError, match=r"a\.h5 was made by somebody else.* ours is now .*a-3\.h5"),
        replacing(tmp_path / "a.h5") as temporary,
    ):
        temporary.write_text("mine")
        (tmp_path / "a.h5").write_text("theirs")
    assert _names(tmp_path) == ["a-2.h5", "a-3.h5", "a.h5"]
    assert (tmp_path / "a.h5").read_text() == "theirs"
    assert (tmp_path / "a-2.h5").read_text() == "also there"
    assert (tmp_path / "a-3.h5").read_text() == "mine"


def test_one_process_at_a_time_has_the_lock(tmp_path):
    """It is released at the end of the block and of its process."""
    path = tmp_path / "a.h5"
    with (
        locked(path),
        pytest.raises(InputError, match=r"another process is at work on .*a\.h5"),
        locked(path),
    ):
        raise AssertionError
    script = (
        "import os, sys\nfrom vpintegrator.storage.files import locked\n"
        "with locked(sys.argv[1]):\n    os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True)
    with locked(path):
        pass
    assert not _names(tmp_path)


def test_no_room_is_one_sentence_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="make room") as caught, replacing(tmp_path / "a.h5"):
        raise OSError(errno.ENOSPC, "as HDF5 says it, with many words")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "a.h5")
    assert not _names(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no/a.h5", "does not exist"),
        ("", "folder"),
        ("x" * 300, "too long"),
        ("pipe", "device or a pipe"),
        ("link", "exists already"),
    ],
)
def test_names_that_cannot_be_written_are_refused_before_the_work(tmp_path, name, said):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=said):
        check_output(f"{tmp_path}/{name}", overwrite=name != "link")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rigid-body", "rigid-body"),
        ("../escaped/name", "escaped-name"),
        ("C:\\x", "C-x"),
        ("", "unnamed"),
        ("\x1b[31mred\0", "31mred"),
    ],
)
def test_a_name_from_a_file_becomes_a_plain_name(text, name):
    assert safe_name(text) == name


def test_a_folder_is_filled_with_whole_files_or_left_as_it_was(tmp_path):
    folder = tmp_path / "figures"
    with pytest.raises(ZeroDivisionError), filling(folder) as place:
        (place / "a").write_text("half")
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []
    with filling(folder) as place:
        (place / "a").write_text("first")
    with pytest.raises(InputError, match="exists already"), filling(folder) as place:
        (place / "a").write_text("second")
        (place / "b").write_text("second")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "first"}
    with filling(folder, overwrite=True) as place:
        (place / "a").write_text("third")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "third"}
    (tmp_path / "file").touch()
    for wrong, said in (
        (tmp_path / "file", "File exists"),
        (tmp_path / "x" / "y", "No such file"),
    ):
        with pytest.raises(InputError, match=said), filling(wrong):
            raise AssertionError
