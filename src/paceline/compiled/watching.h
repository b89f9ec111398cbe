/* What runs at every watched call, as the files that know Python share it.
 *
 * Python prepares everything and decides everything; this reads what changes from call to call and writes the record.
 * Whatever is not plain (arguments of another kind, a line that has not called before, calls that do not fit) goes to
 * Python. The GIL is held all the time, so what is here needs no locks of its own.
 */
#ifndef PACELINE_WATCHING_H
#define PACELINE_WATCHING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "ring_records.h"

/* Names of attributes, made once. */
#define WATCHED_NAMES(X)                                                                                               \
    X(array) X(async_op) X(board_member) X(call_flags) X(channel) X(communicator) X(group) X(groups) X(world) X(complete) X(doubt_message) X(drop) X(dtype) X(expected) X(f_back) X(f_lasti) \
    X(is_meta) X(is_of_carrier) X(is_of_library) X(itemsize) X(message_board) X(messages) X(note_failure) X(number) X(nbytes) X(op)         \
    X(ranks) X(recorder) X(remarks) X(root) X(say_overlap) X(say_uses) X(size) X(stop) X(take_out_gone)                \
    X(tell_writing) X(words) X(dest) X(source) X(tag) X(status) X(Get_source) X(Get_tag) X(__qualname__)

typedef struct {
#define X(name) PyObject *name;
    WATCHED_NAMES(X)
#undef X
} WatchedNames;

extern WatchedNames names;

/* watching.c: add everything that is declared here to the module. */
int add_watching(PyObject *module);

/* One member of a communicator: it counts its collectives, and meets the others on the board. */
typedef struct {
    PyObject_HEAD
    Py_buffer board_memory, message_memory; /* `buf` is NULL as long as there is none */
    BoardView board;
    uint64_t index, sequence;
    int64_t member, num_members;
} BoardMember;

/* memory_table.c: memory that requests use, sorted by where it begins. */
typedef struct {
    uint64_t begin, end, number;
    PyObject *memory;
    bool writes;
} MemoryEntry;

typedef struct {
    PyObject_HEAD
    MemoryEntry *entries;
    size_t size, capacity;
    uint64_t longest, last_number;
    int64_t num_writing; /* entries of requests that write */
} MemoryTable;

/* array_memory.c: the memory of one array. */
typedef struct {
    PyObject_HEAD
    Py_buffer held;
    uint64_t begin, end, number;
    int request;
    char writes, is_told;
    PyObject *uses;
    unsigned char *sample; /* NULL: there is none */
} ArrayMemory;

/* posted_fields.c: what is known of a request. It receives nothing if it has no communicator. */
typedef struct {
    PyObject_HEAD
    PyObject *recorder, *memory, *handle, *on_start;
    int request;
    int64_t record;
    char is_active, is_excused, is_users;
    PyObject *communicator;
    int64_t peer, tag, nth;
    uint64_t size;
    PyObject *reference, *key, *table; /* to the object that stands for it, and where it is found by that */
} PostedFields;

/* What writes to the ring of this rank. Python's recorder is a subclass. */
typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    uint64_t *ring; /* NULL before it is opened */
    uint64_t num_records;
    uint64_t *site_counts;
    size_t num_site_counts;
    NumberTable direct_sites, library_sites, codes, channels;
    PyObject *slots, *take_free_slot, *sites;
    PyObject *requests, *free_requests, *remarks, *dropped, *buffers, *gone, *on_writing;
    MemoryTable *memory_table; /* NULL before all of these are there */
    unsigned long thread; /* that made the last call, and the same as Python has it */
    PyObject *thread_key;
    uint64_t blocked_number; /* the record in which a thread has blocked last, plus 1, and where the ring says so */
    int64_t blocked_word;
} RecordWriter;

typedef struct {
    int64_t operation, root, reduction, dtype, num_bytes, count, flags, request, members_hash;
} CollectiveCall;

