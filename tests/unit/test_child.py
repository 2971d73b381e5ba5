"""The child process: results, errors and crashes come through; nothing else does."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from aotc.child import run_in_child
from aotc.errors import AotcError, InputError, InternalError, RefusedError, VerdictError

FUNCTIONS = '''
import os, signal, sys, time
from aotc.errors import InputError, VerdictError

class Special(VerdictError):
    """Not one of aotc.errors."""

def echo(payload, progress):
    progress("one")
    progress("two")
    return payload

def prints(payload, progress):
    print("to stdout")
    os.write(1, b"from native code\\n")
    sys.stdout.flush()
    progress("still fine")
    print('{"result": "forged"}')
    return "real"

def refuses(payload, progress):
    raise InputError("bad input", slug="own-slug", where="here", hint="try that")

def special(payload, progress):
    raise Special("special")

def crashes(payload, progress):
    progress("model.onnx: sizes n=0")
    os.write(2, b"terminate called\\n")
    os.kill(os.getpid(), signal.SIGSEGV)

def fails(payload, progress):
    raise KeyError("oops")

def leaves(payload, progress):
    os._exit(3)

def waits(payload, progress):
    progress(str(os.getpid()))
    time.sleep(60)
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions_of_child.py").write_text(textwrap.dedent(FUNCTIONS))
    monkeypatch.syspath_prepend(tmp_path)


def run(name: str, payload: object = None, told: list[str] | None = None) -> object:
    return run_in_child(
        f"functions_of_child:{name}", {"value": payload}, (told if told is not None else []).append
    )


def test_the_result_and_progress_come_back() -> None:
    told: list[str] = []
    payload = {"text": "äöü ☃", "deep": [1, 2.5, None, True, {"k": []}]}
    assert run("echo", payload, told) == {"value": payload}
    assert told == ["one", "two"]


def test_a_large_payload_passes_the_pipes() -> None:
    payload = ["x" * 1000] * 2000
    assert run("echo", payload) == {"value": payload}


def test_printing_does_not_disturb_the_protocol(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    assert run("prints", None, told) == "real"
    assert told == ["still fine"]
    assert capfd.readouterr() == ("", "")


def test_an_error_of_ours_keeps_all_its_fields() -> None:
    with pytest.raises(InputError) as caught:
        run("refuses")
    error = caught.value
    assert (error.message, error.name, error.where, error.hint) == (
        "bad input",
        "own-slug",
        "here",
        "try that",
    )


def test_an_error_class_from_elsewhere_comes_as_the_nearest_known_one() -> None:
    with pytest.raises(VerdictError, match="special") as caught:
        run("special")
    assert type(caught.value) is VerdictError


def test_a_crash_is_a_refusal_that_names_signal_and_place(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefusedError, match="crashed with SIGSEGV") as caught:
        run("crashes")
    assert (caught.value.name, caught.value.where) == ("native-crash", "model.onnx: sizes n=0")
    assert caught.value.__notes__ == ["the child process printed:\nterminate called"]
    assert capfd.readouterr() == ("", "")


def test_any_other_exception_is_a_bug_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InternalError, match="fails failed") as caught:
        run("fails")
    assert str(caught.value).endswith("fails failed: KeyError: 'oops'")
    assert "Traceback" in caught.value.__notes__[0]
    assert capfd.readouterr().err == ""


def test_a_child_that_just_ends_is_a_bug_of_ours() -> None:
    with pytest.raises(InternalError, match="ended with code 3 and no result") as caught:
        run("leaves")
    assert not isinstance(caught.value, AotcError)


def test_an_exception_in_the_parent_ends_the_child() -> None:
    pids: list[int] = []

    def on_progress(text: str) -> None:
        pids.append(int(text))
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_in_child("functions_of_child:waits", {}, on_progress)
    assert time.monotonic() - start < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], signal.SIG_DFL)


def test_a_file_in_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(folder)
    assert run("echo", 1) == {"value": 1}
