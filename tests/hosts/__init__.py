"""Hosts: ssh, local, systemd, process, and what runs on them."""
