"""`python -m tilestep`, and the entry point of the `tilestep` script."""

import sys


def main() -> int:
    """Carries out the process's command line and returns its exit status. Raises: SystemExit as `tilestep.cli.main` does."""
    try:
        from tilestep.cli import main as command_line  # takes long enough that Ctrl-C may come meanwhile
    except KeyboardInterrupt:
        return 130  # as cli/usage.py has it, which may not have been imported yet
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
