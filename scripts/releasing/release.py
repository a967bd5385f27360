"""Make a release: one commit with its tag, and the distributions in dist/. Nothing is pushed.

    scripts/release 0.2.0 --dry-run   # show what would change, and build, in a folder of its own
    scripts/release 0.2.0

It needs the branch main, without changes that are not committed, and an entry under "Unreleased" in
CHANGELOG.md. scripts/test runs first, unless --skip-checks or --dry-run is given. The version is
then written where it stands, in a clone; what is built there is checked as scripts/build does it.
Only what went well to the end comes into this checkout: after a mistake it is as it was.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from distributions import ROOT, NotReleased, build, last_line, run, version_of

_BRANCH = "main"
_HEADING = "## Unreleased"
_PACKAGE = "vpintegrator/__init__.py"
_AUTHOR = ("user.name", "user.email")


def main() -> int:
    """Release, and say what to type next; 2 if something is in the way."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__.splitlines()[0])
    parser.add_argument("version", metavar="VERSION", help="such as 0.2.0, or 0.2.0rc1")
    parser.add_argument("--dry-run", action="store_true", help="show it, and change nothing here")
    parser.add_argument("--skip-checks", action="store_true", help="do not run scripts/test first")
    arguments = parser.parse_args()
    try:
        release(ROOT, arguments.version, arguments.dry_run, arguments.skip_checks)
    except (NotReleased, OSError) as reason:
        print(f"scripts/release: {reason}", file=sys.stderr)
        return 2
    return 0


def release(checkout: Path, version: str, dry_run: bool, skip_checks: bool) -> None:
    """Do it in a clone, and bring over what came of it.

    Raises
    ------
    NotReleased
        If it cannot be; the checkout is then as it was.
    """
    check_version(checkout, version)
    check_tree(checkout, version)
    if not (dry_run or skip_checks):
        print("scripts/test", flush=True)
        if subprocess.run([checkout / "scripts" / "test"], cwd=checkout).returncode:
            raise NotReleased("scripts/test fails; nothing was changed")
    with tempfile.TemporaryDirectory(prefix="release-") as made:
        clone, built = Path(made) / "clone", Path(made) / "dist"
        git(checkout, "clone", "--quiet", "--branch", _BRANCH, str(checkout), str(clone))
        write_version(clone, version, datetime.datetime.now(datetime.UTC).date().isoformat())
        check_agreement(clone)
        paths = build(clone, built)
        commit(checkout, clone, version)
        if dry_run:
            print(git(clone, "show", "--format=%s%n", "HEAD"))
            print("built, checked, and thrown away:")
        else:
            (checkout / "dist").mkdir(exist_ok=True)
            paths = [Path(shutil.copy(path, checkout / "dist")) for path in paths]
            adopt(checkout, clone, version)
        for path in paths:
            print(f"  {path.name if dry_run else path}, {path.stat().st_size / 1e6:.1f} MB")
    if dry_run:
        print(f"Nothing has changed here; scripts/release {version} does it.")
        return
    print(f"Release {version} is a commit and the tag v{version} of this checkout. To publish it:")
    print(f"  git push --atomic origin {_BRANCH} v{version}")
    print("and approve what .github/workflows/release.yml then wants to publish. To take it back:")
    print(f"  git tag --delete v{version} && git reset --keep HEAD~1")


def check_version(checkout: Path, version: str) -> None:
    """Whether it is a version, and later than all there are."""
    from packaging.version import InvalidVersion, Version  # not for --help

    try:
        wanted = Version(version)
    except InvalidVersion:
        raise NotReleased(f"'{version}' is no version, such as 0.2.0 or 0.2.0rc1") from None
    if str(wanted) != version or wanted.local:
        shown = wanted.public
        raise NotReleased(f"'{version}' is written otherwise in an index of packages: {shown}")
    present = Version(version_of(checkout))
    changelog = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S*)", changelog, re.M)
    # the first one may be that which the package has had from its beginning
    if wanted < present or (wanted == present and str(present) in released):
        raise NotReleased(f"{version} is not later than {present}, which there is already")
    if version in released or git(checkout, "tag", "--list", f"v{version}"):
        raise NotReleased(f"{version} has been released before")


