"""What is sent to the engine: prompts, lengths, load points."""
