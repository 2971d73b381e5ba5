"""What cannot be compiled is refused with slug, exit code, text and the line of the model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tiny_models import source
from torch import nn

from aotc.errors import AotcError, RefusedError, UsageError
from aotc.export.importer import import_module

X = torch.tensor([1.0, 2.0, 3.0])


class Stateful(nn.Module):
    """Has one piece of state of every kind; each test derives its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buf", torch.zeros(3))
        self.weight = nn.Parameter(torch.ones(3))
        self.plain = torch.zeros(3)
        self.kept: list[Any] = []
        self.table: dict[str, Any] = {}
        self.cache = type("Cache", (), {})()


class AddsToBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.buf.add_(x)  # here
        return self.buf + x


class CopiesToBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.buf.copy_(x)  # here
        return self.buf + x


class WritesToViewOfBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.buf[1:][torch.tensor([0])] = x[:1]  # here
        return self.buf + x


class AssignsBuffer(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.buf + x
        self.buf = y  # here
        return y * 2


class ChangesParameter(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.mul_(2)  # here
        return self.weight + x


class ReplacesParameter(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight = nn.Parameter(x * 1)  # here
        return self.weight + x


class ChangesPlainTensor(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.plain.add_(x)  # here
        return self.plain + 1


class StoresTensor(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2  # here
        return self.last + 1


class AppendsTensor(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.append(x * 2)  # here
        return x + 1


class PutsTensorInDict(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table["k"] = x * 2  # here
        return x + 1


class PutsTensorInObject(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.k = x * 2  # here
        return x + 1


class StoresAndFails(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2  # here
        return x if self.last.sum() > 0 else -x


class WritesToInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x[:2].view(-1).mul_(2)  # here
        return x + 1


class DrawsNumbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)  # here


class DropsOut(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5, training=True)  # here


class Bernoulli(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.bernoulli(x.sigmoid())  # here


class DrawsInSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.ReLU(), Rand())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Rand(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3)  # here


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:  # here
            return x
        return x - 1


class HasNoOperator(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svd(torch.outer(x, x))[1]  # here


class ReturnsComplex(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x)  # here


STATE = "forward mutates module state "


@pytest.mark.parametrize(
    ("kind", "slug", "message"),
    [
        (AddsToBuffer, "module-state", STATE + "(buffer 'buf')"),
        (CopiesToBuffer, "module-state", STATE + "(buffer 'buf')"),
        (WritesToViewOfBuffer, "module-state", STATE + "(buffer 'buf')"),
        (AssignsBuffer, "module-state", STATE + "(buffer 'buf')"),
        (ChangesParameter, "module-state", STATE + "(parameter 'weight')"),
        (ReplacesParameter, "module-state", STATE + "(parameter 'weight')"),
        (ChangesPlainTensor, "module-state", STATE + "(attribute 'plain')"),
        (StoresTensor, "module-state", STATE + "(attribute 'last')"),
        (AppendsTensor, "module-state", STATE + "(attribute 'kept')"),
        (PutsTensorInDict, "module-state", STATE + "(attribute 'table')"),
        (PutsTensorInObject, "module-state", STATE + "(attribute 'cache')"),
        (StoresAndFails, "module-state", STATE + "(attribute 'last')"),
        (WritesToInput, "input-mutation", "forward writes into its own inputs"),
        (DrawsNumbers, "random-operator", "random operator in the graph (aten.randn_like)"),
        (DropsOut, "random-operator", "random operator in the graph (aten.dropout)"),
        (Bernoulli, "random-operator", "random operator in the graph (aten.bernoulli)"),
        (DrawsInSubmodule, "random-operator", "random operator in the graph (aten.rand)"),
        (Branches, "data-dependent", "data-dependent control flow: "),
        (HasNoOperator, "unsupported-operator", "the operator aten._linalg_svd has no translation to ONNX"),
        (ReturnsComplex, "unsupported-dtype", "'output' is complex64, which no array of this runtime holds"),
    ],
)
def test_refusals(
    kind: Callable[[], nn.Module], slug: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    module = kind().eval()
    before = snapshot(module)
    with pytest.raises(RefusedError) as caught:
        import_module(module, source(module, (X,)))
    error = caught.value
    assert (error.name, error.exit_code) == (slug, 3)
    assert error.message.startswith(message)
    where = re.fullmatch(r"test_refusals\.py:(\d+)", str(error.where))
    assert where, error.where
    assert "# here" in Path(__file__).read_text().splitlines()[int(where[1]) - 1]
    assert not re.search("0x[0-9a-f]{6}", error.render())
    assert_unchanged(module, before)
    assert "def forward" not in capfd.readouterr().err


def snapshot(module: nn.Module) -> dict[str, Any]:
    """Return everything about a module that a caller could notice."""
    state: dict[str, Any] = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            state[f"{path}.{name}"] = list(value) if isinstance(value, list) else value
            if isinstance(value, dict):
                state[f"{path}.{name}"] = dict(value)
    tensors = [*module.named_parameters(), *module.named_buffers()]
    state["bytes"] = {name: t.detach().numpy().tobytes() for name, t in tensors}
    state["flags"] = {name: (id(t), t.requires_grad, t.grad, t.dtype, t._version) for name, t in tensors}
    return state


def assert_unchanged(module: nn.Module, before: dict[str, Any]) -> None:
    after = snapshot(module)
    assert after.keys() == before.keys()
    for key, value in before.items():
        same = (
            all(a is b for a, b in zip(after[key], value, strict=True)) if isinstance(value, list) else None
        )
        assert same or repr(after[key]) == repr(value), key


def test_train_mode_of_the_model_and_of_a_part() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout()))
    with pytest.raises(RefusedError) as caught:
        import_module(module.train(), source_as_is(module))
    assert (caught.value.name, caught.value.message) == ("train-mode", "the model is in train mode")
    module.eval()[1][0].train()
    with pytest.raises(RefusedError, match=r"the module '1\.0' \(Dropout\) is in train mode") as caught:
        import_module(module, source_as_is(module))
    assert "eval()" in str(caught.value.hint)


def source_as_is(module: nn.Module) -> Any:
    from aotc.export.source import Source

    return Source(name="tiny", model=lambda: module, inputs=(X,))


def test_torchscript_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(nn.Linear(3, 3).eval())
        traced = torch.jit.trace(nn.Linear(3, 3).eval(), (X,))
    for module, name in (
        (scripted, "the model"),
        (traced, "the model"),
        (nn.Sequential(scripted), "the module '0'"),
    ):
        with pytest.raises(RefusedError, match=f"{name} is a TorchScript module") as caught:
            import_module(module.eval(), source_as_is(module))
        assert (caught.value.name, caught.value.exit_code) == ("script-module", 3)


def test_something_else_than_a_module_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"the model is a function, not a torch\.nn\.Module"):
        import_module(lambda x: x, source_as_is(lambda x: x))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_inputs_that_no_array_holds(dtype: torch.dtype) -> None:
    module = nn.Identity().eval()
    with pytest.raises(RefusedError, match=r"'input' is (bfloat16|complex64), which no array") as caught:
        import_module(module, source(module, (X.to(dtype),)))
    assert caught.value.name == "unsupported-dtype"


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout(),
        nn.Sequential(nn.Dropout2d(), nn.AlphaDropout()),
        nn.GRU(3, 4, num_layers=2, dropout=0.5),
        nn.MultiheadAttention(4, 2, dropout=0.5),
    ],
)
def test_dropout_that_is_off_is_not_random(module: nn.Module) -> None:
    inputs = {"GRU": (torch.ones(2, 1, 3),), "MultiheadAttention": (torch.ones(2, 1, 4),) * 3}
    found = import_module(
        module.eval(), source(module, inputs.get(type(module).__name__, (torch.ones(1, 2, 3, 3),)))
    )
    assert not isinstance(found, AotcError)


def test_recurrent_weights_are_given_back() -> None:
    """nn.GRU lists its weights a second time; torch.export leaves fake tensors there."""
    module = nn.GRU(3, 4).eval()
    before = list(module._flat_weights)
    import_module(module, source(module, (torch.ones(2, 1, 3),)))
    assert all(a is b for a, b in zip(module._flat_weights, before, strict=True))
    assert module(torch.ones(2, 1, 3))[0].shape == (2, 1, 4)


def test_a_compiled_module_is_unchanged() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.GELU()).eval()
    module[0].weight.requires_grad_(False)
    module[0].bias.grad = torch.ones(3)
    module.register_forward_hook(lambda *_: None)
    module.note = {"a": [1, 2]}
    before = snapshot(module)
    import_module(module, source(module, (torch.ones(2, 3),)))
    assert_unchanged(module, before)
