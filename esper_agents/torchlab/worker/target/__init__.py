"""Loading of the target and its inputs."""
