"""What tune relies on in an engine: asked of the simulated one always, of a real one when there is one."""
