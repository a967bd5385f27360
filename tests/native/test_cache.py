"""The cache of libraries: nothing is loaded from it that was not put there, and it stays small."""

import os
import shutil
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


def rewritten(path, content):
    path.unlink()  # the file that is loaded here stays as it is
    path.write_bytes(content)
    path.chmod(0o700)


def truncated(path):
    rewritten(path, path.read_bytes()[:1000])


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    rewritten(path, content)


def linked(path):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def writable(path):
    path.chmod(0o777)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replaced(path):
    other = path.with_name(f"{path.stem[:32]}-{'0' * 64}.so")
    shutil.copyfile(path, other)
    path.unlink()


@pytest.mark.parametrize("harm", [truncated, altered, linked, writable, a_pipe, replaced])
def test_what_is_not_as_it_was_made_is_made_anew(folder, harm):
    path = made(folder)
    content = path.read_bytes()
    harm(path)
    seen = []
    Compilation([SOURCE], worth=lambda seconds, cached: seen.append(cached) or True).stop()
    assert seen == [False]
    assert libraries(folder) == []
    again = made(folder)
    assert again.is_file()
    assert not again.is_symlink()
    assert again.read_bytes() == content or again.name != path.name


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
        path = made(folder)
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o077 == 0
    assert path.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_or_trusted_is_replaced_by_a_temporary_one(
    folder, monkeypatch, tmp_path
):
    """A library is found there again, and the other folder stays as it is."""
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    (open_folder / "cache").mkdir()
    file = tmp_path / "file"
    file.write_text("no folder")
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != sealed and writable(path, mode))
    for unusable in (open_folder, open_folder / "cache", file, file / "cache", sealed):
        monkeypatch.setenv("VPINTEGRATOR_CACHE", str(unusable))
        assert load_library(SOURCE).answer() == 42
        kept = open_cache("answer").folder
        assert len(libraries(kept)) == 1
        assert tmp_path not in kept.parents
    assert file.read_text() == "no folder"
    assert not [*sealed.iterdir(), *(open_folder / "cache").iterdir()]


def test_a_cache_that_is_only_read_is_used_where_it_has_the_library(folder, monkeypatch):
    path = made(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert open_cache(path.name[:32]).folder == folder


def test_a_link_on_the_way_that_others_may_redirect(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "shared").mkdir()
    link = tmp_path / "shared" / "link"
    link.symlink_to(tmp_path / "real")
    LibraryCache(link)
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(PermissionError, match=r"other users can change .*shared, on the way"):
        LibraryCache(link)
    LibraryCache(tmp_path / "real")


def test_without_a_home_there_is_a_temporary_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("VPINTEGRATOR_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.Path, "home", homeless)
    assert load_library(SOURCE).answer() == 42


def stored(library_cache, number, size=10, days=0.0):
    """A file as long as that, last used so many days ago."""
    path = library_cache.folder / f"{number:032x}-{'0' * 64}.so"
    path.write_bytes(bytes(size))
    used = time.time() - days * DAY
    os.utime(path, (used, used))
    return path


def test_what_is_old_or_too_much_is_removed(folder, monkeypatch):
    monkeypatch.setattr(cache, "LARGEST", 100)
    kept = LibraryCache(folder)
    old, new = stored(kept, 1, days=91), stored(kept, 2, days=89)
    earlier = folder / f"{'a' * 32}.so"  # as earlier versions named them
    stored(kept, 3, days=100).rename(earlier)
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
