"""Options of single products on platform `ipu`."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

X = np.ones((512, 512), np.float16)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"ipu_partials_type": "single"},
            r"operation 'jit\(multiply\)/dot_general': ipu_partials_type is 'single': it must be 'float' or 'half'",
        ),
        ({"ipu_num_io_tiles": "2"}, "an operation has no option 'ipu_num_io_tiles' of its own"),
    ],
)
def test_wrong_metadata_is_an_error_of_the_compilation(ipu: jax.Device, attributes: dict[str, str], message: str) -> None:
    def multiply(x: Any) -> Any:
        with set_xla_metadata(**attributes):
            return x @ x

    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.jit(multiply)(jax.device_put(X, ipu))
