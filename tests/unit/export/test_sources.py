"""Kinds of source that are told apart by what is in them, and how each is refused."""

from __future__ import annotations

import inspect
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_models import Call, Mlp
from torch import nn
from torch.export import Dim

from aotc.config import Options
from aotc.errors import AotcError, RefusedError, UsageError
from aotc.export.source import Source
from aotc.ir import scopes
from aotc.oracle import Oracle
from aotc.signature import Bounds
from aotc.sources import import_source, open_source

TRUSTED = Options(trust_source=True)


def refused(path: Path, options: Options = TRUSTED) -> AotcError:
    with pytest.raises(AotcError) as caught:
        open_source(path, options=options)
    return caught.value


class Masked(nn.Module):
    """Takes a keyword, a constant and a structure; drops out in training."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, pair: dict[str, torch.Tensor], *, mask: torch.Tensor, scale: float):
        return {"y": self.drop(self.up(x)) * scale + pair["b"].sum() + mask.sum(1, keepdim=True)}


def save_program(path: Path, model: nn.Module, args: tuple, kwargs: dict | None = None, **options) -> Path:
    torch.export.save(torch.export.export(model.eval(), args, kwargs, **options), path)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    batch = Dim("batch", min=1, max=64)
    args = torch.randn(3, 4), {"b": torch.ones(2), "a": torch.ones(1)}
    return save_program(
        tmp_path / "masked.pt2",
        Masked(),
        args,
        {"mask": torch.randn(3, 5), "scale": 3.0},
        dynamic_shapes={
            "x": {0: batch},
            "pair": {"b": None, "a": None},
            "mask": {0: batch, 1: Dim("seq")},
            "scale": None,
        },
    )


def test_a_program_is_not_loaded_without_the_users_word(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.pt2"
    hostile.write_bytes(pickle.dumps(Hostile(tmp_path / "ran")))
    error = refused(hostile, Options())
    assert isinstance(error, UsageError)
    assert error.name == "untrusted-source"
    assert "can execute code" in error.message
    assert "--trust-source" in str(error.hint)
    assert not (tmp_path / "ran").exists()


def test_a_program_keeps_its_arguments_dims_and_bounds(program: Path) -> None:
    source = open_source(program, sizes={"mask_1": (1, 4, 9)}, options=TRUSTED)
    assert isinstance(source, Source)
    signature = import_source(source, Oracle(1)).reference.signature
    assert [(a.name, a.kind) for a in signature.arguments] == [
        ("x", "positional"),
        ("pair", "positional"),
        ("mask", "keyword"),
        ("scale", "keyword"),
    ]
    assert [spec.shape for spec in signature.inputs] == [("x_0", 4), (2,), (1,), ("x_0", "mask_1")]
    assert signature.bounds == {"x_0": Bounds(min=1, max=64)}
    assert [set(profile) for profile in signature.profiles] == [{"mask_1"}]
    assert source.path == f"{program} --dim mask_1=1:4:9 --trust-source"


def test_a_program_computes_what_its_module_did(program: Path) -> None:
    source = open_source(program, options=TRUSTED)
    module, again = source.model(), source.model()
    x, pair = torch.randn(7, 4), {"a": torch.ones(1), "b": torch.ones(2)}
    mask = torch.randn(7, 2)
    want = torch.export.load(program).module()(x, {"b": pair["b"], "a": pair["a"]}, mask=mask, scale=3.0)["y"]
    for each in (module, again):
        assert torch.equal(each(x, pair, scale=3.0, mask=mask)["y"], want)
    assert str(inspect.signature(module.forward)) == "(x, pair, *, mask, scale)"


def test_nodes_of_a_program_know_their_module_and_line(program: Path) -> None:
    model = import_source(open_source(program, options=TRUSTED), Oracle(1)).model
    nodes = {node.op_type: node for node in model.graph}
    assert scopes.module_path(nodes["Gemm"]) == "up"
    line = inspect.getsourcelines(Masked.forward)[1] + 1
    assert scopes.source_line(nodes["Mul"]) == f"test_sources.py:{line}"


def test_an_axis_that_is_computed_from_another(tmp_path: Path) -> None:
    n = Dim("n")
    model = Call(lambda _, x, y: x.repeat(2, 1) + y)
    args = torch.randn(3, 4), torch.randn(6, 4)
    path = save_program(tmp_path / "n.pt2", model, args, dynamic_shapes={"args": ({0: n}, {0: 2 * n})})
    signature = import_source(open_source(path, options=TRUSTED), Oracle(1)).reference.signature
    first, second = (spec.shape[0] for spec in signature.inputs)
    assert second == f"2*{first}"


def test_a_program_that_was_exported_in_train_mode(tmp_path: Path) -> None:
    program = torch.export.export(Masked().train().drop, (torch.randn(3, 4),))
    torch.export.save(program, tmp_path / "dropout.pt2")
    with pytest.raises(RefusedError, match=r"error\[random-operator\]"):
        import_source(open_source(tmp_path / "dropout.pt2", options=TRUSTED), Oracle(1))


def test_a_module_beside_an_exported_one_still_has_a_mode(program: Path) -> None:
    model = nn.ModuleDict({"a": torch.export.load(program).module(), "b": nn.Linear(2, 2)})
    model.training = False
    source = Source(name="m", model=lambda: model, inputs=(torch.ones(1),))
    with pytest.raises(RefusedError, match=r"the module 'b' \(Linear\) is in train mode"):
        import_source(source, Oracle(1))


def test_a_program_without_examples(program: Path) -> None:
    loaded = torch.export.load(program)
    loaded.example_inputs = None
    torch.export.save(loaded, program)
    error = refused(program)
    assert error.message == "the program in masked.pt2 has no example inputs"
    assert "program.example_inputs" in str(error.hint)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_no_program(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(content)
    error = refused(path)
    assert isinstance(error, UsageError)
    assert error.message.startswith("torch.export.load cannot read m.pt2: ")


def test_a_program_is_one_whatever_its_file_is_called(program: Path) -> None:
    assert refused(program.rename(program.with_suffix(".pt")), Options()).name == "untrusted-source"


@pytest.mark.parametrize("name", ["net.pt", "net.ts", "net.py"])
def test_torchscript(tmp_path: Path, name: str) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(3, 2)), tmp_path / name)
    error = refused(tmp_path / name, Options())
    assert isinstance(error, RefusedError)
    assert error.message == f"{name} is a TorchScript module, which torch.export cannot trace"
    assert "torch.jit.load(path).state_dict()" in str(error.hint)


class Hostile:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.ckpt", "w"])
def test_weights_are_no_source_and_are_not_unpickled(tmp_path: Path, name: str, zipped: bool) -> None:
    torch.save(Hostile(tmp_path / "ran"), tmp_path / name, _use_new_zipfile_serialization=zipped)
    error = refused(tmp_path / name)
    assert isinstance(error, UsageError)
    assert error.message == f"{name} holds weights and no forward"
    assert f'module.load_state_dict(torch.load("{name}", weights_only=True))' in str(error.hint)
    assert not (tmp_path / "ran").exists()


def test_safetensors_are_no_source(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(Mlp().state_dict(), tmp_path / "w.safetensors")
    assert 'safetensors.torch.load_file("w.safetensors")' in str(refused(tmp_path / "w.safetensors").hint)


def test_the_hint_on_weights_is_a_source_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Mlp().state_dict(), "w.pt")
    _, *lines = str(refused(Path("w.pt")).hint).splitlines()
    names = {"torch": torch, "MyModel": Mlp}
    exec("\n".join(line.removeprefix("    ") for line in lines), names)
    assert not names["model"]().training  # type: ignore[operator]


def test_another_archive_is_no_python_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    assert refused(tmp_path / "a.zip").message.endswith("a.zip is not a Python file")


PACKAGE = """
import torch
from torch.export import Dim

