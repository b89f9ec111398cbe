"""Where things are in the shared memory of one rank. The rank writes, the judge reads; neither locks.

Words are 8 bytes. A record is complete before the number of records counts it, and says its own number, so a reader
can tell a record from one that has taken its place. What is in a record: record_fields.py.
"""

from __future__ import annotations

import struct

from paceline.guard.shared_memory.record_fields import COMMON, MESSAGE, MESSAGE_OFFSET, OFFSETS, RECORD_BYTES, WORD

MAGIC = 0x3230_454E_494C_4341  # "ACLINE02"

# words of the header
PID, START_TIME, WORLD_SIZE, RANK, NUM_RECORDS, TEXT_BYTES, ENDING, EXIT_CODE = 1, 2, 3, 4, 5, 6, 7, 8
STOPPED, STOP_REASON, STOP_PEER, GO_ON, LOST = range(9, 14)
ENQUEUES, SIDE_STREAMS, JOINED, MAIN_ENDED, NUM_CHANNELS, ENDED_AT = range(14, 20)
# messages of which it is not known whether they were sent or received: cancelled, dropped, or their call raised
NUM_UNCERTAIN = 20

# values of ENDING
LIVES, EXITS, EXITS_AT_ONCE, ABORTS = 0, 1, 2, 3
# values of STOP_REASON
STOP_COLLECTIVE, STOP_MESSAGE, STOP_ARGUMENT = 1, 2, 3
# bits of LOST: what did not fit, so that nothing may be concluded from its absence
LOST_THREADS, LOST_REQUESTS, LOST_CHANNELS, LOST_COMMUNICATORS, LOST_MESSAGES, LOST_BOARDS = 1, 2, 4, 8, 16, 32
LOST_WINDOWS = 64  # windows or files

# word; four words each: record number + 1 or 0, native id, requests waited for, native id of the thread that it joins
THREADS_AT = 64
THREAD_WORDS = 4
THREAD_NUMBER, THREAD_JOINS = 1, 3  # which of these words has which native id
MAX_THREADS = 16
MAX_WAITED = 1024  # requests of one wait that are listed
COMMS_AT = 128  # word; one each: number of collectives begun
MAX_COMMS = 256
FREED_AT = COMMS_AT + MAX_COMMS  # word; one each: 1 once the communicator was freed
HEADER_BYTES = 8192

WAITED_AT = HEADER_BYTES  # bytes; MAX_THREADS lists of 16-bit request numbers
WAITED_BYTES = MAX_THREADS * MAX_WAITED * 2

NUM_SLOTS = 4096
RECORDS_AT = WAITED_AT + WAITED_BYTES

MAX_REQUESTS = 1024  # outstanding at one time; number 0 is kept for "not listed"
REQUESTS_AT = RECORDS_AT + NUM_SLOTS * RECORD_BYTES

# a channel: communicator, direction, peer, tag, count of messages
CHANNEL = struct.Struct("<HHiiIQQ")
CHANNEL_BYTES = 32
MAX_CHANNELS = 4096
CHANNELS_AT = REQUESTS_AT + MAX_REQUESTS * RECORD_BYTES
CHANNEL_COUNT_OFFSET = 16

TEXT_AT = CHANNELS_AT + MAX_CHANNELS * CHANNEL_BYTES
RING_BYTES = 1 << 20
TEXT_BYTES_MAX = RING_BYTES - TEXT_AT

# flags of a record
NONBLOCKING, FAILED, OWN_TIMEOUT, ANY_OF = 1, 2, 4, 8
WITHDRAWN = 32  # a collective that was refused before anything was sent: the next one takes its position
ENQUEUED = 16  # its backend may return, and its wait too, before it has completed: NCCL
# what a peer, a root or a tag says when it is not a number of one
NOTHING, ANY, NOBODY = -1, -2, -3

# directions of a channel. Members of a window give each other tokens: Post gives one to each origin, Complete gives one
# to each target. HELD counts the locks that a member holds at another, its tag says which kind. Workers of rpc give
# each other calls.
SENT, RECEIVED, GIVEN, TAKEN, HELD = 1, 2, 3, 4, 5
POST_TOKEN, COMPLETE_TOKEN = 0, 1
SHARED_LOCK, EXCLUSIVE_LOCK = 0, 1
# how the identity of what is followed like a communicator begins; see RankState.begun
WINDOW_PREFIX, FILE_PREFIX = "window-", "file-"
# and that of an intercommunicator, with the number of members that its first side has: inter-2-HASH
INTER_PREFIX = "inter-"
# and that of the workers of torch.distributed.rpc
RPC_PREFIX = "rpc-"
# of one that joins two jobs, after the prefix before: bridge-HALF-ORIGIN; each job has a half of its own
BRIDGE_PREFIX = "bridge-"
OF_OTHER_JOB = -1  # a member of such a communicator that is of the other job
# of the file in which a process that is a rank by its launcher says what it does before it joins a job
START_PREFIX = "start."
STOP_PREFIX = "stop."  # of the word of a launcher that was told to end

assert COMMON.size <= MESSAGE_OFFSET
assert MESSAGE_OFFSET + MESSAGE.size <= RECORD_BYTES
assert RECORD_BYTES % WORD == OFFSETS["left_ns"] % WORD == 0  # the rank writes that field as a word
assert CHANNEL.size <= CHANNEL_BYTES
assert TEXT_BYTES_MAX > 150_000

# The board of a communicator: one row of words per sequence number, two words per member; see board.py
BOARD_ROWS = 64
UNKNOWN_BYTES = (1 << 56) - 1
