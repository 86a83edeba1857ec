"""What programs import as `tensorflow.python.ipu`."""
