"""What if the machine were another: its knobs, and a recording's journal played again with them turned. It imports no finding."""
