"""In what order things happen, and what is undone on failure. Doors are handed in."""
