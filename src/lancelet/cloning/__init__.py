"""Tables made from tables: clones, base paths, and how a table goes away."""
