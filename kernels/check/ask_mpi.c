/* The second stage of the check: open an MPI by its path, without its mpi.h, and ask it.
 *
 * It is started by the program's own loader in each rank, so that it has the program's libraries.
 * Each answer is a line `"key":value` in a file of its own, written at once: of an MPI that hangs
 * or aborts, what came before is known. It is linked against libc alone. A handle is an int in one
 * ABI and a pointer in the other; both are passed in the same register, so `uintptr_t` is either.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Images have older C libraries than the machine that compiled this: nothing newer than glibc 2.17
 * is asked for. There, dlopen is in a library of its own, and what starts a program has another
 * version. */
#if defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5\n"
        ".symver dlsym,dlsym@GLIBC_2.2.5\n"
        ".symver dlerror,dlerror@GLIBC_2.2.5\n"
        ".global _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov (%rsp), %edi\n"
        "    lea 8(%rsp), %rsi\n"
        "    and $-16, %rsp\n"
        "    call begin\n"
        "    hlt\n");
#elif defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17\n"
        ".symver dlsym,dlsym@GLIBC_2.17\n"
        ".symver dlerror,dlerror@GLIBC_2.17\n"
        ".global _start\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    ldr w0, [sp]\n"
        "    add x1, sp, #8\n"
        "    bl begin\n"
        "    brk #0\n");
#else
#error "the second stage of the check starts on x86-64 and AArch64 only"
#endif
_Noreturn void begin(int argc, char **argv);

typedef uintptr_t handle;

enum {
    UNDEFINED = -32766, /* in both ABIs */
    VERSION_SIZE = 8192,
    LINE_SIZE = 1024,
    SHOWN = 200,
    MOST_INTERFACES = 32,
    NAME_SIZE = 16,
    SMALL = 8,
    LARGE = 1 << 20,
    LONGEST = 2000,
    FEWEST = 10,
    TRIES = 10,
    TAG = 7,
    SMALLEST_PART = 10,
};
static const double PAIR_S = 0.2;

struct mpi {
    int (*init)(int *, char ***);
    int (*finalize)(void);
    int (*rank)(handle, int *);
    int (*size)(handle, int *);
    int (*version)(char *, int *);
    int (*split_type)(handle, int, int, handle, handle *);
    int (*allgather)(const void *, int, handle, void *, int, handle, handle);
    int (*allreduce)(const void *, void *, int, handle, handle, handle);
    int (*barrier)(handle);
    int (*send)(const void *, int, handle, int, int, handle);
    int (*recv)(void *, int, handle, int, int, handle, void *);
    handle world, byte, number, sum, no_info;
    int shared;
    void *no_status;
};

struct interface {
    char name[NAME_SIZE + 1];
    double bytes;
};

struct interfaces {
    struct interface each[MOST_INTERFACES];
    int count;
};

struct pair {
    int with;
    bool first;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Where answers go: libraries write to both outputs what they like. */
static FILE *answers;

/* Answers are text of libraries: only what JSON takes as it is. */
static void answer_text(const char *key, const char *text)
{
    fprintf(answers, "\"%s\":\"", key);
    for (int i = 0; i < SHOWN && text[i] != '\0' && text[i] != '\n'; i++)
        fputc(text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' ? ' ' : text[i],
              answers);
    fputs("\"\n", answers);
    fflush(answers);
}

static void answer_number(const char *key, double value)
{
    fprintf(answers, "\"%s\":%.9g\n", key, value);
    fflush(answers);
}

/* A function pointer cannot be converted from an object's by the standard; POSIX says how. */
static bool look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        char text[SHOWN];
        snprintf(text, sizeof text, "it has no %s", name);
        answer_text("error", text);
        return false;
    }
    memcpy(function, &found, sizeof found);
    return true;
}

static handle symbol(void *library, const char *name)
{
    return (handle)dlsym(library, name);
}

/* The handles as in the mpi.h of each family: pointers to symbols, or the numbers of MPICH's ABI.
 */
static void set_handles(void *library, struct mpi *mpi)
{
    if (dlsym(library, "ompi_mpi_comm_world") != NULL) {
        mpi->world = symbol(library, "ompi_mpi_comm_world");
        mpi->byte = symbol(library, "ompi_mpi_byte");
        mpi->number = symbol(library, "ompi_mpi_double");
        mpi->sum = symbol(library, "ompi_mpi_op_sum");
        mpi->no_info = symbol(library, "ompi_mpi_info_null");
        mpi->shared = 0;
        mpi->no_status = NULL;
        return;
    }
    mpi->world = 0x44000000;
    mpi->byte = 0x4c00010d;
    mpi->number = 0x4c00080b;
    mpi->sum = 0x58000003;
    mpi->no_info = 0x1c000000;
    mpi->shared = 1;
    mpi->no_status = (void *)1;
}

