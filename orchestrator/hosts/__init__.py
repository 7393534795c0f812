"""Doors to machines: ssh, local, systemd, process, and the helper that runs on the host."""