typedef struct {
    int64_t communicator, operation, peer, tag, message_number, dtype, num_bytes, count, flags, request, num_requests,
        members_hash;
    int64_t source, source_tag, source_dtype, source_bytes, source_number;
} MessageCall;

extern PyTypeObject *board_member_type, *record_writer_type, *memory_table_type, *array_memory_type, *posted_fields_type;

/* Functions that return int or a number return -1 with an exception if they fail. */

/* board_member.c */
int add_board_member_type(PyObject *module);
BoardMember *board_member_of(PyObject *communicator); /* a new reference */
/* Make sure that the board of messages is there; 0: there is no room for one. */
int open_message_board(BoardMember *member, PyObject *recorder, PyObject *communicator);

/* call_sites.c: a key has two numbers for each of its frames */
enum { MAX_LIBRARY_FRAMES = 4, NUM_KEY_FRAMES = 4, DIRECT_KEY = 2 * NUM_KEY_FRAMES };
enum { LIBRARY_KEY = DIRECT_KEY + 2 * MAX_LIBRARY_FRAMES };
int64_t site_of(RecordWriter *writer, PyObject *frame);
uint64_t count_at_site(RecordWriter *writer, int64_t site); /* 0: no memory */

/* record_writer.c */
int add_record_writer_type(PyObject *module);
PyObject *open_ring(PyObject *writer, PyObject *args);
PyObject *open_requests(PyObject *writer, PyObject *args);
extern PyMethodDef writer_methods[]; /* writer_methods.c */
int64_t begin_collective(
    RecordWriter *writer, PyObject *communicator, BoardMember *member, const CollectiveCall *call, PyObject *frame);
int64_t begin_message(RecordWriter *writer, const MessageCall *call, PyObject *frame);
int64_t begin_wait(
    RecordWriter *writer, int64_t operation, const uint16_t *requests, Py_ssize_t num, int64_t flags, PyObject *frame);
int block_thread(RecordWriter *writer, uint64_t number);
int unblock_thread(RecordWriter *writer, uint64_t number);
int stop_rank(PyObject *recorder, PyObject *communicator, uint64_t number, int reason, int64_t member);

/* mpi_arguments.c: what is the same for all watched functions of one mpi4py. */
typedef struct {
    int64_t dtype, num_bytes, count;
} BufferSize;

enum { KEPT_DTYPES = 8 };

typedef struct {
    PyObject_HEAD
    PyObject *session, *communicators, *handle, *buffers, *in_place, *reductions, *reduction_of, *number_of;
    PyObject *any_source, *any_tag, *status_type;
    PyObject *posted_type, *followed, *request_handle; /* for requests: their class, and by which object each is known */
    descrgetfunc get_handle, get_request_handle;
    int compares; /* whether samples of what is sent are taken */
    PyObject *array;               /* numpy's class, once one was seen */
    PyObject *dtypes[KEPT_DTYPES]; /* those seen last, with code and bytes of each */
    int64_t dtype_codes[KEPT_DTYPES], item_sizes[KEPT_DTYPES];
    int next_dtype;
} MpiArguments;

extern PyTypeObject *mpi_arguments_type;

int add_mpi_arguments_type(PyObject *module);
/* Return 1 if this is a call to be recorded, with new references; 0 if Python must look at it. */
int find_communicator(MpiArguments *mpi, PyObject *args, PyObject **communicator, PyObject **recorder);
PyObject *read_handle(PyObject *handle, descrgetfunc get, PyObject *object);
int read_buffer(MpiArguments *mpi, PyObject *buffer, BufferSize *size);
int64_t read_reduction(MpiArguments *mpi, PyObject *operation);
int read_whole(PyObject *value, int64_t limit, int64_t *number); /* 1: an int from 0 to below the limit; 0: not */

/* reductions.c: a carrier's own objects, with a code each. */
bool are_reductions(PyObject *pairs);                                   /* if not, with an exception */
int64_t find_reduction(PyObject *reductions, PyObject *operation); /* -1: it is another */

