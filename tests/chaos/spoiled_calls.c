/* Loaded before the C library, it gives ranks another time of day, or a full disk, from the moment a file exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int has_begun(const char *variable) {
    const char *path = getenv(variable);
    return path != NULL && access(path, F_OK) == 0;
}

static time_t shift(void) {
    const char *seconds = getenv("CHAOS_CLOCK_SECONDS");
    return seconds != NULL && has_begun("CHAOS_CLOCK") ? (time_t)atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (real == NULL) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (result == 0) now->tv_sec += shift();
    return result;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept != NULL) *kept = now.tv_sec;
    return now.tv_sec;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    const char *folder = getenv("CHAOS_FULL_FOLDER");
    if (folder != NULL && has_begun("CHAOS_FULL")) {
        char link[64], path[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            if (strncmp(path, folder, strlen(folder)) == 0) {
                errno = ENOSPC;
                return -1;
            }
        }
    }
    return real(descriptor, bytes, count);
}
