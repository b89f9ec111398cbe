#include "row_parcels.h"

#include <stdlib.h>
#include <string.h>

static int64_t line_bytes_of(const RowTable *table) {
    int64_t bytes = 0;
    for (int64_t field = 0; field < table->num_dense; field++) {
        bytes += table->dense[field].row_bytes;
    }
    return bytes + table->num_columns * (int64_t)sizeof(int64_t);
}

/* The entries of `starts` that a field has. */
static int64_t num_starts(const RowTable *table, int64_t field) {
    return table->jagged[field].num_keys * table->num_rows + 1;
}

static int64_t length_at(const int64_t *starts, int64_t index) {
    return starts[index + 1] - starts[index];
}

/* Where the lists of the own rows begin, counted in values: for each jagged field key after key. WRONG_NUMBERS if they
 * reach beyond what the field has. */
static int find_starts(RowTable *table) {
    table->starts = make_array(table->num_columns * table->num_rows + table->num_jagged, sizeof(int64_t));
    if (!table->starts) {
        return NO_MEMORY;
    }
    int64_t *starts = table->starts;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        const JaggedField *jagged = &table->jagged[field];
        int64_t size = jagged->num_keys * table->num_rows, start = 0;
        for (int64_t index = 0; index < size; index++) {
            int64_t length = jagged->lengths[index];
            if (length < 0 || length > MOST_VALUES || start > MOST_VALUES) {
                return WRONG_NUMBERS;
            }
            starts[index] = start;
            start += length;
        }
        starts[size] = start;
        for (int64_t list = 0; list < jagged->num_lists; list++) {
            const ListMemory *values = &jagged->lists[list];
            if (values->value_bytes && start > values->num_bytes / values->value_bytes) {
                return WRONG_NUMBERS;
            }
        }
        starts += num_starts(table, field);
    }
    return 0;
}

int open_table(RowTable *table) {
    table->num_columns = 0;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        table->num_columns += table->jagged[field].num_keys;
    }
    table->line_bytes = line_bytes_of(table);
    return find_starts(table);
}

void close_table(RowTable *table) {
    free(table->starts);
    table->starts = NULL;
}

int64_t bytes_of_rows(const RowTable *table, const int64_t *rows, int64_t count) {
    const int64_t *starts = table->starts;
    int64_t bytes = count * table->line_bytes;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        const JaggedField *jagged = &table->jagged[field];
        int64_t num_values = 0;
        for (int64_t key = 0; key < jagged->num_keys; key++) {
            for (int64_t index = 0; index < count; index++) {
                num_values += length_at(starts, key * table->num_rows + rows[index]);
            }
        }
        for (int64_t list = 0; list < jagged->num_lists; list++) {
            bytes += num_values * jagged->lists[list].value_bytes;
        }
        starts += num_starts(table, field);
    }
    return bytes;
}

static uint8_t *write_line(const RowTable *table, int64_t row, uint8_t *out) {
    const int64_t *starts = table->starts;
    for (int64_t field = 0; field < table->num_dense; field++) {
        int64_t bytes = table->dense[field].row_bytes;
        memcpy(out, table->dense[field].memory + row * bytes, (size_t)bytes);
        out += bytes;
    }
    for (int64_t field = 0; field < table->num_jagged; field++) {
        for (int64_t key = 0; key < table->jagged[field].num_keys; key++) {
            int64_t length = length_at(starts, key * table->num_rows + row);
            memcpy(out, &length, sizeof(int64_t));
            out += sizeof(int64_t);
        }
        starts += num_starts(table, field);
    }
    return out;
}

static uint8_t *write_lists(const RowTable *table, int64_t row, uint8_t *out) {
    const int64_t *starts = table->starts;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        const JaggedField *jagged = &table->jagged[field];
        for (int64_t list = 0; list < jagged->num_lists; list++) {
            const ListMemory *values = &jagged->lists[list];
            for (int64_t key = 0; key < jagged->num_keys; key++) {
                int64_t index = key * table->num_rows + row;
                int64_t bytes = length_at(starts, index) * values->value_bytes;
                if (bytes) {
                    memcpy(out, values->memory + starts[index] * values->value_bytes, (size_t)bytes);
                    out += bytes;
                }
            }
        }
        starts += num_starts(table, field);
    }
    return out;
}

