"""Libraries: the compiler at work, and the cache, which is the user's and stays small."""

import os
import shutil
import time
from unittest.mock import Mock

import pytest

from vpintegrator.compiled import library
from vpintegrator.compiled.library import Compilation, NotCompilable, load_library
from vpintegrator.runtime.interrupts import TimeIsUp, until

SOURCE = 'extern "C" int answer() { return 42; }'
DAY = 86400
SLOW = """#!/bin/sh
test "$1" = --version && exec echo "slow compiler"
echo $$ >> {folder}/started
(sleep 1; touch {folder}/finished) &
wait
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("VPINTEGRATOR_CACHE", str(folder))
    return folder


@pytest.fixture
def slow(folder, monkeypatch, tmp_path):
    compiler = tmp_path / "slow"
    compiler.write_text(SLOW.format(folder=tmp_path))
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    return tmp_path


def made(folder):
    """The library of SOURCE, where it is kept."""
    assert load_library(SOURCE).answer() == 42
    (path,) = folder.glob("*.so")
    return path


@pytest.mark.parametrize("gone", [True, False])
def test_what_cannot_be_loaded_is_made_anew(folder, gone):
    """Another program removed it after it was found, or it is one for another machine."""
    source = SOURCE.replace("42", str(100 + gone))  # not loaded before
    first = Compilation([source])
    first.stop()
    first._path.write_text("no library here")
    second = Compilation([source])
    if gone:
        first._path.unlink()
    assert second.library().answer() == 100 + gone


def test_libraries_and_their_folder_are_for_the_user_alone(folder):
    made(folder)
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_or_trusted_is_replaced_by_a_temporary_one(
    monkeypatch, tmp_path
):
    """A library is found there again, and the other folder stays as it is."""
    shared, sealed, file = tmp_path / "shared", tmp_path / "sealed", tmp_path / "file"
    for folder in (shared, sealed):
        folder.mkdir()
    shared.chmod(0o777)
    file.write_text("no folder")
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != sealed and writable(path, mode))
    for unusable in (shared, file, file / "cache", sealed):
        monkeypatch.setenv("VPINTEGRATOR_CACHE", str(unusable))
        assert load_library(SOURCE).answer() == 42
        assert tmp_path not in Compilation([SOURCE])._path.parents
    assert not [*sealed.iterdir(), *shared.iterdir()]
    for name in ("VPINTEGRATOR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(library.Path, "home", Mock(side_effect=RuntimeError))
    assert load_library(SOURCE).answer() == 42


def test_what_is_too_much_is_removed(folder, monkeypatch):
    def stored(number, size=30, days=0.0):
        """A file as long as that, last used so many days ago."""
        path = folder / f"{number:032x}.so"
        path.write_bytes(bytes(size))
        os.utime(path, (time.time() - days * DAY,) * 2)
        return path

    folder.mkdir()
    monkeypatch.setattr(library, "LARGEST", 100)
    other = folder / "notes.so"
    other.write_bytes(bytes(1000))
    many = [stored(10 + k, days=k + 1) for k in range(5)]
    library.prune(many[0])
    assert sorted(folder.iterdir()) == sorted([*many[:3], other])
    library.prune(stored(20, size=200))
    assert sorted(folder.iterdir()) == sorted([folder / f"{20:032x}.so", other])


def test_what_killed_compilers_leave_is_removed(folder):
    path = made(folder)
    os.utime(path, (0, 0))
    load_library(SOURCE)
    assert time.time() - path.stat().st_mtime < DAY  # what is used is not removed
    killed, working = folder / "making-0123abcd", folder / "making-4567cdef"
    for workshop in (killed, working):
        workshop.mkdir()
        (workshop / "0.cpp").write_text(SOURCE)
    os.utime(killed, (0, time.time() - 2 * DAY))
    load_library(SOURCE.replace("42", "43"))
    assert not killed.exists()
    assert working.exists() and path.exists()


def test_a_compiler_that_is_stopped_leaves_nothing(slow, folder):
    compilation = Compilation(["int one;", "int two;"])
    started = slow / "started"
    while not started.exists() or len(started.read_text().split()) < 2:
        time.sleep(0.01)
    compilation.stop()
    assert list(folder.iterdir()) == []
    time.sleep(1.2)
    assert not (slow / "finished").exists()
    compilation.stop()  # once more does no harm


def test_a_compiler_at_work_at_the_deadline_is_stopped(slow):
    with until(time.perf_counter() + 0.1), pytest.raises(TimeIsUp):
        Compilation(["int one;"]).library()
    time.sleep(1.2)
    assert not (slow / "finished").exists()


def test_a_compiler_with_arguments(folder, monkeypatch, tmp_path):
    compiler = tmp_path / "a compiler"
    compiler.symlink_to(shutil.which("c++"))
    source = 'extern "C" int one() { return ONE + WIDE; }'
    for one in (1, 7):  # another library
        monkeypatch.setenv("CXX", f"'{compiler}' -DONE={one} '-DWIDE=2 + 2'")
        assert load_library(source).one() == one + 4
    monkeypatch.setenv("CXX", str(compiler))  # blanks in a path need no quotes
    assert load_library('extern "C" int one() { return 1; }').one() == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-compiler -m64", "the compiler no-such-compiler in CXX was not found"),
        ("c++ 'open", "CXX is no command: No closing quotation"),
        ("c++ -no-such-flag", "c\\+\\+ (does not run|failed): "),
        ("c++", r"failed: .*error"),
    ],
)
def test_what_fails_is_said(folder, monkeypatch, command, message):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(NotCompilable, match=message):
        Compilation(["int fine;", "int not fine;"]).library()
    assert not folder.exists() or list(folder.iterdir()) == []
