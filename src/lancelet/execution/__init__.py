"""Plans and how they run: candidates from indices, units of rows, scans, takes."""
