"""Why ranks fell out of line: what their lines, their loops and their order of calls say together."""