def check_tree(checkout: Path, version: str) -> None:
    """Whether the checkout is as it is committed, on the main branch, and says what is new."""
    branch = git(checkout, "branch", "--show-current")
    if branch != _BRANCH:
        here = f"on the branch {branch}" if branch else "on no branch"
        raise NotReleased(f"a release is made of {_BRANCH}, and this checkout is {here}")
    if changed := git(checkout, "status", "--porcelain").splitlines():
        first = changed[0].split(maxsplit=1)[1]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise NotReleased(f"commit, or put away, what has changed: {first}{more}")
    text = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    if text.count(f"\n{_HEADING}\n") != 1:
        raise NotReleased(f"CHANGELOG.md needs one heading '{_HEADING}'")
    section = text.partition(f"\n{_HEADING}\n")[2].partition("\n## ")[0]
    if not re.search(r"^[-*] \S", section, re.M):
        raise NotReleased(f"CHANGELOG.md says nothing under '{_HEADING}' that is new in {version}")


def write_version(clone: Path, version: str, today: str) -> None:
    """The version, wherever it stands."""
    replace(clone / _PACKAGE, r'^__version__ = ".*"$', f'__version__ = "{version}"')
    heading = f"{_HEADING}\n\n## {version} - {today}"
    replace(clone / "CHANGELOG.md", rf"^{_HEADING}$", heading)
    citation = clone / "CITATION.cff"
    text = re.sub(r"^date-released:.*\n", "", citation.read_text(encoding="utf-8"), flags=re.M)
    citation.write_text(text, encoding="utf-8")
    replace(citation, r"^version: .*$", f"version: {version}\ndate-released: {today}")
    recipe = clone / "packaging" / "conda" / "recipe.yaml"
    replace(recipe, r'^  version: ".*"$', f'  version: "{version}"')


def replace(path: Path, pattern: str, by: str) -> None:
    """Write the one line of a file anew that matches."""
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(pattern, lambda _: by, text, flags=re.M)
    if count != 1:
        raise NotReleased(f"{path.name} has {count} lines that match {pattern}, not one")
    path.write_text(changed, encoding="utf-8")


def check_agreement(clone: Path) -> None:
    """Whether all that stands beside the package agrees with it, as its tests say."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = run([*command, "tests/test_packaging.py"], clone)
    if done.returncode:
        raise NotReleased(f"tests/test_packaging.py fails then: {last_line(done)}")


def commit(checkout: Path, clone: Path, version: str) -> None:
    """The commit and its tag, by whoever commits in the checkout."""
    for setting in _AUTHOR:
        if value := run(["git", "config", setting], checkout).stdout.strip():
            git(clone, "config", setting, value)
    git(clone, "commit", "--quiet", "--all", "--message", f"Release {version}")
    git(clone, "tag", "--annotate", f"v{version}", "--message", f"vpintegrator {version}")


def adopt(checkout: Path, clone: Path, version: str) -> None:
    """Bring the tag and the commit into the checkout: both, or none."""
    tag = f"refs/tags/v{version}"
    git(checkout, "fetch", "--quiet", "--no-tags", str(clone), f"{tag}:{tag}")
    try:
        git(checkout, "merge", "--quiet", "--ff-only", f"v{version}^{{commit}}")
    except NotReleased:
        git(checkout, "tag", "--delete", f"v{version}")
        raise


def git(folder: Path, *arguments: str) -> str:
    """What git says."""
    done = run(["git", *arguments], folder)
    if done.returncode:
        raise NotReleased(f"git {arguments[0]} fails: {last_line(done)}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
