"""The Hermes API server, as typed calls. The only part of hermesctl that talks HTTP."""
