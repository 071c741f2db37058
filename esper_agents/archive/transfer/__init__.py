"""Transfer of whole archives between databases and machines."""
