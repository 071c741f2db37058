"""What follows from the measurements of a profile, without torch and without running anything."""