/* tensor_sizes.c */
typedef struct {
    PyObject_HEAD
    PyObject *known, *in_python; /* element type -> its code and the bytes of an element; what reads all others */
    PyObject *has_data;          /* says of a class whether its tensors have data */
    PyObject *tensor_class, *other_class; /* those have; the other is the one seen last, or NULL */
    PyObject *dtype;             /* the one seen last, with code and bytes */
    int64_t code, item_bytes;
} TensorSizes;

extern PyTypeObject *tensor_sizes_type;
int add_tensor_sizes_type(PyObject *module);
/* Return 1 if it was read; 0, perhaps with an exception, if Python must look at it. */
int read_tensor(TensorSizes *sizes, PyObject *tensor, BufferSize *size);

/* torch_arguments.c: what is the same for all watched functions of one torch.distributed. */
typedef struct {
    PyObject_HEAD
    PyObject *session, *watch, *nesting, *reductions;
    TensorSizes *sizes;
} TorchArguments;

/* Where a plain call has its arguments, or -1; `least` and `most` are how many it gives by their place. */
typedef struct {
    int tensor, reduction, group, returns_work, root, least, most;
    PyObject *root_name; /* interned; NULL if there is no root */
} TorchPlaces;

extern PyTypeObject *torch_arguments_type;
int add_torch_arguments_type(PyObject *module);
/* Return the communicator of a call, a new reference, and what was read; NULL, perhaps with an exception, if Python must
 * look at it. */
PyObject *read_torch_call(
    TorchArguments *torch, const TorchPlaces *places, const RecordWriter *writer, PyObject *args, PyObject *named,
    CollectiveCall *call);

/* watched_call.c: what stands for a function of mpi4py or torch, of every kind. mpi4py's are called with the communicator
 * first, and has the attributes that functools.update_wrapper gives it. */
typedef struct {
    PyObject_HEAD
    PyObject *dict, *weak_references;
    MpiArguments *mpi;              /* NULL for a function of torch */
    PyObject *session;              /* of this process */
    PyObject *function, *in_python; /* the carrier's, and the watched one that Python has for what is not plain */
    PyObject *helper;               /* a function of Python's that its kind needs */
    PyObject *nesting;              /* what those of torch need; NULL for mpi4py */
    TorchArguments *torch;          /* the same, for collectives */
    int64_t code;
} WatchedCall;

/* Make one, with new references; `type` has at least the fields of WatchedCall. */
WatchedCall *make_call(
    PyTypeObject *type, PyObject *session, PyObject *function, PyObject *in_python, int64_t code, PyObject *helper);
WatchedCall *make_mpi_call(
    PyTypeObject *type, PyObject *mpi, PyObject *function, PyObject *in_python, int64_t code, PyObject *helper);
/* Add a type of callables to the module, made from what its kind has of its own. */
int add_call_type(PyObject *module, PyTypeObject **type, const char *name, int size, newfunc make, ternaryfunc call);
/* Make a call in which this thread waits, as has been said already, and say that it has returned or raised. If it was a
 * message that raised, it is not known what became of it. */
PyObject *call_recorded(
    WatchedCall *call, RecordWriter *writer, uint64_t number, bool is_message, PyObject *args, PyObject *named);
/* Whether Python is to do what C could not; not if an exception came that is none of an argument, such as an interrupt. */
bool is_left_to_python(void);
/* Say that a call has raised, and that it is not known what became of its message. */
int tell_failure(WatchedCall *call, PyObject *error, uint64_t number);
int doubt_message(PyObject *recorder);
/* Return an argument, or one that is given by its name, or NULL; `num_named` falls by one if it was named. */
PyObject *find_argument(PyObject *args, PyObject *named, int place, PyObject *name, Py_ssize_t *num_named);

/* An exception that is set aside while Python is asked something. If something is raised meanwhile, that comes in its
 * place, and this one is its context. */
typedef struct {
    PyObject *type, *error, *traceback;
} Raised;
void take_raised(Raised *raised);
void give_back(Raised *raised);

int add_watched_collective_type(PyObject *module);

