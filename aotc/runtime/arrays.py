"""Turns what a caller passes into arrays as the runtime takes them: native byte order, contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


def to_array(name: str, value: Any) -> Array:
    """Return the input ``name`` as a C-contiguous numpy array; shape and dtype stay as they are.

    Args:
        name: The input's name, for messages.
        value: A numpy array or scalar, or a torch tensor on any device (torch is not imported for it).

    Raises:
        InputError: Anything else (a Python number has no dtype), or a tensor that numpy cannot hold.
    """
    if hasattr(value, "detach"):
        value = _from_tensor(name, value)
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"the input '{name}' is a masked array, whose mask would be lost")
    if not isinstance(value, np.ndarray | np.generic):
        raise InputError(
            f"the input '{name}' must be an array, not {type(value).__name__}",
            hint="pass numpy.asarray(value, dtype=...)",
        )
    array = np.asarray(value)
    if not array.dtype.isnative:
        # The runtime looks at the kind of a dtype and not at its byte order.
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else array.copy(order="C")


def _from_tensor(name: str, value: Any) -> Any:
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise InputError(f"the tensor for the input '{name}' cannot become an array: {error}") from error
