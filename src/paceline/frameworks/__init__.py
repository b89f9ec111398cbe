"""What frameworks for training take from us as their own: each module speaks to one framework, and imports it."""
