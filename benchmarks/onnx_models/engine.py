"""One engine and one ONNX model in a process of its own: `engine.py ENGINE MODEL.onnx INPUTS.npz REPETITIONS` prints JSON.

It imports only the engine, so that it runs where only that is installed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]
_WARM_UP = 3
_SAMPLE_S = 0.002


def imported(path: str, inputs: dict[str, Any], *, frozen: bool) -> Call:
    import jax

    from tilestep.onnx import import_onnx

    model = import_onnx(path)
    model = model.frozen() if frozen else model
    params, program = jax.device_put(model.params), jax.jit(model.fn)
    arrays = [jax.device_put(_narrow(inputs[spec.name])) for spec in model.inputs]
    return lambda: jax.block_until_ready(program(params, *arrays))


def onnx_runtime(path: str, inputs: dict[str, Any]) -> Call:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def jaxonnxruntime(path: str, inputs: dict[str, Any]) -> Call:
    import jax
    import onnx
    from jaxonnxruntime import call_onnx, config

    config.update("jaxort_only_allow_initializers_as_static_args", False)
    model = onnx.load(path)
    function, params = call_onnx.call_onnx_model(model, [inputs[value.name] for value in model.graph.input])
    arrays = [jax.device_put(_narrow(inputs[value.name])) for value in model.graph.input]
    program, params = jax.jit(function), jax.device_put(params)
    return lambda: jax.block_until_ready(program(params, arrays))


ENGINES: dict[str, Callable[[str, dict[str, Any]], Call]] = {
    "frozen": lambda path, inputs: imported(path, inputs, frozen=True),
    "parameters": lambda path, inputs: imported(path, inputs, frozen=False),
    "onnxruntime": onnx_runtime,
    "jaxonnxruntime": jaxonnxruntime,
}


def timed(call: Call, repetitions: int) -> dict[str, Any]:
    """Wall time of each call, after some that are not timed."""
    for _ in range(_WARM_UP):
        call()
    wall_s: list[float] = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        call()
        wall_s.append(time.perf_counter() - begin)
    return {"wall_s": wall_s}


def import_and_trace(path: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Wall time from the path to the jaxpr, and the most anonymous memory on the way beyond what the process had."""
    import jax

    from tilestep.onnx import import_onnx

    jax.device_put(np.zeros(1)).block_until_ready()
    before = peak = _anonymous_bytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_SAMPLE_S):
            peak = max(peak, _anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    model = import_onnx(path)
    imported = time.perf_counter()
    jax.jit(model.fn).trace(model.params, *(_narrow(inputs[spec.name]) for spec in model.inputs))
    end = time.perf_counter()
    peak = max(peak, _anonymous_bytes())
    done.set()
    watcher.join()
    return {"import_wall_s": imported - begin, "trace_wall_s": end - imported, "anonymous_bytes": peak - before}


def _anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")))


def _narrow(array: Any) -> Any:
    return array.astype(np.int32) if array.dtype == np.int64 else array


def main() -> None:
    engine, path, inputs_path, repetitions = sys.argv[1:]
    with np.load(inputs_path) as found:
        inputs = dict(found)
    answer = import_and_trace(path, inputs) if engine == "import" else timed(ENGINES[engine](path, inputs), int(repetitions))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
