/* What a process has done, apart from MPI_Init and from what started it: to be compared between
 * launches. */
#ifndef TARE_WORK_H
#define TARE_WORK_H

/* Bytes of read and write calls, on whatever file; bytes over TCP connections that are open; user
 * time of all threads; threads created. */
enum work_column {
    WORK_READ,
    WORK_WRITTEN,
    WORK_RECEIVED,
    WORK_SENT,
    WORK_USER,
    WORK_THREADS,
    WORK_COLUMNS
};

/* A value that is not known is negative. */
struct work {
    double values[WORK_COLUMNS];
};

/* Read what this process has done so far. `threads` is how many it has created. */
struct work work_so_far(unsigned threads);

/* Add to `total` what was done from one moment to another. */
void work_add(struct work *total, const struct work *from, const struct work *to);

#endif
