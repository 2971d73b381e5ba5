"""What a pass is, and how passes are run and validated."""

from aotc.rewrite.contract import Context, Pass, PassResult, Refusal, Relation
from aotc.rewrite.manager import Observer, PassRecord, run_passes

__all__ = [
    "Context",
    "Observer",
    "Pass",
    "PassRecord",
    "PassResult",
    "Refusal",
    "Relation",
    "run_passes",
]
