"""Git queries that run nothing of the repository's configuration.

Start at `process`, through which every call goes. `find_project` and `project_state` describe the project of a task;
`revisions`, `trees` and `files` name what a commit, a tree or the work tree contains; `diffs` and `changed_files`
compare them; `history` reads the commits of documents.
"""