static bool open_mpi(const char *path, struct mpi *mpi)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        const char *reason = dlerror();
        answer_text("error", reason == NULL ? "it cannot be opened" : reason);
        return false;
    }
    set_handles(library, mpi);
    return look_up(library, "MPI_Init", &mpi->init) &&
           look_up(library, "MPI_Finalize", &mpi->finalize) &&
           look_up(library, "MPI_Comm_rank", &mpi->rank) &&
           look_up(library, "MPI_Comm_size", &mpi->size) &&
           look_up(library, "MPI_Get_library_version", &mpi->version) &&
           look_up(library, "MPI_Comm_split_type", &mpi->split_type) &&
           look_up(library, "MPI_Allgather", &mpi->allgather) &&
           look_up(library, "MPI_Allreduce", &mpi->allreduce) &&
           look_up(library, "MPI_Barrier", &mpi->barrier) &&
           look_up(library, "MPI_Send", &mpi->send) && look_up(library, "MPI_Recv", &mpi->recv);
}

/* Bytes received and sent, by interface of this network namespace. */
static struct interfaces traffic(void)
{
    struct interfaces found = {.count = 0};
    char line[LINE_SIZE];
    FILE *file = fopen("/proc/net/dev", "re");
    while (file != NULL && found.count < MOST_INTERFACES &&
           fgets(line, sizeof line, file) != NULL) {
        struct interface *each = &found.each[found.count];
        double in = 0.0, out = 0.0;
        if (sscanf(line, " %16[^:]: %lf %*f %*f %*f %*f %*f %*f %*f %lf", each->name, &in, &out) !=
            3)
            continue;
        each->bytes = in + out;
        found.count++;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Send `bytes` there and back; return half of a round trip in seconds. Both sides do as many. */
static double half_round_trip_s(const struct mpi *mpi, const struct pair *pair, char *buffer,
                                int bytes, int times)
{
    const double began = now_s();
    for (int i = 0; i < times; i++) {
        if (pair->first) {
            mpi->send(buffer, bytes, mpi->byte, pair->with, TAG, mpi->world);
            mpi->recv(buffer, bytes, mpi->byte, pair->with, TAG, mpi->world, mpi->no_status);
        } else {
            mpi->recv(buffer, bytes, mpi->byte, pair->with, TAG, mpi->world, mpi->no_status);
            mpi->send(buffer, bytes, mpi->byte, pair->with, TAG, mpi->world);
        }
    }
    return (now_s() - began) / (2.0 * times);
}

/* The first of the two says how often, from what a few took. */
static double timed_us(const struct mpi *mpi, const struct pair *pair, char *buffer, int bytes)
{
    const double each_s = half_round_trip_s(mpi, pair, buffer, bytes, TRIES);
    int times = (int)(PAIR_S / (2.0 * each_s + 1e-9));
    times = times < FEWEST ? FEWEST : times > LONGEST ? LONGEST : times;
    if (pair->first)
        mpi->send(&times, (int)sizeof times, mpi->byte, pair->with, TAG, mpi->world);
    else
        mpi->recv(&times, (int)sizeof times, mpi->byte, pair->with, TAG, mpi->world,
                  mpi->no_status);
    return 1e6 * half_round_trip_s(mpi, pair, buffer, bytes, times);
}

/* Of interfaces that carried less than a part of what was sent, nothing is told. */
static void answer_traffic(const struct interfaces *before, const struct interfaces *after)
{
    const char *comma = "";
    fprintf(answers, "\"bytes\":{");
    for (int i = 0; i < after->count; i++)
        for (int j = 0; j < before->count; j++)
            if (strcmp(after->each[i].name, before->each[j].name) == 0 &&
                after->each[i].bytes - before->each[j].bytes >
                    2.0 * FEWEST * LARGE / SMALLEST_PART) {
                fprintf(answers, "%s\"%s\":%.0f", comma, after->each[i].name,
                        after->each[i].bytes - before->each[j].bytes);
                comma = ",";
            }
    fprintf(answers, "}");
}

/* Measure with the other of a pair, and say by which interfaces the large messages went. */
static void ask_pair(const struct mpi *mpi, const char *key, const struct pair *pair)
{
    char *buffer = calloc(1, LARGE);
    if (buffer == NULL) {
        answer_text("error", "out of memory");
        exit(EXIT_FAILURE);
    }
    const double small_us = timed_us(mpi, pair, buffer, SMALL);
    const double large_us = timed_us(mpi, pair, buffer, LARGE);
    const struct interfaces before = traffic();
    half_round_trip_s(mpi, pair, buffer, LARGE, FEWEST);
    const struct interfaces after = traffic();
    fprintf(answers,
            "\"%s\":{\"with\":%d,\"small_us\":%.9g,\"large_us\":%.9g,\"large_bytes\":%d,\"sent_"
            "bytes\":%d,",
            key, pair->with, small_us, large_us, LARGE, 2 * FEWEST * LARGE);
    answer_traffic(&before, &after);
    fprintf(answers, "}\n");
    fflush(answers);
    free(buffer);
}

/* Return a number for this machine: containers of one machine have the same. */
static uint64_t machine(void)
{
    char text[LINE_SIZE] = "";
    uint64_t hash = UINT64_C(14695981039346656037);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL && fgets(text, sizeof text, file) == NULL)
        text[0] = '\0';
    if (file != NULL)
        fclose(file);
    for (const char *each = text; *each != '\0'; each++)
        hash = (hash ^ (uint64_t)(unsigned char)*each) * UINT64_C(1099511628211);
    return hash;
}

/* The first two ranks of a machine measure within it, the first ranks of the first two machines
 * between them. */
static void ask_pairs(const struct mpi *mpi, int rank, int size)
{
    uint64_t own = machine(), *all = calloc((size_t)size, sizeof *all);
    int here[2] = {-1, -1}, ranks_here = 0, first_far = -1;
    if (all == NULL)
        return;
    mpi->allgather(&own, (int)sizeof own, mpi->byte, all, (int)sizeof own, mpi->byte, mpi->world);
    for (int i = 0; i < size; i++) {
        if (all[i] == own && ranks_here < 2)
            here[ranks_here] = i;
        ranks_here += all[i] == own;
        if (first_far < 0 && all[i] != all[0])
            first_far = i;
    }
    answer_number("ranks_here", ranks_here);
    if (ranks_here > 1 && (rank == here[0] || rank == here[1])) {
        const struct pair pair = {rank == here[0] ? here[1] : here[0], rank == here[0]};
        ask_pair(mpi, "near", &pair);
    }
    mpi->barrier(mpi->world);
    if (first_far >= 0 && (rank == 0 || rank == first_far)) {
        const struct pair pair = {rank == 0 ? first_far : 0, rank == 0};
        ask_pair(mpi, "far", &pair);
    }
    mpi->barrier(mpi->world);
    free(all);
}

static void ask_all(const struct mpi *mpi, int size)
{
    const double one = 1.0;
    double sum = 0.0;
    const double began = now_s();
    mpi->allreduce(&one, &sum, 1, mpi->number, mpi->sum, mpi->world);
    answer_number("allreduce_us", 1e6 * (now_s() - began));
    if (sum < size || sum > size)
        answer_text("error", "an allreduce of ones is not the number of ranks");
}

static int ask(int argc, char **argv)
{
    struct mpi mpi;
    char version[VERSION_SIZE] = "";
    int rank = 0, size = 0, length = 0, shares = 0;
    handle node = 0;
    const char *file = getenv("TARE_CHECK_ANSWERS");
    answers = file == NULL ? stdout : fdopen(atoi(file), "w");
    if (argc != 2 || answers == NULL || !open_mpi(argv[1], &mpi))
        return EXIT_FAILURE;
    mpi.version(version, &length);
    answer_text("library", version);
    const double began = now_s();
    if (mpi.init(&argc, &argv) != 0) {
        answer_text("error", "MPI_Init returns an error");
        return EXIT_FAILURE;
    }
    answer_number("init_s", now_s() - began);
    mpi.rank(mpi.world, &rank);
    mpi.size(mpi.world, &size);
    answer_number("rank", rank);
    answer_number("size", size);
    mpi.split_type(mpi.world, mpi.shared, rank, mpi.no_info, &node);
    mpi.size(node, &shares);
    answer_number("shares", shares);
    ask_pairs(&mpi, rank, size);
    ask_all(&mpi, size);
    mpi.finalize();
    answer_number("done", 1);
    return EXIT_SUCCESS;
}

/* Called by _start: the loader has initialised the C library already. */
_Noreturn void begin(int argc, char **argv)
{
    exit(ask(argc, argv));
}
