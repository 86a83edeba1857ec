"""How a recording becomes a file, and how one from anywhere is read within bounds. It knows tables and no simulation."""