/* message_counts.c: a message, as far as it is known. References are borrowed. */
typedef struct {
    PyObject *communicator, *recorder, *status, *buffer, *peer_given, *tag_given;
    RecordWriter *writer; /* the recorder */
    BoardMember *member;
    int64_t peer, tag;
    int64_t nth; /* 0: which one it is, is not certain */
    uint64_t size, number;
} Message;

int64_t count_message(Message *message, int direction); /* how many there are now; 0 if that is not known */
int expect_message(Message *message, int change);       /* a receive that is posted, or one less */
int64_t next_receive(Message *message);                 /* which message it takes; 0 if that is not certain */
int meet_other_side(Message *message, bool sends);      /* show this side; stop if the other does not fit */
int read_status(Message *message, PyObject *status);    /* who sent it, and with which tag */
int check_received(Message *message);                   /* stop if what was sent does not fit */

/* watched_message.c: sends and receives; posted ones, in watched_posting.c, have the same fields. */
typedef struct {
    WatchedCall call; /* the helper of one that blocks compares a receive that raised with what was sent */
    bool sends, has_buffer, uses_memory;
    int least;
} WatchedMessage;

int add_watched_message_type(PyObject *module);
int add_watched_posting_type(PyObject *module);
PyObject *new_message(PyTypeObject *type, PyObject *args, PyObject *named);
PyObject *call_with_message(
    PyObject *object, PyObject *args, PyObject *named,
    PyObject *(*follow)(WatchedMessage *, PyObject *, PyObject *, Message *));
int read_message(WatchedMessage *self, PyObject *args, PyObject *named, int most_args, Message *message); /* 0: not plain */
int begin_watched_message(WatchedMessage *self, Message *message, const BufferSize *size, int flags, int request);

int add_watched_wait_type(PyObject *module);

/* nesting.c */
extern PyTypeObject *nesting_type;
int add_nesting_type(PyObject *module);
int64_t nesting_depth(PyObject *nesting);
int set_nesting_depth(PyObject *nesting, int64_t depth);
int add_outermost_call_type(PyObject *module);

int add_watched_torch_type(PyObject *module); /* watched_torch.c */

/* memory_table.c */
int add_memory_table_type(PyObject *module);
int64_t add_memory(MemoryTable *table, PyObject *memory, uint64_t begin, uint64_t end, bool writes); /* its number */
bool remove_memory(MemoryTable *table, PyObject *memory, uint64_t begin, uint64_t number);
/* Whether some memory shares a byte with this, and one of both is written to. */
bool has_conflict(const MemoryTable *table, uint64_t begin, uint64_t end, bool writes);

/* array_memory.c */
int add_array_memory_type(PyObject *module);
ArrayMemory *make_array_memory(PyObject *buffer, int64_t num_bytes, bool writes);
int mark_memory(ArrayMemory *memory);
bool memory_has_changed(const ArrayMemory *memory);

/* posted_fields.c */
int add_posted_fields_type(PyObject *module);
PostedFields *make_posted(PyObject *type, PyObject *recorder, int request, int64_t record);
int stand_for(PostedFields *posted, PyObject *request, PyObject *table);
PostedFields *find_posted(PyObject *table, PyObject *request); /* a new reference; NULL, perhaps without an exception */

/* posted_requests.c */
int take_request(RecordWriter *writer); /* a number; 0 if there is no room */
int free_request(RecordWriter *writer, int request);
int keep_request(RecordWriter *writer, int request, uint64_t number);
int begin_memory(RecordWriter *writer, int request, ArrayMemory *memory, bool compares);
/* Note that a call uses memory, if requests write to it. Return 0 if Python must look at the buffer. */
int note_buffer(MpiArguments *mpi, RecordWriter *writer, PyObject *buffer, int64_t num_bytes);
int note_use(RecordWriter *writer, uint64_t begin, uint64_t end);
int forget_unreadable(void); /* clear an exception that only says that memory cannot be read; -1: it is another */
bool receives_from_any(const PostedFields *posted);
int complete_posted(PostedFields *posted, RecordWriter *writer, PyObject *status);

#endif
