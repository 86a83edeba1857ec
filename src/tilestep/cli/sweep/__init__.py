"""`tilestep sweep`: one program in dry runs over a product of settings."""
