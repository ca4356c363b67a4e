"""A report in its other forms: a pure function from a Report to text for each."""
