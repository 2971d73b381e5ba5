"""What an example of a transformers model is made of: tensors, the names of their axes, and their sizes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError
from aotc.export.source import Sizes

if TYPE_CHECKING:
    import torch

BATCH: Sizes = (1, 2, 8)


@dataclasses.dataclass
class HfInputs:
    """Inputs by parameter name, the names of their dynamic axes, and the profile of those dims."""

    inputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    dynamic_shapes: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    profile: dict[str, Sizes] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


class Builder:
    """Collects inputs; values are drawn with a fixed seed."""

    def __init__(
        self,
        model: Any,
        processor: Mapping[str, Any],
        tokenizer: Mapping[str, Any],
        wanted: Mapping[str, Sizes],
    ) -> None:
        import torch

        self.model = model
        self.config = model.config
        self.processor = processor
        self.tokenizer = tokenizer
        self.wanted = wanted
        self.parameters = inspect.signature(model.forward).parameters
        self.found = HfInputs()
        self.static: list[str] = []
        self.generator = torch.Generator().manual_seed(0)

    def size(self, name: str, default: Sizes) -> int:
        """Return the example's size of the dynamic dim ``name``."""
        return self.found.profile.setdefault(name, self.wanted.get(name, default))[1]

    def fixed(self, name: str, size: int) -> int:
        """Return the size of a dim that is static unless the user gave sizes for it."""
        if name in self.wanted:
            return self.size(name, self.wanted[name])
        self.static.append(name)
        return size

    def add(self, name: str, tensor: torch.Tensor, *axes: str) -> None:
        """Add an input whose axes have these names; those without a profile are static."""
        dynamic = {index: axis for index, axis in enumerate(axes) if axis in self.found.profile}
        self.found.inputs[name] = tensor
        self.found.dynamic_shapes[name] = dynamic

    def integers(self, limit: int, *shape: int) -> torch.Tensor:
        """Return int64 values from 0 to ``limit`` - 1."""
        import torch

        return torch.randint(0, limit, shape, generator=self.generator)

    def floats(self, *shape: int) -> torch.Tensor:
        """Return normal float32 values."""
        import torch

        return torch.randn(shape, generator=self.generator)

    def mask(self, *shape: int) -> torch.Tensor:
        """Return ones (int64); the second row ends in padding."""
        import torch

        mask = torch.ones(shape, dtype=torch.int64)
        mask[1:2, ..., shape[-1] - shape[-1] // 4 :] = 0
        return mask

    def require_all(self, main: str) -> None:
        """Refuse a model that needs more than what was derived."""
        needed = [
            name
            for name, parameter in self.parameters.items()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        missing = [name for name in dict.fromkeys([main, *needed]) if name not in self.found.inputs]
        if missing:
            what = f"no example of the input '{missing[0]}' of {type(self.model).__name__} can be derived"
            raise underivable(what)


def underivable(what: str, where: str | None = None) -> RefusedError:
    """Return the refusal of a model whose inputs are not known; ``what`` says which."""
    return RefusedError(
        what,
        slug="hf-inputs",
        where=where,
        hint="write a source file: model() loads this folder, inputs() returns what forward takes",
    )
