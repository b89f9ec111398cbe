"""What verbs need of a user's terminal and desktop: the live view, output nobody reads, completion, the browser."""
