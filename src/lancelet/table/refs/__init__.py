"""Tags and branches."""
