"""From data to fragments that can be committed."""
