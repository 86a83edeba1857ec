"""What the reports of sessions of several stages say, in PopART's words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.popart.session.emulation.models import Chain, emulated, options
from tilestep.popart.session.emulation import EmulationOptions
from tilestep.popart.session.emulation.advice_words import operator_of
from tilestep.popart.session.emulation.session_labels import line_now


def profile(chain: Chain, chosen: Any, **further: Any) -> Mapping[str, Any]:
    """The document of a session's profile."""
    return emulated(chain, chosen, **further).report().profile


def edits(chain: Chain, chosen: Any, **further: Any) -> dict[str, str]:
    """The edits of findings, by kind."""
    return {finding["kind"]: finding["edit"] for finding in profile(chain, chosen, **further)["findings"]}


@pytest.mark.parametrize(
    ("scope", "operator"),
    [
        ("jit(stage_1_forward_and_backward)/transpose(jvp(loss))/div", "gradient of loss"),
        ("jit(stage_0_forward)/jvp(gemm_x1)/dot_general", "gemm_x1"),
        ("jit(stage_0_forward)/MatMul/dot_general", "MatMul"),
        ("jit(stage_2_backward)/transpose(jvp(enc2_2/MatMul))/dot_general", "gradient of enc2_2/MatMul"),
        ("jit(stage_0_forward)/enc0/MatMul/dot_general", "enc0/MatMul"),
        ("jit(step)/while/body/closed_call/jvp(Nll)/jit(take_along_axis)/gather", "Nll"),
        ("jit(stage_0_update)/add", ""),
        ("jit(step)/while/body/closed_call/transpose(jvp(MatMul))/dot_general", "gradient of MatMul"),
        ("jit(step)/shard_map/while/body/jit(dynamic_index_in_dim)/dynamic_slice", ""),
        ("", ""),
    ],
)
def test_a_scope_is_its_operator(scope: str, operator: str) -> None:
    assert operator_of(scope) == operator


@pytest.mark.parametrize("training", [True, False])
def test_stages_that_take_turns_are_told_to_pipeline(training: bool) -> None:
    """In inference nothing comes back to the first stage, which goes on by itself."""
    chosen = options(pipelined=False, accumulation=8 if training else 0)
    found = edits(Chain(ipus=range(2), width=256, layers=2), chosen, tiles=16, batches=1 if training else 16, training=training, calls=8)
    assert found.get("bubbles") == ("SessionOptions.enablePipelining = True" if training else None)


def test_set_up_stands_apart_from_what_a_run_takes_once_warm() -> None:
    """The weights take longer to come than a run takes, and yet the run is what the session is for."""
    large = Chain(ipus=range(2), width=1024)
    session = emulated(large, options(accumulation=4), tiles=256, calls=3)
    few = session.summary()
    assert "A step takes" not in few
    session.ran(name="a step")
    assert "A step is a step of program group 'session'" in session.summary().replace("\n", " ")


def test_the_line_is_the_users_and_never_that_of_the_command() -> None:
    line = line_now()
    assert line is not None
    assert Path(line.file).name == Path(__file__).name
    found: dict[str, object] = {"line_now": line_now}
    exec(compile("line = line_now()", "/usr/local/bin/tilestep", "exec"), found)  # the script of the command is nobody's program
    assert found["line"] is None


def test_tiles_that_are_too_full_are_told_what_helps_in_popart() -> None:
    settings = EmulationOptions(allow_out_of_memory=True)
    found = profile(Chain(ipus=range(2), width=512, rows=64), options(accumulation=4), tiles=4, settings=settings)["findings"]
    full = [finding for finding in found if finding["kind"] == "memory"]
    assert full
    assert full[0]["urgent"]
    assert "SessionOptions.autoRecomputation" in full[0]["text"]


def test_float_products_may_be_float16() -> None:
    long = Chain(ipus=range(2), width=512, rows=512, layers=2)
    assert edits(long, options(accumulation=4), tiles=256).get("halves") == "FLOAT16 in place of FLOAT in stage 1 forward and backward"


@pytest.mark.slow
def test_a_pipeline_that_is_empty_for_long_is_told_which_number_to_raise() -> None:
    found = profile(Chain(ipus=range(3), width=256, rows=128), options(accumulation=5), batches=1, calls=8)["findings"]
    [bubbles] = [finding for finding in found if finding["kind"] == "bubbles"]
    assert bubbles["edit"].startswith("SessionOptions.accumulationFactor: 40 in place of 5")
