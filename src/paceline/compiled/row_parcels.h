/* Rows of a batch in a parcel of bytes, and back: first a line for each row, with its dense fields and then the lengths
 * of its lists, and behind all lines the lists, row after row. A received parcel is checked before anything is read.
 */
#ifndef PACELINE_ROW_PARCELS_H
#define PACELINE_ROW_PARCELS_H

#include "kernels.h"

#define MOST_VALUES (INT64_C(1) << 40) /* of a field, where they take no memory that would limit them */

typedef struct {
    const uint8_t *memory; /* row after row */
    int64_t row_bytes;
} DenseField;

typedef struct {
    const uint8_t *memory; /* key after key, and within a key row after row */
    int64_t num_bytes, value_bytes;
} ListMemory;

typedef struct {
    const int64_t *lengths; /* (key, row): read once, by `open_table`, since their owner may change them meanwhile */
    int64_t num_keys;
    ListMemory lists[2]; /* values, and weights if there are any */
    int64_t num_lists;
} JaggedField;

/* The fields of the own rows. */
typedef struct {
    DenseField *dense;
    JaggedField *jagged;
    int64_t num_dense, num_jagged, num_rows;
    int64_t num_columns, line_bytes; /* from here on filled in by `open_table`: keys of all jagged fields */
    int64_t *starts; /* of each list in its field, counted in values: (field, key, row), and behind each field its end */
} RowTable;

int open_table(RowTable *table);
void close_table(RowTable *table);

/* The bytes of a parcel of these rows, each of them named but once. */
int64_t bytes_of_rows(const RowTable *table, const int64_t *rows, int64_t count);
void write_parcel(const RowTable *table, const int64_t *rows, int64_t count, uint8_t *out);

typedef struct {
    const uint8_t *line, *lists; /* `lists` moves on as they are read */
} ReceivedRow;

/* Find the rows in a parcel; WRONG_NUMBERS if it does not hold exactly these. */
int read_parcel(const RowTable *table, const uint8_t *memory, int64_t size, int64_t count, ReceivedRow *rows);

/* Which rows a new batch gets: own ones by their number, received ones counted from `table->num_rows` on. */
typedef struct {
    const RowTable *table;
    ReceivedRow *received;
    const int64_t *order;
    int64_t num_real, num_rows; /* of the new batch; rows after the real ones are padding */
} Arrangement;

/* Write the lengths of a jagged field and return how many values it has, or WRONG_NUMBERS. */
int64_t count_values(const Arrangement *task, int64_t field, int64_t *lengths);

/* Write all other fields: `lists` has the values and weights of all jagged fields. */
int arrange_rows(const Arrangement *task, uint8_t *const *dense, int64_t *const *lengths, uint8_t *const *lists);

/* Groups: which rank gets which rows. A row is named as rank * batch_size + row. */

/* Note in `seen`, which has a byte per row, that these are named; false if one is not below `num_rows`, or is named
 * again. */
bool name_rows(const int64_t *rows, int64_t size, int64_t num_rows, uint8_t *seen);

/* Return a digest that is equal for equal numbers and for hardly any others. */
uint64_t mix_numbers(uint64_t digest, const int64_t *numbers, int64_t size);

typedef struct {
    int64_t first, num_real; /* the name of the first row of a rank, and how many of its rows are real */
} RowRange;

/* Write the real rows of a rank that a group names, in its order; return how many. */
int64_t own_rows_in(const RowRange *own, const int64_t *rows, int64_t size, int64_t *found);

/* Write the order of a group's real rows as `Arrangement` takes it, and how many come from each other rank; return how
 * many rows are real. */
int64_t order_group(
    const int64_t *group, int64_t size, const int64_t *num_real, int64_t num_ranks, int64_t rank, int64_t batch_size,
    int64_t *counts, int64_t *order);

#endif
