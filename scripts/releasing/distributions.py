"""Build the source distribution and the wheel of this checkout, and check what they hold.

    scripts/build                     # into dist/
    scripts/build --expect v0.2.0     # refuse to build any other version: for a tag

Both are made of a copy of the files that git knows, as they are now, so that nothing which lies
about comes with them. The source distribution must hold all of these, and the wheel every module,
system, recipe and source in C of the package, and nothing else; built from the source distribution
or from the checkout, it must be the same. twine checks what the package index would show.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# settings of one place, which no distribution holds
_ELSEWHERE = (".ci/", ".gitignore")
# what setuptools adds to a source distribution
_MADE = re.compile(r"PKG-INFO|setup\.cfg|vpintegrator\.egg-info/[\w-]+(\.txt)?")
# systems/ and datasets/ install inside the package, see pyproject.toml
_FOLDERS = {"vpintegrator": "", "systems": "vpintegrator/", "datasets": "vpintegrator/"}


class NotReleased(Exception):
    """Why something cannot be built or released, in one sentence."""


def main() -> int:
    """Build, check, and say what came of it; 2 if something is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/build", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--expect", metavar="VERSION", help="the version it must be, or its tag")
    arguments = parser.parse_args()
    try:
        expected = arguments.expect and arguments.expect.removeprefix("v")
        if expected and expected != version_of(ROOT):
            raise NotReleased(f"the version is {version_of(ROOT)}, not {expected}")
        for path in build(ROOT, arguments.folder):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path}\n  {path.stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    except (NotReleased, OSError) as reason:
        print(f"scripts/build: {reason}", file=sys.stderr)
        return 2
    return 0


def build(checkout: Path, folder: Path) -> list[Path]:
    """The two distributions of a checkout, in ``folder`` once all is as it should be."""
    with tempfile.TemporaryDirectory(prefix="build-") as made:
        top = Path(made)
        files = tracked(checkout)
        for name in files:
            (top / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, top / "source" / name)
        source = run_build(top / "source", top / "sdist", "sdist")
        check_source(source, files)
        wheel = run_build(top / "source", top / "wheel", "wheel")
        check_wheel(wheel, files)
        with tarfile.open(source) as archive:
            archive.extractall(top / "unpacked", filter="data")
        again = run_build(next((top / "unpacked").iterdir()), top / "again", "wheel")
        check_same(wheel, again)
        done = run([sys.executable, "-m", "twine", "check", "--strict", source, wheel], top)
        if done.returncode:
            raise NotReleased(f"twine finds a mistake: {done.stdout.strip()}")
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, folder)) for path in (source, wheel)]


def version_of(checkout: Path) -> str:
    """The version of the package, from the one place where it stands."""
    text = (checkout / "vpintegrator" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"$', text, re.M)
    if found is None:
        raise NotReleased("vpintegrator/__init__.py does not say __version__")
    return found[1]


def tracked(checkout: Path) -> list[str]:
    """The files that git knows and that belong to a distribution."""
    done = run(["git", "ls-files", "-z"], checkout)
    if done.returncode:
        raise NotReleased(f"{checkout} is no checkout of git: {done.stderr.strip()}")
    names = [name for name in done.stdout.split("\0") if name and not name.startswith(_ELSEWHERE)]
    gone = [name for name in names if not (checkout / name).is_file()]
    if gone:
        raise NotReleased(f"git knows {gone[0]}, but it is gone; commit that, or bring it back")
    return names


def run_build(source: Path, folder: Path, kind: str) -> Path:
    """One distribution, by the setuptools of this environment."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", folder]
    done = run([*command, source], source.parent)
    if done.returncode:
        raise NotReleased(f"the {kind} cannot be built: {last_line(done)}")
    return next(folder.iterdir())


def check_source(path: Path, files: Iterable[str]) -> None:
    """Whether the source distribution holds the files, and nothing else."""
    with tarfile.open(path) as archive:
        names = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    compare(path.name, {*files}, {name for name in names if not _MADE.fullmatch(name)})


def check_wheel(path: Path, files: Iterable[str]) -> None:
    """Whether the wheel holds what belongs to the package, and nothing else."""
    tops = {name: name.partition("/")[0] for name in files if "/" in name}
    wanted = {_FOLDERS[top] + name for name, top in tops.items() if top in _FOLDERS}
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    compare(path.name, wanted, names)


def compare(what: str, wanted: set[str], found: set[str]) -> None:
    """Raise NotReleased with the first name that is missing, or too many."""
    for names, words in ((wanted - found, "lacks"), (found - wanted, "holds also")):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise NotReleased(f"{what} {words} {min(names)}{more}; see MANIFEST.in, pyproject.toml")


def check_same(one: Path, other: Path) -> None:
    """Whether two wheels are the same, in names and contents."""
    if one.name != other.name:
        raise NotReleased(f"from the source distribution the wheel is {other.name}, not {one.name}")
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        compare("from the source distribution the wheel", {*a.namelist()}, {*b.namelist()})
        for name in a.namelist():
            if a.read(name) != b.read(name):
                raise NotReleased(f"from the source distribution the wheel has another {name}")


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder, and what it says."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said in the end."""
    lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()
    return lines[-1] if lines else f"it left with {done.returncode} and no word"


if __name__ == "__main__":
    sys.exit(main())
