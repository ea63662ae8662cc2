"""Operations, their conflicts, and the one way to make a change visible."""