void write_parcel(const RowTable *table, const int64_t *rows, int64_t count, uint8_t *out) {
    for (int64_t index = 0; index < count; index++) {
        out = write_line(table, rows[index], out);
    }
    for (int64_t index = 0; index < count && table->num_jagged; index++) {
        out = write_lists(table, rows[index], out);
    }
}

/* The length of a list in a received line. */
static int64_t length_in(const RowTable *table, const uint8_t *line, int64_t column) {
    int64_t length;
    const uint8_t *columns = line + table->line_bytes - table->num_columns * (int64_t)sizeof(int64_t);
    memcpy(&length, columns + column * (int64_t)sizeof(int64_t), sizeof(int64_t));
    return length;
}

/* The bytes that the lists of a received row take; WRONG_NUMBERS if these are more than there are. */
static int64_t list_bytes_of(const RowTable *table, const uint8_t *line, int64_t room) {
    int64_t bytes = 0, column = 0;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        const JaggedField *jagged = &table->jagged[field];
        for (int64_t key = 0; key < jagged->num_keys; key++, column++) {
            int64_t length = length_in(table, line, column);
            if (length < 0 || length > MOST_VALUES) {
                return WRONG_NUMBERS;
            }
            for (int64_t list = 0; list < jagged->num_lists; list++) {
                int64_t value_bytes = jagged->lists[list].value_bytes;
                if (value_bytes && length > (room - bytes) / value_bytes) {
                    return WRONG_NUMBERS;
                }
                bytes += length * value_bytes;
            }
        }
    }
    return bytes;
}

int read_parcel(const RowTable *table, const uint8_t *memory, int64_t size, int64_t count, ReceivedRow *rows) {
    if (count < 0 || (table->line_bytes && count > size / table->line_bytes)) {
        return WRONG_NUMBERS;
    }
    const uint8_t *lists = memory + count * table->line_bytes, *end = memory + size;
    for (int64_t index = 0; index < count; index++) {
        const uint8_t *line = memory + index * table->line_bytes;
        int64_t bytes = list_bytes_of(table, line, end - lists);
        if (bytes < 0) {
            return WRONG_NUMBERS;
        }
        rows[index] = (ReceivedRow){.line = line, .lists = lists};
        lists += bytes;
    }
    return lists == end ? 0 : WRONG_NUMBERS;
}

int64_t count_values(const Arrangement *task, int64_t field, int64_t *lengths) {
    const RowTable *table = task->table;
    const int64_t *starts = table->starts;
    int64_t first_column = 0, num_values = 0;
    for (int64_t before = 0; before < field; before++) {
        first_column += table->jagged[before].num_keys;
        starts += num_starts(table, before);
    }
    const JaggedField *jagged = &table->jagged[field];
    for (int64_t key = 0; key < jagged->num_keys; key++) {
        int64_t *out = lengths + key * task->num_rows;
        for (int64_t index = 0; index < task->num_real; index++) {
            int64_t row = task->order[index];
            out[index] = row < table->num_rows
                ? length_at(starts, key * table->num_rows + row)
                : length_in(table, task->received[row - table->num_rows].line, first_column + key);
            num_values += out[index];
            if (num_values > MOST_VALUES) {
                return WRONG_NUMBERS;
            }
        }
        memset(out + task->num_real, 0, (size_t)(task->num_rows - task->num_real) * sizeof(int64_t));
    }
    return num_values;
}

static void arrange_dense(const Arrangement *task, uint8_t *const *dense) {
    const RowTable *table = task->table;
    int64_t at = 0;
    for (int64_t field = 0; field < table->num_dense; field++) {
        int64_t bytes = table->dense[field].row_bytes;
        for (int64_t index = 0; index < task->num_real; index++) {
            int64_t row = task->order[index];
            const uint8_t *from = row < table->num_rows ? table->dense[field].memory + row * bytes
                                                        : task->received[row - table->num_rows].line + at;
            memcpy(dense[field] + index * bytes, from, (size_t)bytes);
        }
        memset(dense[field] + task->num_real * bytes, 0, (size_t)((task->num_rows - task->num_real) * bytes));
        at += bytes;
    }
}

/* Copy the lists of one field, row after row: so what was received is read from front to back. `next` has where each
 * key's next value goes. */
