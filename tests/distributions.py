"""Builds what is published, checks it, and tries it in an empty environment: ``make dist``.

Each package is built from the repository, and its wheel once more from its source distribution: both wheels must have
the same bytes. Their contents are compared with the files that git knows, and metadata are validated. Then the wheel is
installed with what it depends on and nothing else, and its commands make, release, compare and report sketches. What
the environment holds is listed in CycloneDX's JSON, and the SHA-256 of all files beside it, in FOLDER-about.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from streamsketch import __version__

ROOT = Path(__file__).parents[1]
PACKAGES = {"streamsketch": ROOT, "streamsketch_reader": ROOT / "reader"}
BESIDE = {  # the package itself, in a source distribution
    "streamsketch": {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"},
    "streamsketch_reader": {"LICENSE", "README.md", "pyproject.toml"},
}
ADDED = {"PKG-INFO", ".gitignore"}  # by hatchling
MOST_BYTES = 4_000_000
READ = """
import streamsketch as ss
releases = list(ss.load("all.parquet").values())
print(len(releases), ss.cosine(releases[0], releases[1]).interval())
"""


def run(*command: object, cwd: Path) -> str:
    """Return what a command prints; fail with what it says."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(  # noqa: S603
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(name: str, source: Path, target: str, folder: Path) -> Path:
    """Return the distribution of a kind that hatchling builds from a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, cwd=source)
    (built,) = folder.glob(f"{name}-[0-9]*.{'whl' if target == 'wheel' else 'tar.gz'}")
    return built


def known_files(*folders: str) -> set[str]:
    """Return the files of folders that git knows."""
    return set(run("git", "ls-files", "-z", *folders, cwd=ROOT).split("\0")) - {""}


def check_contents(name: str, wheel: Path, source: Path) -> None:
    """Compare what distributions hold with what they are to hold."""
    wanted = known_files("streamsketch")
    project = tomllib.loads((PACKAGES[name] / "pyproject.toml").read_text(encoding="utf-8"))
    built = project["tool"]["hatch"]["build"]["targets"]
    pages = set(built["wheel"].get("force-include", {}).values())
    with zipfile.ZipFile(wheel) as archive:
        held = {each for each in archive.namelist() if ".dist-info/" not in each}
        (metadata,) = (archive.read(each) for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        licences = [each for each in archive.namelist() if each.endswith("/licenses/LICENSE")]
    check(held == wanted | pages, f"{wheel.name} and the repository differ in {sorted(held ^ (wanted | pages))[:5]}")
    check(len(licences) == 1, f"{wheel.name} has no licence")
    with tarfile.open(source) as archive:
        found = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    folders = [each for each in built["sdist"]["only-include"] if each.startswith("docs/")]
    wanted |= {each for each in known_files(*folders) if each.endswith(".md")} if folders else set()
    wanted |= BESIDE[name] | ADDED
    check(found == wanted, f"{source.name} has other files than it is to have: {sorted(found ^ wanted)[:5]}")
    for path in (wheel, source):
        check(path.stat().st_size <= MOST_BYTES, f"{path.name} has more than {MOST_BYTES:,} bytes")
    described = Metadata.from_email(metadata, validate=True)
    check(described.description_content_type == "text/markdown", f"{wheel.name} has no readable description")
    check(bool(BytesParser().parsebytes(metadata).get_payload()), f"{wheel.name} has an empty description")


def check(condition: bool, message: str) -> None:  # noqa: FBT001
    """End with a message unless a condition holds."""
    if not condition:
        sys.exit(message)


def check_same(name: str, wheel: Path, source: Path, folder: Path) -> None:
    """Build the wheel from the source distribution; it must have the same bytes."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    again = build(name, unpacked, "wheel", folder / "built")
    digests = [hashlib.sha256(each.read_bytes()).hexdigest() for each in (wheel, again)]
    check(digests[0] == digests[1], f"the wheel of {name} has other bytes if its source distribution builds it")


def installed(wheel: Path, folder: Path) -> Path:
    """Return the folder of programs of a new environment with a wheel and what it depends on, not even pip."""
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run(*pip, "install", "--quiet", "--no-compile", wheel, cwd=folder)
    run(*pip, "check", cwd=folder)
    return folder / "bin"


