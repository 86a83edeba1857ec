"""`tilestep view`: shows a recording, or two, in a browser."""

from __future__ import annotations

import argparse
import getpass
import socket
import threading
import webbrowser
from typing import Any, Final

from tilestep.cli.report.html import label_of
from tilestep.cli.report.opening import add_path, opened, print_line, told
from tilestep.cli.usage import given_path, tell
from tilestep.settings import is_remote_shell
from tilestep.views.page import page_html
from tilestep.views.page.server import ADDRESS, PageServer, what_if_answer

_COMMAND: Final = "tilestep view"
_WRONG: Final = 2


def add_parser(subparsers: Any) -> None:
    """Adds `view` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "view",
        help="show a recording in a browser",
        description="Serves the page of a recording, or of two, to this machine alone, and opens a browser. Knobs of the emulated "
        "machine can be turned in it. Ctrl-C ends it.",
    )
    add_path(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", type=given_path, help="a second recording, to compare")
    parser.add_argument("--port", type=_port, default=0, help="to listen on; default: any that is free")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C. Returns 2 after a message to stderr if a recording cannot be read, or the port is taken."""
    return told(_COMMAND, lambda: _view(args))


def _view(args: argparse.Namespace) -> int:
    reports = {"a": opened(_COMMAND, args.path), **({"b": opened(_COMMAND, args.other)} if args.other else {})}
    labels = (label_of(args.path), label_of(args.other) if args.other else "")
    page = page_html(reports["a"], reports.get("b"), labels=labels, served=True)
    try:
        server = PageServer(page, what_if_answer(reports), port=args.port)
    except OSError as error:
        tell(_COMMAND, f"port {args.port} of this machine cannot be listened on: {error.strerror}; --port 0 takes one that is free")
        return _WRONG
    print_line(f"{server.url}\nCtrl-C ends it.")
    if is_remote_shell():
        tunnel = f"ssh -N -L {server.port}:{ADDRESS}:{server.port} {getpass.getuser()}@{socket.gethostname()}"
        print_line(f"On the machine in front of you:\n  {tunnel}\nand open the address there.")
    elif not args.no_browser:
        threading.Thread(target=_open, args=(server.url,), daemon=True).start()  # one without windows stays until its user leaves it
    try:
        server.serve()
    except KeyboardInterrupt:
        print_line("")
    finally:
        server.close()
    return 0


def _open(url: str) -> None:
    try:
        opened = webbrowser.open(url)
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        tell(_COMMAND, "no browser was found on this machine: open the address in one yourself")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 5 or int(text) > 65_535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)
