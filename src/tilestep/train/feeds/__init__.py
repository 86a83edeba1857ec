"""Elements on their way to devices, and results on their way back."""
