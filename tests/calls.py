"""How often a program calls a function, without another one in its place."""

import pstats
from collections import Counter
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from typing import Any


def calls_of(profile: Profile, function: Callable[..., Any]) -> dict[str, int]:
    """Calls of a function while a profile was made, by the name of the file that they are in."""
    code = function.__code__
    stats: Any = pstats.Stats(profile)
    *_, callers = stats.stats[code.co_filename, code.co_firstlineno, code.co_name]
    found: Counter[str] = Counter()
    for (file, _, _), (calls, *_) in callers.items():
        found[Path(file).name] += calls
    return dict(found)
