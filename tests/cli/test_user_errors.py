"""An exception of the user's own code surfaces as itself, with its place: it is not a bug of aotc."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import aotc as api
from aotc.export.source import load_source

RAISE = "\n\ndef {name}({args}):\n    raise {error}\n"


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("model", "", 'ValueError("no such checkpoint")', "ValueError: no such checkpoint"),
        ("inputs", "", 'KeyError("x")', "KeyError: 'x'"),
        ("more_inputs", "", "AssertionError", "AssertionError"),
        ("accuracy", "run", 'ZeroDivisionError("no samples")', "ZeroDivisionError: no samples"),
        ("model", "", 'FileNotFoundError(2, "No such file", "w.pt")', "[Errno 2] No such file: 'w.pt'"),
        ("model", "", 'EOFError("Ran out of input")', "EOFError: Ran out of input"),
        ("model", "", "SystemExit(0)", "SystemExit: 0"),
        ("model", "", 'BrokenPipeError(32, "Broken pipe")', "BrokenPipeError: [Errno 32] Broken pipe"),
    ],
)
def test_in_a_function_of_the_source(cli, folder: Path, source, name, args, error, text) -> None:
    file = source(end=RAISE.format(name=name, args=args, error=error))
    line = len((folder / file).read_text().splitlines())
    done = cli("build", file, "-o", "new")
    assert done.code == 2
    assert text in done.error.splitlines()[0]
    assert done.error.splitlines()[0].startswith("error[source]: ")
    assert done.error.splitlines()[1:] == [
        f"  where: {file}:{line}, in {name}",
        "  fix: aotc --debug ... shows the traceback",
    ]
    assert not (folder / "new").exists()


def test_while_the_file_is_executed(cli, folder: Path, source) -> None:
    file = source(end="\nimport nonexistent_package\n")
    line = len((folder / file).read_text().splitlines())
    done = cli("build", file, "-o", "new")
    assert done.code == 2
    assert done.error.startswith(
        "error[source]: ModuleNotFoundError: No module named 'nonexistent_package'\n"
        f"  where: {file}:{line}, in <module>\n"
    )


def test_a_syntax_error(cli, folder: Path, source) -> None:
    file = source(end="\ndef broken(:\n")
    line = len((folder / file).read_text().splitlines())
    done = cli("build", file, "-o", "new")
    assert done.code == 2
    assert re.match(rf"error\[source\]: SyntaxError: .*\n  where: {file}:{line}\n", done.error)


def test_a_file_that_is_not_text(cli, folder: Path, source) -> None:
    done = cli("build", source(end="\0"), "-o", "new")
    assert done.code == 2
    assert done.error.startswith("error[source]: SyntaxError: source code string cannot contain null bytes")


def test_the_place_is_the_innermost_line_of_the_source(cli, folder: Path, source) -> None:
    file = source(
        end="\n\ndef accuracy(run):\n    return helper()\n\n\ndef helper():\n    return {}['top1']\n"
    )
    line = len((folder / file).read_text().splitlines())
    done = cli("build", file, "-o", "new")
    assert f"  where: {file}:{line}, in helper" in done.error


def test_inputs_that_the_engine_refuses_in_accuracy(cli, folder: Path, source) -> None:
    file = source(end="\n\ndef accuracy(run):\n    return run(torch.zeros(9, 4))['logits'].sum()\n")
    line = len((folder / file).read_text().splitlines())
    done = cli("check", "bundle", file)
    assert done.code == 2
    assert done.error == (
        "error[input]: no profile allows these sizes: 'batch' must be 1 to 8, not 9\n"
        f"  where: {file}:{line}, in accuracy\n  fix: build with a wider profile, or split the input"
    )


def test_debug_shows_the_traceback(cli, folder: Path, source) -> None:
    file = source(end=RAISE.format(name="model", args="", error='ValueError("no such checkpoint")'))
    done = cli("--debug", "build", file, "-o", "new")
    assert done.code == 2
    assert "Traceback (most recent call last)" in done.err
    assert f'{file}", line ' in done.err
    assert done.err.rstrip().endswith("shows the traceback")


def test_the_library_raises_the_plain_exception(folder: Path, source) -> None:
    file = source(end=RAISE.format(name="accuracy", args="run", error='ZeroDivisionError("no samples")'))
    with pytest.raises(ZeroDivisionError, match=r"^no samples$"):
        api.check(folder / "bundle", file)
    loaded = load_source(Path(file))
    with pytest.raises(ZeroDivisionError, match=r"^no samples$"):
        api.build(loaded.model(), loaded.inputs, out=folder / "new", accuracy=loaded.accuracy)
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("dynamic_shape = ({0: 'batch'},)", "dynamic_shapes"),
        ("profile = [{'batch': (1, 2, 3)}]", "profiles"),
        ("def more_input():\n    return []", "more_inputs"),
        ("def acuracy(run):\n    return 1.0", "accuracy"),
    ],
)
def test_a_misspelt_name_in_a_source_file(cli, tmp_path: Path, line: str, meant: str) -> None:
    text = "import torch\n\n\ndef model():\n    return torch.nn.ReLU().eval()\n"
    text += "\n\ndef inputs():\n    return (torch.ones(2, 3),)\n"
    (tmp_path / "net.py").write_text(f"{text}\n\n{line}\n")
    done = cli("build", str(tmp_path / "net.py"), "-o", str(tmp_path / "out"))
    assert done.code == 2
    assert f"did you mean '{meant}'?" in done.error
