"""What a user installs is what is here: every module and data file, and nothing that the pins forbid."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {name: Path(folder) for name, folder in PROJECT["tool"]["setuptools"]["package-dir"].items()}
TOP = [folder for folder in ("specs", "engine", "trainers", "domains") if (ROOT / folder).is_dir()]
MODEL_PACKAGES = ["torch", "transformers", "vllm", "outlines", "llguidance", "tokenizers", "unsloth"]


def shipped() -> set[str]:
    """Paths inside a wheel of every file below the packages' folders, but for what Python caches there."""
    return {
        f"castline/{path.relative_to(ROOT).as_posix()}"
        for top in TOP
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def pins(name: str) -> dict[str, Version]:
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(package): Version(version) for package, version in pairs}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    # built from a copy: setuptools leaves a build folder behind and would pack stale files out of an old one
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for top in TOP:
        shutil.copytree(ROOT / top, source / top, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / file, source)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(out)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("*.whl")
    return zipfile.ZipFile(file)


def test_every_package_folder_is_mapped():
    there = {path.parent.relative_to(ROOT) for top in TOP for path in (ROOT / top).rglob("*.py")}
    assert set(FOLDERS.values()) == there
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == set(FOLDERS)
    assert all(name == "castline." + ".".join(folder.parts) for name, folder in FOLDERS.items())


def test_wheel_holds_every_file_of_its_packages(wheel: zipfile.ZipFile):
    assert shipped() - set(wheel.namelist()) == set()


def test_wheel_claims_no_name_but_castline(wheel: zipfile.ZipFile):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"castline", f"castline-{PROJECT['project']['version']}.dist-info"}


def test_core_asks_for_no_model_package(wheel: zipfile.ZipFile):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
    asked = [Requirement(line.removeprefix("Requires-Dist: ")) for line in lines if "Requires-Dist" in line]
    core = {requirement.name for requirement in asked if requirement.marker is None}
    assert "duckdb" in core
    assert core.isdisjoint(MODEL_PACKAGES)


def test_wheel_works_without_model_packages(wheel: zipfile.ZipFile, tmp_path: Path):
    wheel.extractall(tmp_path / "site")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
sys.modules.update(dict.fromkeys({MODEL_PACKAGES}))  # importing one raises ImportError
import castline.engine.cli
assert castline.engine.cli.__file__.startswith(sys.path[0]), castline.engine.cli.__file__
castline.engine.cli.main()
"""
    for arguments, expected in ((["--help"], "critique"), (["validate", "library"], "library")):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["core", "hf", "cpu", "gpu"])
def test_pins_are_names_and_versions_only(name: str):
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert pinned
    assert [line for line in pinned if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)] == []


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("core", ["dev"]),
        ("hf", ["hf", "train", "dev"]),
        ("cpu", ["cpu", "hf", "train", "dev"]),
        ("gpu", ["gpu", "hf", "train", "dev"]),
    ],
)
def test_pins_are_those_that_pyproject_asks_for(name: str, extras: list[str]):
    optional = PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + [line for extra in extras for line in optional[extra]]
    pinned = pins(name)
    for requirement in map(Requirement, wanted):
        if requirement.name != "castline":
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not pinned: run 'make lock'"
            assert version in requirement.specifier, f"{requirement}: pinned to {version}; run 'make lock'"


def test_one_torch_for_transformers_and_vllm_on_a_cpu():
    assert pins("hf")["torch"] == pins("cpu")["torch"] == pins("torch")["torch"]
