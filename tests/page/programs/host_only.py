"""What a host does, without a program on an IPU."""

import threading

import tilestep

done = tilestep.series("done")
sizes = tilestep.heat_map("sizes", edges=[0.001, 5, 50, 500])


def work(name: str) -> None:
    """A few steps."""
    for step in range(5):
        with tilestep.tracepoint(f"{name} {step}"), tilestep.tracepoint("inner"):
            sum(range(10_000))
        done.add(step)
        sizes.add(10.0**step)


threads = [threading.Thread(target=work, args=(name,), name=name) for name in ("reader", "writer")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
