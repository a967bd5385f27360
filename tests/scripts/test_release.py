"""What a distribution holds, and how a release is made, in a copy of the checkout."""

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import vpintegrator as vp

ROOT = Path(__file__).parents[2]
RELEASING = ROOT / "scripts" / "releasing"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- Something.\n"


@pytest.fixture
def script(monkeypatch):
    """One of the scripts as a module."""
    monkeypatch.syspath_prepend(RELEASING)
    return importlib.import_module


def git(folder, *arguments):
    settings = ["-c", "user.name=somebody", "-c", "user.email=", "-c", "commit.gpgsign=false"]
    command = ["git", *settings, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def begun(folder):
    """A repository of what is in the folder."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "somebody")
    git(folder, "config", "user.email", "somebody@example.org")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "All")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A repository of the whole checkout as it is now."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    folder = tmp_path_factory.mktemp("checkout")
    for name in git(ROOT, "ls-files").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return begun(folder)


@pytest.fixture
def small(tmp_path):
    """A repository of the least that is looked at before anything is done."""
    (tmp_path / "vpintegrator").mkdir()
    (tmp_path / "vpintegrator/__init__.py").write_text('__version__ = "0.3.0"\n')
    released = "\n## 0.3.0 - 2020-01-01\n\n- All.\n\n## 0.2.0 - 2019-01-01\n\n- More.\n"
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG + released)
    return begun(tmp_path)


def call(checkout, name, *arguments):
    command = [sys.executable, "-B", checkout / "scripts/releasing" / name, *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


def state(checkout):
    """Commits, tags, changes, and whatever else lies about."""
    asked = (["rev-parse", "HEAD"], ["tag"], ["status", "--porcelain", "--ignored"])
    return [git(checkout, *arguments) for arguments in asked]


def test_a_release(whole):
    before = state(whole)
    tried = call(whole, "release.py", "9.8.7", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert '+__version__ = "9.8.7"' in tried.stdout
    assert re.search(r"^\+## 9\.8\.7 - \d{4}-\d\d-\d\d$", tried.stdout, re.M)
    assert "vpintegrator-9.8.7-py3-none-any.whl, " in tried.stdout
    assert state(whole) == before

    done = call(whole, "release.py", "9.8.7", "--skip-checks")
    assert done.returncode == 0, done.stderr
    assert "git push --atomic origin main v9.8.7" in done.stdout
    assert git(whole, "log", "-1", "--format=%s %an") == "Release 9.8.7 somebody"
    assert git(whole, "cat-file", "-t", "v9.8.7") == "tag"
    assert git(whole, "rev-parse", "v9.8.7^{commit}") == git(whole, "rev-parse", "main")
    assert git(whole, "status", "--porcelain") == ""
    changed = git(whole, "show", "--name-only", "--format=").splitlines()
    recipe = "packaging/conda/recipe.yaml"
    assert changed == ["CHANGELOG.md", "CITATION.cff", recipe, "vpintegrator/__init__.py"]
    assert "\n## Unreleased\n\n## 9.8.7 - " in (whole / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((whole / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == "9.8.7"
    assert f"## 9.8.7 - {citation['date-released']}" in (whole / "CHANGELOG.md").read_text()

    wheel = whole / "dist" / "vpintegrator-9.8.7-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info" not in name}
        assert "Version: 9.8.7\n" in archive.read("vpintegrator-9.8.7.dist-info/METADATA").decode()
    kinds = {Path(name).suffix for name in held}
    assert kinds == {".py", ".toml", ".h", ".cpp", ".typed"}
    assert {name.partition("/")[0] for name in held} == {"vpintegrator"}
    assert {f"vpintegrator/systems/{name}.toml" for name in vp.list_systems()} <= held
    sources = {str(p.relative_to(ROOT)) for p in (ROOT / "vpintegrator").rglob("*.[hpc]*")}
    assert {name for name in sources if "__pycache__" not in name and "." in name} - held == set()
    with tarfile.open(whole / "dist" / "vpintegrator-9.8.7.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for each in ("scripts/test", "tests/conftest.py", "docs/theory/volume.md", "CITATION.cff"):
        assert each in names
    assert any(name.startswith("tests/data/formats/") and name.endswith(".h5") for name in names)

    again = call(whole, "release.py", "9.8.7", "--dry-run")
    assert again.returncode == 2
    assert "9.8.7 is not later than 9.8.7" in again.stderr
    other = call(whole, "distributions.py", "--expect", "v1.0")
    assert other.returncode == 2
    assert other.stderr == "scripts/build: the version is 9.8.7, not 1.0\n"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("next", "'next' is no version"),
        ("1.0-rc1", "written otherwise in an index of packages: 1.0rc1"),
        ("1.0+mine", "written otherwise in an index of packages: 1.0"),
        ("0.2.9", "0.2.9 is not later than 0.3.0"),
        ("0.3.0", "0.3.0 is not later than 0.3.0"),
        ("0.4.0", "0.4.0 has been released before"),
    ],
)
def test_a_version_that_cannot_be(small, script, version, message):
    git(small, "tag", "v0.4.0")
    module = script("release")
    before = state(small)
    with pytest.raises(script("distributions").NotReleased) as told:
        module.release(small, version, dry_run=True, skip_checks=True)
    assert message in str(told.value)
    assert state(small) == before


def test_the_version_from_the_beginning_can_be_the_first(small, script):
    (small / "CHANGELOG.md").write_text(CHANGELOG)
    script("release").check_version(small, "0.3.0")


def on_a_branch(folder):
    git(folder, "switch", "--quiet", "--create", "other")


def with_a_change(folder):
    (folder / "CHANGELOG.md").write_text("changed")


def with_a_new_file(folder):
    (folder / "notes.md").write_text("new")


def with_nothing_new(folder):
    text = (folder / "CHANGELOG.md").read_text().replace("- Something.", "Nothing.")
    (folder / "CHANGELOG.md").write_text(text)
    git(folder, "commit", "--quiet", "--all", "--message", "Nothing new")


def without_a_heading(folder):
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## 0.3.0 - 2020-01-01\n")
    git(folder, "commit", "--quiet", "--all", "--message", "No heading")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (on_a_branch, "this checkout is on the branch other"),
        (with_a_change, "what has changed: CHANGELOG.md"),
        (with_a_new_file, "what has changed: notes.md"),
        (
            with_nothing_new,
            "says nothing under '## Unreleased' that is new in 0.4.0",
        ),
        (without_a_heading, "CHANGELOG.md needs one heading '## Unreleased'"),
    ],
)
def test_a_checkout_that_is_not_ready(small, script, spoil, message):
    spoil(small)
    before = state(small)
    with pytest.raises(script("distributions").NotReleased) as told:
        script("release").release(small, "0.4.0", dry_run=False, skip_checks=True)
    assert message in str(told.value)
    assert state(small) == before


def test_what_fails_on_the_way_leaves_all_as_it_was(whole, tmp_path):
    """A package that pyproject.toml does not know, and a folder that MANIFEST.in does not."""
    for name, message in (
        ("vpintegrator/another/part.py", ".tar.gz lacks vpintegrator/another/part.py"),
        ("notes/today.md", ".tar.gz lacks notes/today.md; see MANIFEST.in"),
    ):
        copy = tmp_path / Path(name).stem
        git(tmp_path, "clone", "--quiet", str(whole), str(copy))
        (copy / name).parent.mkdir()
        (copy / name).write_text("")
        text = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
        text = text.replace("## Unreleased\n", "## Unreleased\n\n- Something.\n", 1)
        (copy / "CHANGELOG.md").write_text(text, encoding="utf-8")
        git(copy, "add", "--all")
        git(copy, "commit", "--quiet", "--message", "More")
        before = state(copy)
        failed = call(copy, "release.py", "10.0.0", "--skip-checks")
        assert failed.returncode == 2
        assert message in failed.stderr
        assert failed.stderr.count("\n") == 1
        assert state(copy) == before


def test_a_wheel_holds_the_package_and_nothing_else(script, tmp_path):
    module = script("distributions")
    files = ["vpintegrator/a.py", "systems/b.toml", "tests/test_c.py", "README.md"]
    for names, message in (
        (["vpintegrator/a.py", "vpintegrator/systems/b.toml", "v.dist-info/METADATA"], None),
        (["vpintegrator/a.py", "systems/b.toml"], "lacks vpintegrator/systems/b.toml"),
        (["vpintegrator/a.py", "vpintegrator/systems/b.toml", "tests/x.py"], "also tests/x.py"),
    ):
        with zipfile.ZipFile(tmp_path / "v.whl", "w") as archive:
            for name in names:
                archive.writestr(name, "")
        if message is None:
            module.check_wheel(tmp_path / "v.whl", files)
            continue
        with pytest.raises(module.NotReleased, match=message):
            module.check_wheel(tmp_path / "v.whl", files)


def test_two_wheels_that_differ(script, tmp_path):
    module = script("distributions")
    for folder, text in (("a", "1"), ("b", "2")):
        (tmp_path / folder).mkdir()
        with zipfile.ZipFile(tmp_path / folder / "v.whl", "w") as archive:
            archive.writestr("vpintegrator/a.py", text)
    with pytest.raises(module.NotReleased, match="the wheel has another"):
        module.check_same(tmp_path / "a/v.whl", tmp_path / "b/v.whl")


def test_a_merge_that_is_refused_takes_the_tag_back(small, script, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(small), str(clone))
    git(clone, "config", "user.name", "somebody")
    git(clone, "config", "user.email", "somebody@example.org")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "Release 0.4.0")
    git(clone, "tag", "--annotate", "v0.4.0", "--message", "0.4.0")
    git(small, "commit", "--quiet", "--allow-empty", "--message", "In the meantime")
    before = state(small)
    with pytest.raises(script("distributions").NotReleased):
        script("release").adopt(small, clone, "0.4.0")
    assert state(small) == before


def test_help_needs_nothing():
    for name in ("scripts/build", "scripts/release"):
        done = subprocess.run([ROOT / name, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"usage: {name}" in done.stdout
