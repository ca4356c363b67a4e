"""hermesctl: operator CLI and readiness checker for Hermes Agent API servers."""

__version__ = "0.1.0"
