from __future__ import annotations

import dataclasses

import onnx_ir as ir
import pytest

from aotc.errors import UsageError
from aotc.rewrite import Context, Pass, PassResult
from aotc.rewrite.catalogue import to_markdown
from aotc.rewrite.registry import find, parse_pass


@dataclasses.dataclass(frozen=True)
class TileKernels(Pass):
    """Cut kernels.

    Rewrites:
        Kernels, into
        tiles.

    Requires:
        Nothing.

    Refuses when:
        There are none.

    Numerics:
        Exact.
    """

    shape: tuple[int, int] = (1, 2)
    mode: str = "a,b}"

    def run(self, model: ir.Model, context: Context) -> PassResult:
        return PassResult()


PASSES = (TileKernels,)


def test_names_are_kebab_case() -> None:
    assert TileKernels.name() == "tile-kernels"
    assert find("tile-kernels", PASSES) is TileKernels


@pytest.mark.parametrize("current", [TileKernels(), TileKernels(shape=(3, 4), mode="x='{1},'")])
def test_the_text_of_a_pass_makes_the_pass(current: TileKernels) -> None:
    assert parse_pass(str(current), PASSES) == current


def test_options_may_be_left_out() -> None:
    assert parse_pass(" tile-kernels ", PASSES) == parse_pass("tile-kernels{}", PASSES) == TileKernels()
    assert parse_pass("tile-kernels{mode='c'}", PASSES) == TileKernels(mode="c")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("tile-kernel", "there is no pass 'tile-kernel'", "did you mean 'tile-kernels'?"),
        ("zzz", "there is no pass 'zzz'", "known are: tile-kernels"),
        ("Tile!", "'Tile!' does not name a pass", "write name or name{option=value,option=value}"),
        ("tile-kernels{shapes=1}", "tile-kernels has no option 'shapes'", "did you mean 'shape'?"),
        (
            "tile-kernels{mode=open('x')}",
            "the options of 'tile-kernels{mode=open('x')}' are not literals",
            "write option=value",
        ),
        (
            "tile-kernels{mode=}",
            "the options of 'tile-kernels{mode=}' are not literals",
            "write option=value",
        ),
        ("tile-kernels{1}", "the options of 'tile-kernels{1}' have no names", "write option=value"),
    ],
)
def test_mistakes_are_explained(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as info:
        parse_pass(text, PASSES)
    assert (info.value.message, info.value.hint) == (message, hint)


def test_the_catalogue_shows_sections_options_and_relation() -> None:
    text = to_markdown(PASSES)
    assert "| [`tile-kernels`](#tile-kernels) | Cut kernels. |" in text
    assert "- *Rewrites*: Kernels, into tiles.\n- *Requires*: Nothing.\n" in text
    assert "- *Relation*: `equal`\n- *Options*: `shape` (tuple[int, int], default `(1, 2)`), `mode`" in text
