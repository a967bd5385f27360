"""What stands beside the package agrees with it."""

import re
import tomllib
from pathlib import Path

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
