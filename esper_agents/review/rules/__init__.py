"""The rules, one file each, named for the pattern it finds. A new file is found by itself."""
