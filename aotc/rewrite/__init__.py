"""What a pass is, and how passes are run and validated."""

from aotc.rewrite.contract import Context, Pass, PassResult, Refusal, Relation
from aotc.rewrite.expect import Expectation
from aotc.rewrite.manager import Check, Checks, DumpObserver, Observer, PassRecord, run_passes

__all__ = [
    "Check",
    "Checks",
    "Context",
    "DumpObserver",
    "Expectation",
    "Observer",
    "Pass",
    "PassRecord",
    "PassResult",
    "Refusal",
    "Relation",
    "run_passes",
]
