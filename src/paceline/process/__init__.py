"""What a process can learn of itself and of others: from the kernel, from its launcher, or by asking.

It lies below all other layers and needs the standard library alone, because the guard's part inside a watched rank
uses it too, in environments that have nothing of ours.
"""
