"""Who wants the timeline, and the player that it is taken from."""

from tilestep import hints
from tilestep.pjrt.running.player import Player

_holders: set[object] = set()  # profiles and sessions of profilers that are under way; the timeline is kept only for them
_links: set[object] = set()  # those of them that want the transfers of links, too
_current: Player | None = None  # the platform's, once it has started


def is_recording() -> bool:
    """Whether a profile, or a profiler's session, is under way."""
    return bool(_holders)


def is_recording_links() -> bool:
    """Whether somebody wants the transfers of links as events of their own."""
    return bool(_links)


def current_player() -> Player | None:
    """The player that profiles are taken from; None where JAX has not started the platform."""
    return _current


def keep_timeline(holder: object, *, links: bool = True) -> None:
    """Keeps the timeline from now on, also that of a platform that starts later, until `holder` lets go of it.

    Args: links: whether transfers over host links are events of their own as well; the IPUs' events show them to be there.
    """
    _holders.add(holder)
    if links:
        _links.add(holder)
    if _current is not None:
        _current.system.record = True
        _current.record_links(is_recording_links())


def let_go_of_timeline(holder: object) -> None:
    """Forgets the timeline if nothing else needs it. May be called more than once."""
    _holders.discard(holder)
    _links.discard(holder)
    if _current is not None:
        _current.record_links(is_recording_links())
    if not _holders and _current is not None and not _current.keeps_timeline:
        _current.stop_recording()


def use(player: Player) -> None:
    """Takes profiles from `player` from now on, and sends its journal the hints."""
    global _current
    _current = player
    hints.listen(player.journal)