def list_contents(bills: Path, name: str, programs: Path, out: Path) -> None:
    """Write what the environment of a wheel holds, the same bytes for the same packages."""
    bill = out / f"{name}.cdx.json"
    project = PACKAGES[name] / "pyproject.toml"
    described = ["--pyproject", project, "--mc-type", "library", "--output-reproducible", "--of", "JSON"]
    run(bills, "environment", *described, "-o", bill, programs / "python", cwd=out)
    held = json.loads(bill.read_text(encoding="utf-8"))
    names = {each["name"].lower().replace("_", "-") for each in held["components"]}
    needed = {canonicalize_name(Requirement(each).name) for each in dependencies(name)}
    check(needed <= names, f"{bill.name} lacks {sorted(needed - names)}")
    check("pip" not in names, f"{bill.name} lists the installer")
    print(f"{bill.name}: {len(names)} packages")


def dependencies(name: str) -> list[str]:
    """Return what a package asks for."""
    project = tomllib.loads((PACKAGES[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked: list[str] = project["dependencies"]
    return asked


def write_sums(out: Path, about: Path) -> None:
    """Write the SHA-256 of each distribution and bill, as sha256sum does."""
    files = sorted([*out.iterdir(), *about.glob("*.cdx.json")], key=lambda path: path.name)
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (about / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def try_whole(programs: Path, folder: Path) -> None:
    """Make, release, compare and report sketches by the command, and read a release by Python."""
    command = programs / "streamsketch"
    for shop, items in {"north": "abcab", "south": "abcde"}.items():
        (folder / f"{shop}.csv").write_text("".join(f"{line}\n" for line in ["item", *items * 100]))
    agreed = "agreed.json"
    terms = ["--l1", 1, "--epsilon", 1, "--set", "sketch-dim=256"]
    run(command, "agree", "--index", "item:text", *terms, "-o", agreed, cwd=folder)
    for shop in ("north", "south"):
        run(command, "sketch", f"{shop}.csv", "--agreement", agreed, "-o", f"{shop}.raw-sketch", cwd=folder)
        run(command, "release", f"{shop}.raw-sketch", "-o", f"{shop}.sketch", cwd=folder)
    found = json.loads(run(command, "compare", "north.sketch", "south.sketch", "--json", cwd=folder))
    check(bool(found), "nothing is compared")
    for arguments in (["--help"], ["guide"], ["guide", "privacy-officer"]):
        check(bool(run(command, *arguments, cwd=folder)), f"{arguments} prints nothing")
    compiled = json.loads(run(command, "demo", "--warmup", "--json", cwd=folder))
    check(compiled["kernels"] >= compiled["compiled"] > 0, "the kernels are not compiled beside the package")
    run(command, "demo", "--output", "all.parquet", cwd=folder)
    run(command, "report", "all.parquet", "--output", "page.html", cwd=folder)
    check("<svg" in (folder / "page.html").read_text(encoding="utf-8"), "the report has no picture")
    print(run(programs / "python", "-c", READ, cwd=folder), end="")


def main() -> None:
    """Build, check and try everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the distributions; its contents are removed first")
    parser.add_argument("--tag", help="of the release: v and the version, which is then compared")
    parser.add_argument("--bills", type=Path, help="cyclonedx-py, to list what the environments of the wheels hold")
    parser.add_argument("--no-install", action="store_true", help="install nothing: needs no index of packages")
    options = parser.parse_args()
    if options.tag is not None:
        check(options.tag == f"v{__version__}", f"the tag is {options.tag}, and the version {__version__}")
    out = options.folder.absolute()
    about = out.with_name(f"{out.name}-about")
    for each in (out, about):
        shutil.rmtree(each, ignore_errors=True)
    about.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, source in PACKAGES.items():
            sdist, wheel = (build(name, source, target, out) for target in ("sdist", "wheel"))
            check_contents(name, wheel, sdist)
            (folder / name).mkdir()
            check_same(name, wheel, sdist, folder / name)
            print(
                f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB; {wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB"
            )
            if options.no_install:
                continue
            programs = installed(wheel, folder / f"{name}-installed")
            if options.bills is not None:
                list_contents(options.bills.absolute(), name, programs, about)
            if name == "streamsketch":
                try_whole(programs, folder)
            else:
                print(run(programs / "python", "-c", READ, cwd=folder), end="")
    write_sums(out, about)
    print(f"Checked. The distributions are in {out}, what they need and their sums in {about}.")


if __name__ == "__main__":
    main()
