"""What a rank notices of its own requests, buffers and handles, and says in its ring. Standard library alone."""
