"""``aotc doctor``: what this machine has, and what aotc can do with it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re

import click

from aotc.cli.document import Document
from aotc.cli.output import console, print_json, say, table
from aotc.optional import how_to_install

EXTRAS = {
    "cpu": ("onnxruntime",),
    "build": ("torch", "onnx", "onnx-ir", "onnxscript", "jinja2"),
    "hf": ("transformers", "tokenizers", "safetensors", "peft"),
    "rtx": ("tensorrt-rtx-cu13",),
    "timm": ("timm", "torchvision"),
}
_TORCH = re.compile(r"torch\s*==\s*([\w.]+)")
_EXTRA_OF_TARGET = {"ort-cpu": "cpu", "tensorrt-rtx": "rtx"}
_READY = {"ort-cpu": "ready", "tensorrt-rtx": "compiles here; engines are not run (level graph)"}
_PURPOSES = {"cpu": "load and run bundles", "build": "build bundles"}


class DoctorDocument(Document):
    """What ``doctor`` prints; the version of a package that is not installed is null."""

    aotc: str
    python: str
    system: str
    processors: int | None
    cpu_flags: tuple[str, ...]
    packages: dict[str, str | None]
    targets: dict[str, bool]
    problems: tuple[str, ...]


@click.command("doctor", short_help="Show what this machine has.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Show packages, CPU and targets. Never fails because something is missing: it says what to install."""
    document = _examine()
    if as_json:
        print_json(document.to_dict())
    else:
        _print(document)


def _examine() -> DoctorDocument:
    from aotc import __version__
    from aotc.runtime import cpu_flags

    packages = {name: _version(name) for names in EXTRAS.values() for name in names}
    return DoctorDocument(
        aotc=__version__,
        python=platform.python_version(),
        system=platform.platform(),
        processors=os.cpu_count(),
        cpu_flags=cpu_flags(),
        packages=packages,
        targets={target: not _missing(packages, extra) for target, extra in _EXTRA_OF_TARGET.items()},
        problems=tuple(_problems(packages)),
    )


def _print(document: DoctorDocument) -> None:
    say(f"aotc {document.aotc}, Python {document.python}, {document.system}")
    say(f"{document.processors} processors: {' '.join(document.cpu_flags)}")
    rows: list[list[object]] = [
        [extra, name, document.packages[name] or "not installed"]
        for extra, names in EXTRAS.items()
        for name in names
    ]
    console().print(table(["extra", "package", "version"], rows))
    for target, ready in document.targets.items():
        missing = f"not available; {how_to_install(_EXTRA_OF_TARGET[target])}"
        say(f"target {target}: {_READY[target] if ready else missing}")
    for problem in document.problems:
        say(f"problem: {problem}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _missing(packages: dict[str, str | None], extra: str) -> list[str]:
    if extra == "cpu" and _version("onnxruntime-gpu"):
        return []
    return [name for name in EXTRAS[extra] if packages[name] is None]


def _problems(packages: dict[str, str | None]) -> list[str]:
    found = []
    if packages["onnxruntime"] and _version("onnxruntime-gpu"):
        found.append(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: "
            "pip uninstall both, then install one"
        )
    for extra, purpose in _PURPOSES.items():
        if missing := _missing(packages, extra):
            found.append(f"cannot {purpose}: {', '.join(missing)} missing; {how_to_install(extra)}")
    if packages["timm"] and (fault := _torchvision_fault(packages)):
        found.append(f"cannot read timm folders: {fault}; {how_to_install('timm')}")
    return found


def _torchvision_fault(packages: dict[str, str | None]) -> str | None:
    """Return why timm cannot be imported: it imports torchvision, which is built for one version of torch."""
    if packages["torchvision"] is None:
        return "torchvision missing"
    wanted = [_TORCH.match(text) for text in importlib.metadata.requires("torchvision") or ()]
    version = next((match[1] for match in wanted if match is not None), None)
    here = (packages["torch"] or "not installed").partition("+")[0]
    if version in (None, here):
        return None
    return f"torchvision {packages['torchvision']} is for torch {version}, and torch is {here}"
