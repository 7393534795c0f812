"""A host over SSH. The only home of paramiko; the ssh client of this machine decides how a host is reached."""

from orchestrator.hosts.ssh.host import SshHost

__all__ = ["SshHost"]
