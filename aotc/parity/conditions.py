"""Sizes that eager refuses: learned before the gate, so that the engine refuses them too.

``F.instance_norm`` raises for one spatial element; its check leaves no trace in the graph but a guard, which
torch.export keeps apart (https://github.com/microsoft/onnxscript/issues/1262).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from aotc.parity.inputs import Array, Feeds, tiled
from aotc.parity.sizes import Sizes, guard_breakers
from aotc.signature import Signature


def with_conditions(
    signature: Signature, example: Feeds, raises: Callable[[Mapping[str, Array]], bool]
) -> Signature:
    """Return the signature with those of its guards that eager insists on as conditions.

    A guard says which branch forward took. Where eager raises at every size tried that breaks it, the other
    branch is an error, and the engine must refuse all such sizes.

    Args:
        signature: With the guards of the trace.
        example: The example inputs; they are repeated or cut to other sizes.
        raises: Runs eager on flat inputs and says whether it raised.
    """
    sizes = signature.check(example)
    insisted = []
    for guard, group in itertools.groupby(guard_breakers(signature, sizes), key=lambda pair: pair[0]):
        if all(raises(_resized(signature, example, size)) for _, size in group):
            insisted.append(guard)
    return signature.model_copy(update={"conditions": tuple(insisted)})


def _resized(signature: Signature, example: Feeds, sizes: Sizes) -> Feeds:
    return {spec.name: tiled(spec, example[spec.name], sizes) for spec in signature.inputs}
