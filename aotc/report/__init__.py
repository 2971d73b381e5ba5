"""Reports for people: what was built, what was compared, and how it went."""
