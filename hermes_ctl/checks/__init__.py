"""The readiness check: probes, the runner that drives them, and the report that they add up to."""
