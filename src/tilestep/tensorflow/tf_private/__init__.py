"""What the front end needs of private TensorFlow. Nothing else of it imports below `tensorflow.python` or `tensorflow.compiler`."""
