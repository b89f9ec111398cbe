/* The steps of a pickle, looked at before anybody carries them out: a pickle is a program, and may ask for any memory. */

#include "kernels.h"

#include <string.h>

enum {
    UNKNOWN_STEP = 0,
    LINE = -1,      /* its argument ends with the line */
    TWO_LINES = -2, /* so do its two arguments */
    LENGTH_1 = -3,  /* a length of 1, 4 or 8 bytes comes first */
    LENGTH_4 = -4,
    LENGTH_8 = -5,
};

/* What follows each step: a number of bytes plus one, or one of the above. The protocols 0 to 5 have no others. */
static const int8_t ARGUMENTS[256] = {
    ['('] = 1, ['.'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, [')'] = 1, [']'] = 1, ['}'] = 1, ['a'] = 1, ['b'] = 1,
    ['d'] = 1, ['e'] = 1, ['l'] = 1, ['N'] = 1, ['o'] = 1, ['Q'] = 1, ['R'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1,
    [0x81] = 1, [0x85] = 1, [0x86] = 1, [0x87] = 1, [0x88] = 1, [0x89] = 1, [0x8f] = 1, [0x90] = 1, [0x91] = 1,
    [0x92] = 1, [0x93] = 1, [0x94] = 1, [0x97] = 1, [0x98] = 1,
    ['K'] = 2, ['h'] = 2, ['q'] = 2, [0x80] = 2, [0x82] = 2,
    ['M'] = 3, [0x83] = 3,
    ['J'] = 5, ['j'] = 5, ['r'] = 5, [0x84] = 5,
    ['G'] = 9, [0x95] = 9,
    ['F'] = LINE, ['I'] = LINE, ['L'] = LINE, ['P'] = LINE, ['S'] = LINE, ['V'] = LINE, ['g'] = LINE, ['p'] = LINE,
    ['c'] = TWO_LINES, ['i'] = TWO_LINES,
    ['C'] = LENGTH_1, ['U'] = LENGTH_1, [0x8a] = LENGTH_1, [0x8c] = LENGTH_1,
    ['B'] = LENGTH_4, ['T'] = LENGTH_4, ['X'] = LENGTH_4, [0x8b] = LENGTH_4,
    [0x8d] = LENGTH_8, [0x8e] = LENGTH_8, [0x96] = LENGTH_8,
};

static uint64_t read_low_first(const uint8_t *bytes, int width) {
    uint64_t number = 0;
    for (int index = width; index-- > 0;) {
        number = number << 8 | bytes[index];
    }
    return number;
}

/* Return the bytes of an argument, or -1 if the data ends before it does. */
static int64_t argument_bytes(const uint8_t *data, int64_t left, int kind) {
    if (kind > 0) {
        return kind - 1 <= left ? kind - 1 : -1;
    }
    if (kind == LINE || kind == TWO_LINES) {
        int64_t bytes = 0;
        for (int line = 0; line > kind; line--) {
            const uint8_t *end = memchr(data + bytes, '\n', (size_t)(left - bytes));
            if (!end) {
                return -1;
            }
            bytes = end - data + 1;
        }
        return bytes;
    }
    int width = kind == LENGTH_1 ? 1 : kind == LENGTH_4 ? 4 : 8;
    if (width > left) {
        return -1;
    }
    uint64_t length = read_low_first(data, width);
    return length <= (uint64_t)(left - width) ? width + (int64_t)length : -1;
}

/* Return the number of the place that a step fills: -1 if it fills none, `most` + 1 if no place has that number. */
static int64_t place_of(uint8_t step, const uint8_t *argument, int64_t bytes, int64_t most) {
    if (step == 'q' || step == 'r') {
        return (int64_t)read_low_first(argument, step == 'q' ? 1 : 4);
    }
    if (step != 'p') {
        return -1;
    }
    int64_t place = 0;
    for (int64_t index = 0; index < bytes - 1 && place <= most; index++) {
        if (argument[index] < '0' || argument[index] > '9') {
            return most + 1;
        }
        place = 10 * place + argument[index] - '0';
    }
    return place;
}

int64_t count_pickle_steps(const uint8_t *data, int64_t size, int64_t most_steps) {
    int64_t at = 0;
    for (int64_t num_steps = 1; num_steps <= most_steps && at < size; num_steps++) {
        uint8_t step = data[at++];
        int kind = ARGUMENTS[step];
        int64_t bytes = kind == UNKNOWN_STEP ? -1 : argument_bytes(data + at, size - at, kind);
        /* places are numbered one by one; room for all up to the highest number is made at once */
        if (bytes < 0 || place_of(step, data + at, bytes, num_steps) > num_steps) {
            return WRONG_NUMBERS;
        }
        if (step == '.') {
            return num_steps;
        }
        at += bytes;
    }
    return WRONG_NUMBERS;
}
