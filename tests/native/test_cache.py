"""The cache of libraries: it is the user's, and it stays small."""

import os
import threading
import time

import pytest

from vpintegrator.native import cache
from vpintegrator.native.cache import LibraryCache, open_cache
from vpintegrator.native.compiler import Compilation, load_library

SOURCE = 'extern "C" int answer() { return 42; }'
DAY = 86400


@pytest.fixture
def folder(monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("VPINTEGRATOR_CACHE", str(folder))
    return folder


def libraries(folder):
    return sorted(folder.glob("*.so"))


def made(folder):
    """The library of SOURCE, where it is kept."""
    assert load_library(SOURCE).answer() == 42
    (path,) = libraries(folder)
    return path


@pytest.mark.parametrize("gone", [True, False])
def test_what_cannot_be_loaded_is_made_anew(folder, tmp_path, gone):
    """Another program removed it after it was found, or it is one for another machine."""
    source = SOURCE.replace("42", str(100 + gone))
    first = Compilation([source])
    first.stop()
    (tmp_path / "alien").write_text("no library here")
    path = LibraryCache(folder).add(first._name, tmp_path / "alien")
    second = Compilation([source])
    if gone:
        path.unlink()
    assert second.library().answer() == 100 + gone


def test_libraries_and_their_folder_are_for_the_user_alone(folder):
    umask = os.umask(0)
    try:
        made(folder)
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_or_trusted_is_replaced_by_a_temporary_one(
    folder, monkeypatch, tmp_path
):
    """A library is found there again, and the other folder stays as it is."""
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    file = tmp_path / "file"
    file.write_text("no folder")
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != sealed and writable(path, mode))
    for unusable in (open_folder, file, file / "cache", sealed):
        monkeypatch.setenv("VPINTEGRATOR_CACHE", str(unusable))
        assert load_library(SOURCE).answer() == 42
        kept = open_cache("answer").folder
        assert len(libraries(kept)) == 1
        assert tmp_path not in kept.parents
    assert file.read_text() == "no folder"
    assert not [*sealed.iterdir(), *open_folder.iterdir()]


def test_a_cache_that_is_only_read_is_used_where_it_has_the_library(folder, monkeypatch):
    path = made(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert open_cache(path.name[:32]).folder == folder


def test_without_a_home_there_is_a_temporary_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("VPINTEGRATOR_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.Path, "home", homeless)
    assert load_library(SOURCE).answer() == 42


def stored(library_cache, number, size=10, days=0.0):
    """A file as long as that, last used so many days ago."""
    path = library_cache.folder / f"{number:032x}.so"
    path.write_bytes(bytes(size))
    used = time.time() - days * DAY
    os.utime(path, (used, used))
    return path


def test_what_is_old_or_too_much_is_removed(folder, monkeypatch):
    monkeypatch.setattr(cache, "LARGEST", 100)
    kept = LibraryCache(folder)
    old, new = stored(kept, 1, days=91), stored(kept, 2, days=89)
    other = folder / "notes.so"
    other.write_bytes(bytes(1000))
    os.utime(other, (0, 0))
    kept.prune()
    assert sorted(folder.iterdir()) == sorted([new, other])
    assert not old.exists()
    many = [stored(kept, 10 + k, size=30, days=k + 1) for k in range(5)]
    kept.prune()
    assert sorted(folder.iterdir()) == sorted([*many[:3], other])
    kept.prune(kept=stored(kept, 20, size=200))
    assert len(libraries(folder)) == 2  # the one just made stays, however large


def test_what_killed_compilers_leave_is_removed(folder):
    path = made(folder)
    killed, working = folder / "making-0123abcd", folder / "making-4567cdef"
    for workshop in (killed, working):
        workshop.mkdir()
        (workshop / "0.cpp").write_text(SOURCE)
    os.utime(killed, (0, time.time() - 2 * DAY))
    load_library(SOURCE.replace("42", "43"))
    assert not killed.exists()
    assert working.exists()
    assert path.exists()


def test_use_is_remembered(folder):
    path = made(folder)
    os.utime(path, (time.time() - 91 * DAY,) * 2)
    before = path.stat().st_mtime_ns
    load_library(SOURCE)
    assert path.stat().st_mtime_ns == before
    LibraryCache(folder).prune()
    assert path.exists()


def test_several_programs_at_once(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "LARGEST", 50)
    failures = []

    def work(program):
        try:
            library_cache = LibraryCache(folder)
            for k in range(40):
                name = f"{k % 4:032x}"
                found = library_cache.find(name)
                if found is None:
                    new = tmp_path / f"{program}-{k}"
                    new.write_bytes(bytes([k % 4]) * 20)
                    library_cache.add(name, new)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    LibraryCache(folder).prune()
    assert sum(path.stat().st_size for path in libraries(folder)) <= 50
