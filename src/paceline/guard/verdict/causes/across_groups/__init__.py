"""Why ranks wait on different communicators: a call left out on one, passed over in a group, made on the wrong one."""
