"""The devices that a session can be made for, and the machine that stands behind each."""
