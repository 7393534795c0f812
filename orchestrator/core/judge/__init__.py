"""What measured numbers mean."""
