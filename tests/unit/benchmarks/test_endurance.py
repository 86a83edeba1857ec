"""Short forms of benchmarks: everything at once leaves nothing behind, and imported networks."""

import json

import pytest

from benchmarks import onnx_import
from benchmarks.endurance import Sample, verdict
from benchmarks.onnx_models import cases
from benchmarks.onnx_models.cases import Case
from tests.processes import python


def sample(minute: int, **changes: float) -> Sample:
    fields = {"wall_s": 60.0 * minute, "resident_bytes": 100, "descriptors": 5, "threads": 9, "objects": 1000, "emulated_s": 0.5} | changes
    return Sample(**fields)  # type: ignore[arg-type]


def test_what_grows_behind_a_third_of_the_time_is_told() -> None:
    samples = [sample(minute, resident_bytes=10**9 if minute < 3 else 7 * minute, objects=1000 + 2 * minute) for minute in range(10)]
    found = verdict([*samples[:-1], sample(9, resident_bytes=63, objects=1018, descriptors=7, threads=10, emulated_s=0.6)])
    assert (found["rounds"], found["minutes"], found["bytes_a_minute"], found["bytes_a_round"]) == (10, 9.0, 7, 7)
    assert (found["objects_a_round"], found["descriptors_more"], found["threads_more"]) == (2.0, 2, 1)
    assert found["emulated_s"] == [0.5, 0.6]


@pytest.mark.slow
@pytest.mark.process
def test_twenty_seconds_of_everything_leave_no_descriptor_no_thread_and_one_emulated_time() -> None:
    done = python(
        """
        import json, tempfile
        from pathlib import Path
        import jax
        from benchmarks.endurance import endure, verdict
        devices = jax.devices("ipu")
        jax.config.update("jax_default_device", devices[0])
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(verdict(endure(devices, 20, Path(folder), lambda sample: None))))
        """,
        strict=False,
        JAX_PLATFORMS="ipu,cpu",
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rounds"] >= 3
    assert (found["descriptors_more"], found["threads_more"]) == (0, 0)
    assert len(found["emulated_s"]) == 1
    assert found["emulated_s"][0] > 0


@pytest.fixture(scope="module", params=list(cases.SMALL))
def case(request: pytest.FixtureRequest) -> Case:
    return cases.SMALL[request.param]()


def test_xla_has_no_more_products_and_transpositions(case: Case) -> None:
    programs = onnx_import.programs(case, frozen=False)
    ours, theirs = (onnx_import.counts(*programs[name]) for name in ("imported", "by_hand"))
    if "ResNet" in case.name:  # products for convolutions of one element; kernels in the file's layout are transposed
        assert ours["dot"] + ours["convolution"] == theirs["dot"] + theirs["convolution"]
        few_windows = 2  # convolutions that are products with channels first: of their windows and their results
        assert ours["transpose"] == ours["convolution"] + 1 + 2 * few_windows  # and the images
    else:
        assert all(ours[opcode] <= theirs[opcode] for opcode in theirs)


def test_the_file_of_a_network_has_no_operator_that_hides_a_pattern(case: Case) -> None:
    found = {node.op_type for node in case.proto.graph.node}
    assert found.isdisjoint({"LayerNormalization", "Gelu", "Attention"})
