"""What differs between two checks, and who is concerned by it."""