from tiny_models import Mlp
from aotc.export.source import Source

LIMIT = 3
dynamic_shapes = ({0: Dim("batch")},)
profiles = [{"batch": (1, 2, 4)}]

def tiny_net():
    return Mlp().eval()

def whole():
    return Source("own", tiny_net, (torch.ones(2, 8),))

def inputs():
    return (torch.ones(2, 8),)

def sized(width):
    return tiny_net()

def number():
    return 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a package in the working directory, which is not yet on sys.path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"pkg_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "models.py").write_text(PACKAGE)
    yield name
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[module]


def test_a_function_of_a_module_is_a_source(package: str) -> None:
    source = open_source(Path(f"{package}.models:tiny_net"))
    assert isinstance(source, Source)
    assert (source.name, source.path) == ("tiny_net", f"{package}.models:tiny_net")
    assert source.profiles == [{"batch": (1, 2, 4)}]
    first, second = source.model(), source.model()
    assert isinstance(first, Mlp)
    assert first is not second
    assert import_source(source, Oracle(1)).reference.signature.inputs[0].shape == ("batch", 8)


def test_a_function_may_return_a_whole_source(package: str) -> None:
    source = open_source(Path(f"{package}.models:whole"))
    assert (source.name, source.path) == ("own", f"{package}.models:whole")


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("nowhere_at_all:net", "there is no module 'nowhere_at_all'", "or install it"),
        ("{0}.layers:net", "there is no module '{0}.layers'", "run aotc in the folder"),
        (
            "{0}.models:net",
            "{0}.models has no function 'net'",
            "its functions: inputs, number, sized, tiny_",
        ),
        ("{0}.models:LIMIT", "{0}.models has no function 'LIMIT'", "tiny_net, whole"),
        ("{0}.models:sized", "sized() cannot be called without arguments", "without arguments that calls it"),
        ("{0}.models:number", "number() returns a int, not a torch.nn.Module", "in eval mode"),
    ],
)
def test_no_function_that_makes_a_model(package: str, spec: str, message: str, hint: str) -> None:
    error = refused(Path(spec.format(package)))
    assert isinstance(error, UsageError)
    assert error.message.startswith(message.format(package))
    assert hint in str(error.hint)


def test_a_function_beside_which_there_are_no_inputs(package: str) -> None:
    path = Path(package, "models.py")
    path.write_text(PACKAGE.replace("def inputs", "def outputs"))
    error = refused(Path(f"{package}.models:tiny_net"))
    assert error.message == "models.py does not define the function inputs()"
    assert error.where == f"{package}.models:tiny_net"


def test_what_the_module_imports_is_its_own_affair(package: str) -> None:
    Path(package, "models.py").write_text("import nowhere_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        open_source(Path(f"{package}.models:tiny_net"))


def test_a_file_of_that_name_is_a_file(package: str) -> None:
    path = Path(f"{package}.models:tiny_net")
    path.write_text("def model(): ...")
    assert refused(path).message.endswith("is not a Python file")