static void arrange_lists(
    const Arrangement *task, int64_t field, const int64_t *starts, const int64_t *lengths, uint8_t *const *lists,
    int64_t *next) {
    const RowTable *table = task->table;
    const JaggedField *jagged = &table->jagged[field];
    for (int64_t list = 0; list < jagged->num_lists; list++) {
        int64_t value_bytes = jagged->lists[list].value_bytes, at = 0;
        for (int64_t key = 0; key < jagged->num_keys; key++) {
            next[key] = at;
            for (int64_t index = 0; index < task->num_real; index++) {
                at += lengths[key * task->num_rows + index];
            }
        }
        for (int64_t index = 0; index < task->num_real; index++) {
            int64_t row = task->order[index];
            for (int64_t key = 0; key < jagged->num_keys; key++) {
                int64_t length = lengths[key * task->num_rows + index], bytes = length * value_bytes;
                const uint8_t *from;
                if (row < table->num_rows) {
                    from = jagged->lists[list].memory + starts[key * table->num_rows + row] * value_bytes;
                } else {
                    from = task->received[row - table->num_rows].lists;
                    task->received[row - table->num_rows].lists += bytes;
                }
                if (bytes) {
                    memcpy(lists[list] + next[key] * value_bytes, from, (size_t)bytes);
                }
                next[key] += length;
            }
        }
    }
}

int arrange_rows(const Arrangement *task, uint8_t *const *dense, int64_t *const *lengths, uint8_t *const *lists) {
    const RowTable *table = task->table;
    int64_t *next = make_array(table->num_columns, sizeof(int64_t));
    if (!next) {
        return NO_MEMORY;
    }
    arrange_dense(task, dense);
    const int64_t *starts = table->starts;
    for (int64_t field = 0; field < table->num_jagged; field++) {
        arrange_lists(task, field, starts, lengths[field], lists, next);
        starts += num_starts(table, field);
        lists += table->jagged[field].num_lists;
    }
    free(next);
    return 0;
}

/* -------------------------------------------------------------------------------------------- groups */

bool name_rows(const int64_t *rows, int64_t size, int64_t num_rows, uint8_t *seen) {
    for (int64_t index = 0; index < size; index++) {
        if (rows[index] < 0 || rows[index] >= num_rows || seen[rows[index]]) {
            return false;
        }
        seen[rows[index]] = 1;
    }
    return true;
}

uint64_t mix_numbers(uint64_t digest, const int64_t *numbers, int64_t size) {
    for (int64_t index = 0; index < size; index++) {
        digest = (digest ^ (uint64_t)numbers[index]) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 32;
    }
    return digest;
}

int64_t own_rows_in(const RowRange *own, const int64_t *rows, int64_t size, int64_t *found) {
    int64_t count = 0;
    for (int64_t index = 0; index < size; index++) {
        int64_t row = rows[index] - own->first;
        if (row >= 0 && row < own->num_real) {
            found[count++] = row;
        }
    }
    return count;
}

int64_t order_group(
    const int64_t *group, int64_t size, const int64_t *num_real, int64_t num_ranks, int64_t rank, int64_t batch_size,
    int64_t *counts, int64_t *order) {
    memset(counts, 0, (size_t)num_ranks * sizeof(int64_t));
    int64_t num_ordered = 0;
    for (int64_t index = 0; index < size; index++) {
        int64_t source = group[index] / batch_size;
        if (group[index] % batch_size < num_real[source]) {
            order[num_ordered++] = group[index];
            counts[source] += source != rank;
        }
    }
    int64_t start = batch_size; /* rows that came stand behind the own ones, rank after rank */
    for (int64_t source = 0; source < num_ranks; source++) {
        int64_t count = counts[source];
        counts[source] = start;
        start += count;
    }
    for (int64_t index = 0; index < num_ordered; index++) {
        int64_t source = order[index] / batch_size;
        order[index] = source == rank ? order[index] % batch_size : counts[source]++;
    }
    /* now each has the end of its rows: make counts of them again */
    int64_t end = batch_size;
    for (int64_t source = 0; source < num_ranks; source++) {
        int64_t count = counts[source] - end;
        end = counts[source];
        counts[source] = count;
    }
    return num_ordered;
}
