"""Nodes that are watched over time: looked at often, checked now and then, told to Prometheus."""
