"""``aotc doctor``: what this machine has, and what aotc can do with it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform

import click

from aotc.cli.output import console, print_json, table

_EXTRAS = {
    "cpu": ("onnxruntime",),
    "build": ("torch", "onnx", "onnx-ir", "onnxscript"),
    "hf": ("transformers", "tokenizers", "safetensors"),
}


@click.command("doctor", short_help="Show what this machine has.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Show packages, CPU and targets. Never fails because something is missing: it says what to install."""
    from aotc import __version__
    from aotc.runtime import cpu_flags

    packages = {name: _version(name) for names in _EXTRAS.values() for name in names}
    problems = _problems(packages)
    document = {
        "schema_version": 1,
        "aotc": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "cpu_flags": list(cpu_flags()),
        "packages": packages,
        "targets": {"ort-cpu": not _missing(packages, "cpu")},
        "problems": problems,
    }
    if as_json:
        print_json(document)
        return
    rows: list[list[object]] = [
        [extra, name, packages[name] or "not installed"] for extra, names in _EXTRAS.items() for name in names
    ]
    click.echo(f"aotc {__version__}, Python {document['python']}, {document['system']}")
    click.echo(f"{os.cpu_count()} processors: {' '.join(cpu_flags())}")
    console().print(table(["extra", "package", "version"], rows))
    ready = "ready" if not _missing(packages, "cpu") else "not available"
    click.echo(f"target ort-cpu: {ready}")
    for problem in problems:
        click.echo(f"problem: {problem}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _missing(packages: dict[str, str | None], extra: str) -> list[str]:
    if extra == "cpu" and _version("onnxruntime-gpu"):
        return []
    return [name for name in _EXTRAS[extra] if packages[name] is None]


def _problems(packages: dict[str, str | None]) -> list[str]:
    found = []
    if packages["onnxruntime"] and _version("onnxruntime-gpu"):
        found.append(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: "
            "pip uninstall both, then install one"
        )
    for extra, purpose in (("cpu", "load and run bundles"), ("build", "build bundles")):
        if missing := _missing(packages, extra):
            found.append(f'cannot {purpose}: {", ".join(missing)} missing; pip install "aotc[{extra}]"')
    return found
