"""What a user of the platform may rely on: how it is chosen and set, what it does to values, memory and time, what it survives."""
