"""``--expect-fused``: how many of an operator the graph must have before it is lowered."""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from aotc.errors import UsageError, VerdictError
from aotc.rewrite.contract import Refusal
from aotc.rewrite.manager import PassRecord
from aotc.text import operator_name


@dataclasses.dataclass
class Expectation:
    """Counts the operators after the pass at ``index``: the last one before lowering.

    Args:
        expected: Numbers by the names of operators.
        index: Place of the pass in the pipeline.
    """

    expected: Mapping[str, int]
    index: int
    _refusals: list[Refusal] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise UsageError if there is no operator of a name."""
        import onnx

        known = {operator_name(schema.name) for schema in onnx.defs.get_all_schemas() if not schema.domain}
        for name in self.expected:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean '{near[0]}'?" if near else "write it like layer-normalization"
                raise UsageError(f"there is no operator '{name}' to expect", slug="config", hint=hint)

    def after_pass(self, index: int, model: ir.Model, record: PassRecord) -> None:
        """Compare the numbers after the last pass.

        Raises:
            VerdictError: They differ; the message has the first refusal of such an operator.
        """
        self._refusals.extend(record.refusals)
        if index != self.index:
            return
        found = Counter(operator_name(node.op_type) for node in model.graph.all_nodes() if not node.domain)
        for name, count in self.expected.items():
            if found[name] != count:
                refused = (each for each in self._refusals if operator_name(each.operator) == name)
                first = next(refused, None)
                raise VerdictError(
                    f"the graph has {name}={found[name]}, expected {name}={count}"
                    + (f"; not raised: {first.reason}" if first else ""),
                    slug="expect-fused",
                    where=first.where if first else None,
                    hint="aotc inspect DIR --why " + name + ", of a build without this expectation",
                )
