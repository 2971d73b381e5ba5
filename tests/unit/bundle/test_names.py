from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.bundle.names import check_name, check_names
from aotc.errors import IntegrityError


@pytest.mark.parametrize("name", ["weights", "weights.ort-optimised", "golden/0.inputs.npz", "a_B+1.x"])
def test_plain_names_are_allowed(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../weights",
        "golden/../weights",
        "golden/..",
        "/etc/passwd",
        "C:weights",
        "C:\\weights",
        "golden\\x",
        "\\\\server\\share",
        "a/b/c",
        "a//b",
        "a/",
        "./a",
        ".hidden",
        "golden/.hidden",
        "we\0ights",
        "weights\n",
        "we ights",
        "wéights",
        "\uff0e\uff0e/x",
        "*/_ORT_MEM_ADDR_/*",
        "file:weights",
        "~",
        "-rf",
        "x" * 129,
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(IntegrityError, match=re.escape(f"the file name {name!r} is not allowed in a bundle")):
        check_name(name)


@given(st.text())
def test_an_allowed_name_stays_inside(name: str) -> None:
    try:
        check_name(name)
    except IntegrityError:
        return
    parts = name.split("/")
    assert len(parts) <= 2
    assert all(part and not part.startswith(".") and part.isascii() for part in parts)


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (["Weights", "weights"], "'Weights' and 'weights'"),
        (["golden/a", "golden/A"], "'golden/A' and 'golden/a'"),
        (["Golden/a", "golden/b"], "'Golden' and 'golden'"),
        (["golden", "golden/b"], "'golden' and 'golden'"),
    ],
)
def test_clashing_names_are_refused(names: list[str], pair: str) -> None:
    with pytest.raises(IntegrityError, match=f"the names {pair} are one on a file system"):
        check_names(names)
