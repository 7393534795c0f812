"""The whole line on real hosts: real ssh, real systemd, the simulated engine behind SGLang's own command line."""
