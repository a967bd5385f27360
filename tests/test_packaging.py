"""What stands beside the package agrees with it."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import vpintegrator as vp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert "version" not in PROJECT["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == vp.__version__
    assert citation["title"] == PROJECT["project"]["name"]
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_changelog_speaks_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert first == "Unreleased"
    released = [re.fullmatch(r"(\d\S*) - \d{4}-\d\d-\d\d", heading)[1] for heading in headings]
    assert not released or released[0] == vp.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert ("date-released" in citation) == bool(released)


def test_every_extra_is_explained():
    page = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(PROJECT["project"]["optional-dependencies"])


def workflow(name):
    return yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))


def test_the_public_checks_call_the_scripts_and_know_the_pythons():
    jobs = workflow("check.yml")["jobs"]
    called = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert called == ["scripts/test --all", "scripts/docs"]
    assert all((ROOT / name.split()[0]).exists() for name in called)
    known = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    assert jobs["test"]["strategy"]["matrix"]["python"] == known


def source_files(folder):
    """Files of the package that git knows, and new ones, by their names in a wheel."""
    places = {"vpintegrator": "vpintegrator", "systems": "vpintegrator/systems"}
    places["datasets"] = "vpintegrator/datasets"
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    listed = subprocess.run(git, cwd=folder, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (folder / name).is_file():
            top, _, rest = name.partition("/")
            yield name, f"{places[top]}/{rest}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of all that setuptools reads, in which it may write."""
    if not (ROOT / ".git").exists():
        pytest.skip("the files of the package are those that git knows")
    folder = tmp_path_factory.mktemp("copy")
    names = [name for name, _ in source_files(ROOT)]
    for name in (*names, "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def wheel_files(folder, place):
    """Names in the wheel that is built of a folder, without its metadata."""
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    build = [sys.executable, "-c", code, str(place)]
    subprocess.run(build, cwd=folder, capture_output=True, check=True)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_a_wheel_has_every_file_of_the_package(copy, tmp_path):
    """Styles, headers, systems and recipes too; an editable install finds them in any case."""
    expected = {installed for _, installed in source_files(ROOT)}
    assert any(name.endswith(".mplstyle") for name in expected)
    assert wheel_files(copy, tmp_path) == expected
