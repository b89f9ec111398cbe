"""One watched run, from its start to the files that it keeps. Runs in the parent process."""
