"""The words of the project as frozen types, one file each. No I/O; imports nothing of ours but `errors`."""
