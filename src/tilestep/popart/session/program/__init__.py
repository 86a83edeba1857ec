"""The compiled programs of a session: on one device, over replicas, with stages that work at once."""
