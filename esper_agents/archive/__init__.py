"""Certificates of a project: stored, searched, published, verified, changed and repaired.

`store` reads the table of certificates, and `search` finds them. `publishing` writes views into the project;
`inspection` and `verification` check what the archive and the published files say; `changes` appends revocations,
overrides, countersignatures and keys to the log; `repair` rebuilds what was lost. `ProjectPlace` names the project.
"""
