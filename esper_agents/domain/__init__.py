"""Domain types: frozen, without I/O, one file each. They import only `errors` from this package."""
