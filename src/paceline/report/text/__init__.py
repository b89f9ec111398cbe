"""Values as plain text and as JSON. It prints nothing."""
