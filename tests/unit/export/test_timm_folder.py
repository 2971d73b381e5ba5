"""A timm folder as a source: what is made of its config.json, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tiny_timm
import torch

from aotc.errors import AotcError, MissingError, RefusedError, UsageError
from aotc.export.source import Source
from aotc.export.timm_folder import is_timm_folder
from aotc.oracle import Oracle
from aotc.sources import import_source, open_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_timm.save(tmp_path / "resnet")


def refused(folder: Path) -> AotcError:
    with pytest.raises(AotcError) as caught:
        open_source(folder)
    return caught.value


@pytest.mark.parametrize(
    ("settings", "is_timm"),
    [
        ({"architecture": "resnet18"}, True),
        ({"architecture": "resnet18", "architectures": ["TimmWrapperModel"]}, False),
        ({"architecture": "resnet18", "model_type": "timm_wrapper"}, False),
        ({"architectures": ["BertModel"]}, False),
        (None, False),
    ],
)
def test_the_format_is_told_by_config_json(tmp_path: Path, settings, is_timm: bool) -> None:
    if settings is not None:
        (tmp_path / "config.json").write_text(json.dumps(settings))
    assert is_timm_folder(tmp_path) is is_timm


@pytest.mark.parametrize(
    "error",
    [
        "ModuleNotFoundError(\"No module named 'torchvision'\", name='torchvision')",
        "RuntimeError('operator torchvision::nms does not exist')",
    ],
)
def test_a_timm_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    """As with no torchvision, or with one of another build."""
    (tmp_path / "timm.py").write_text(f"raise {error}")
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    found = refused(tmp_path)
    assert isinstance(found, MissingError)
    assert found.message.startswith(f"timm cannot be imported: {error.partition('(')[0]}: ")
    assert "pip install torch==2.14.1 torchvision==0.29.1" in str(found.hint)


@pytest.mark.parametrize(
    ("name", "options"),
    [("test_resnet", {}), ("test_vit", {"global_pool": "avg"}), ("test_convnext", {"in_chans": 1})],
)
def test_the_model_is_timms_own(tmp_path: Path, name: str, options: dict) -> None:
    folder = tiny_timm.save(tmp_path / name, name, **options)
    source = open_source(folder)
    assert isinstance(source, Source)
    timm = tiny_timm.require()
    own = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    (image,) = source.inputs.values()
    with torch.inference_mode():
        assert torch.equal(source.model()(image), own(image))
    assert tuple(image.shape) == (2, *own.pretrained_cfg["input_size"])
    assert (source.name, source.profiles) == (name, [{"batch": (1, 2, 8)}])
    assert [path.name for path in source.assets] == ["config.json"]


def test_sizes_make_height_and_width_dynamic(folder: Path) -> None:
    sizes = {"batch": (1, 1, 3), "height": (32, 64, 96)}
    source = open_source(folder, sizes=sizes)
    signature = import_source(source, Oracle(1)).reference.signature
    assert signature.inputs[0].shape == ("batch", 3, "height", 160)
    assert source.path == f"{folder} --dim batch=1:1:3 --dim height=32:64:96"


def test_an_unknown_dim(folder: Path) -> None:
    with pytest.raises(UsageError, match="no input has the dim 'seq'"):
        open_source(folder, sizes={"seq": (1, 2, 3)})


def edit_weights(folder: Path, **changed: torch.Tensor | None) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors") | {k.replace("__", "."): v for k, v in changed.items()}
    save_file({k: v for k, v in weights.items() if v is not None}, folder / "model.safetensors")


def test_weights_that_are_missing(folder: Path) -> None:
    edit_weights(folder, fc__bias=None)
    error = refused(folder)
    assert isinstance(error, RefusedError)
    assert error.message == "the weights lack fc.bias"
    assert error.where == "ResNet, model.safetensors"


def test_weights_that_are_left_over(folder: Path) -> None:
    edit_weights(folder, more=torch.ones(2))
    assert refused(folder).message == "the weights hold more than the model takes: more"


def test_weights_of_another_shape(folder: Path) -> None:
    edit_weights(folder, fc__bias=torch.ones(5))
    assert refused(folder).message == "the weights have another shape than the model's: fc.bias"


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "safe_serialization=True" in str(refused(folder).hint)


@pytest.mark.parametrize("architecture", ["no_such_net", "hf-hub:timm/resnet18.a1_in1k", "local-dir:."])
def test_an_architecture_that_timm_does_not_have(folder: Path, architecture: str) -> None:
    tiny_timm.edit_config(folder, architecture=architecture)
    error = refused(folder)
    assert isinstance(error, RefusedError)
    assert error.message.startswith("timm cannot load resnet: RuntimeError: Unknown model")


def test_a_pooling_that_timm_would_not_make(tmp_path: Path) -> None:
    folder = tiny_timm.save(tmp_path / "max", global_pool="max")
    tiny_timm.edit_config(folder, model_args=None)
    error = refused(folder)
    assert isinstance(error, RefusedError)
    assert error.message == "global_pool is 'max' in config.json, and timm makes this model with 'avg'"
    assert '"model_args": {"global_pool": "max"}' in str(error.hint)
