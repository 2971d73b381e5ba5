from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from aotc.errors import InputError
from aotc.runtime.arrays import to_array


def test_an_array_is_not_copied() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert to_array("x", array) is array


@pytest.mark.parametrize(
    "view",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-2],
        np.broadcast_to(np.float32(3), (2, 2)),
        np.asfortranarray(np.ones((2, 3))),
        np.arange(4, dtype=">f4"),
        np.arange(4, dtype=">i8")[::2],
        np.array(3.0, dtype=">f8"),
        np.float32(2),
        np.array(2, dtype=np.int64),
        np.zeros((0, 3)),
    ],
)
def test_values_shape_and_kind_stay(view: Any) -> None:
    array = to_array("x", view)
    np.testing.assert_array_equal(array, view)
    assert array.shape == np.shape(view)
    assert array.dtype.name == view.dtype.name
    assert array.dtype.isnative
    assert array.flags.c_contiguous


@pytest.mark.parametrize(
    "tensor",
    [torch.arange(6).reshape(2, 3).T, torch.ones(2, requires_grad=True), torch.tensor(1.5), torch.ones(2, 0)],
)
def test_tensors_become_arrays(tensor: torch.Tensor) -> None:
    array = to_array("x", tensor)
    np.testing.assert_array_equal(array, tensor.detach().numpy())
    assert array.shape == tuple(tensor.shape)
    assert array.flags.c_contiguous


@pytest.mark.parametrize("value", [1, 1.0, True, None, "x", [1.0], (1,), memoryview(b"x")])
def test_a_python_value_is_not_an_array(value: Any) -> None:
    text = f"the input 'x' must be an array, not {type(value).__name__}"
    with pytest.raises(InputError, match=text) as caught:
        to_array("x", value)
    assert caught.value.hint == "pass numpy.asarray(value, dtype=...)"


def test_what_numpy_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match="the tensor for the input 'x' cannot become an array"):
        to_array("x", torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(InputError, match="the tensor for the input 'x' cannot become an array"):
        to_array("x", torch.eye(2).to_sparse())


def test_a_mask_is_never_dropped() -> None:
    with pytest.raises(InputError, match="'x' is a masked array, whose mask would be lost"):
        to_array("x", np.ma.masked_array([1.0, 2.0], [True, False]))
