"""jax.profiler on `ipu`: its sessions show what the emulated machine did."""

import jaxlib.version
import pytest

from tests import processes
from tests.in_turn import python
from tilestep.pjrt.jax_private.versions import PROFILED

# what the programs share: sessions and what they left
SHARED = """
import glob, gzip, json, tempfile, threading, time, warnings
warnings.filterwarnings("ignore", "builtin type .* has no __module__")  # as an error it ends Python 3.13

import jax, jax.numpy as jnp, numpy as np
import tilestep

def folder():
    return tempfile.mkdtemp()

def planes(folder):
    [file] = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
    found = {}
    for plane in jax.profiler.ProfileData.from_file(file).planes:
        lines = {line.name: [(e.name, e.start_ns, e.duration_ns, dict(e.stats)) for e in line.events] for line in plane.lines}
        if "emulated" in plane.name:
            found[plane.name.removeprefix("/device:CUSTOM:").removesuffix(" (emulated)")] = {
                name.removesuffix(" (emulated time)"): line for name, line in lines.items()
            }
    return found

def on_ipu(fn=lambda x: x + 1, times=1, index=0):
    step, x = jax.jit(fn), jax.device_put(np.ones((8, 8), np.float32), jax.devices("ipu")[index])
    for _ in range(times):
        x = step(x)
    return x.block_until_ready()

def check(profile, planes, ipu=0):
    '''The tiles' events of a session are the profile's, in order, at the machine's clock.'''
    tiles = planes[f"IPU {ipu}"][f"IPU {ipu}"]
    timeline = [event for event in profile.timeline if event.ipu == ipu]
    ns = 1e9 / profile.machine.clock_hz
    assert len(tiles) == len(timeline) > 0, (len(tiles), len(timeline))
    for (name, start, duration, stats), event in zip(tiles, timeline):
        cycles = event.end_cycle - event.start_cycle
        assert name == f"{event.kind} ({event.program})", (name, event)
        assert stats["cycles"] == cycles
        assert abs(duration - cycles * ns) < 1, (duration, cycles * ns)  # JAX's reader has whole nanoseconds
        assert abs((start - tiles[0][1]) - (event.start_cycle - timeline[0].start_cycle) * ns) < 2, event
    assert all(a[1] + a[2] <= b[1] + 2 for a, b in zip(tiles, tiles[1:]))
"""


def run(code: str, **settings: str) -> str:
    return python(SHARED + code, **settings).stdout


def test_the_installed_jaxlib_is_among_those_that_were_tested() -> None:
    """Add a version only after these tests have passed with it: jaxlib ends the process where the table has another size."""
    assert jaxlib.version.__version__ in PROFILED


def test_a_program_without_an_ipu_never_notices() -> None:
    run("""
with jax.profiler.trace(folder := folder()):
    jax.jit(lambda x: x @ x)(jnp.ones((8, 8))).block_until_ready()
assert planes(folder) == {}
from tilestep.pjrt.table.client import started_client
client = started_client()  # JAX starts every platform
assert client is not None and not client.in_use and not client.player.system.record
""")


def test_a_session_waits_for_loops_that_count() -> None:
    """It begins in the midst of one that is not its own, and ends in the midst of its own."""
    run("""
loop = jax.jit(lambda x, n: jax.lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] @ c[0] / 300, c[1] + 1), (x, 0))[0])
x = jax.device_put(np.ones((300, 300), np.float32), jax.devices("ipu")[0])
loop(x, 5)
with jax.profiler.trace(folder := folder()), tilestep.profile() as profile:
    loop(x, 50)
check(profile, planes(folder))
assert [program.runs for program in profile.programs] == [1]
""")


def test_ctrl_c_at_a_sessions_end_comes_behind_it() -> None:
    run("""
import os, signal
from tilestep.pjrt.running import timeline
from tilestep.profiling import profiler
real, given = profiler.xspace, []

def slow(timeline):
    given.append(b"")
    if len(given) < 3:
        os.kill(os.getpid(), signal.SIGINT)
        sum(k for k in range(1000))  # in which Python would look for it
    given[-1] = real(timeline)
    return given[-1]

profiler.xspace = slow
try:
    with jax.profiler.trace(folder()):
        on_ipu()
except KeyboardInterrupt:
    assert [b"IPU 0" in data for data in given] == [False, False, True]
    assert not timeline.is_recording()
else:
    raise AssertionError("the interrupt was lost")
finally:
    profiler.xspace = real
    jax._src.profiler._profile_state.reset()  # the interrupt came before JAX had noted the end
""")


@pytest.mark.slow
def test_what_goes_wrong_is_told_and_the_rest_of_the_session_is_kept() -> None:
    result = processes.python(
        SHARED
        + """
from tilestep.pjrt.running import timeline
from tilestep.profiling import profiler

def fail(self):
    raise ValueError("on purpose")

for method in "begin", "end", "data":
    before = getattr(profiler.ProfilerSession, method)
    setattr(profiler.ProfilerSession, method, fail)
    with jax.profiler.trace(target := folder()):
        on_ipu()
    setattr(profiler.ProfilerSession, method, before)
    [file] = glob.glob(target + "/**/*.xplane.pb", recursive=True)
    assert "/host:CPU" in [plane.name for plane in jax.profiler.ProfileData.from_file(file).planes]
    assert planes(target) == {}, method
"""
    )
    assert result.stderr.count("ValueError: on purpose") >= 3


OTHERS = {
    "a session that is forgotten while an exception is raised": """
from jax._src.lib import _profiler
from tilestep.pjrt.running import timeline
on_ipu()
session = _profiler.ProfilerSession()
on_ipu()
try:
    raise ValueError
except ValueError:
    del session
assert not timeline.is_recording()
""",
    "a fork in the midst of a session": """
import os
warnings.simplefilter("ignore")  # JAX warns of forks
with jax.profiler.trace(target := folder()), tilestep.profile() as profile:
    on_ipu()
    child = os.fork()
    if not child:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    on_ipu()
check(profile, planes(target))
""",
    "a session of another thread": """
def session():
    with jax.profiler.trace(target):
        on_ipu()
target = folder()
thread = threading.Thread(target=session)
thread.start()
thread.join()
assert "IPU 0" in planes(target)
""",
}


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_the_program_ends_well_with(code: str) -> None:
    run(code)
