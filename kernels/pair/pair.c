/* tare-pair +server COMMAND... +client COMMAND...
 *
 * Run a tool that is no MPI program as part of a job: its server on the host of the last rank, its
 * client on that of rank 0. `{address}` and `{port}` in their arguments become those of the server.
 * Other ranks wait without using their cores. The client's output and exit status are the job's. */
#include "common/check.h"
#include "common/clock.h"
#include "common/leave.h"
#include "pair/address.h"
#include "pair/child.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { TAG_PLACE = 1, TAG_STATUS = 2 };
static const long pause_ns = 5000000;
enum { SERVER_START_PAUSES = 12000 }; /* a minute; one that ends before is told at once */
static const double server_end_s = 5.0;

/* What the server's rank tells the client's: where it listens; port 0: it does not. */
struct place {
    int port;
    struct address address;
};

/* The two commands, each with a NULL behind its last word. */
struct commands {
    char **server;
    char **client;
};

static bool parse(int argc, char **argv, struct commands *commands)
{
    int at = 2;
    while (at < argc && strcmp(argv[at], "+client") != 0)
        at++;
    if (argc < 5 || strcmp(argv[1], "+server") != 0 || at == 2 || at >= argc - 1)
        return false;
    argv[at] = NULL;
    commands->server = argv + 2;
    commands->client = argv + at + 1;
    return true;
}

/* Return a copy of `word` with every `name` in it replaced; never freed: it is an argument of a
 * command that runs as long as this process. */
static char *replaced(const char *word, const char *name, const char *value)
{
    size_t count = 0;
    for (const char *at = strstr(word, name); at != NULL; at = strstr(at + strlen(name), name))
        count++;
    char *made = calloc(1, strlen(word) + count * strlen(value) + 1);
    if (made == NULL)
        FATAL("out of memory for an argument");
    char *end = made;
    for (const char *at = strstr(word, name); at != NULL; at = strstr(word, name)) {
        memcpy(end, word, (size_t)(at - word));
        end = stpcpy(end + (at - word), value);
        word = at + strlen(name);
    }
    strcpy(end, word);
    return made;
}

static void fill_in(char **command, const struct place *place)
{
    char port[16];
    snprintf(port, sizeof port, "%d", place->port);
    for (char **word = command; *word != NULL; word++) {
        char *with_port = replaced(*word, "{port}", port);
        *word = replaced(with_port, "{address}", place->address.text);
        free(with_port);
    }
}

/* Receive without spinning: the cores belong to the tool. */
static void receive(void *data, int bytes, int source, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    CHECK_MPI(MPI_Irecv(data, bytes, MPI_BYTE, source, tag, MPI_COMM_WORLD, &request));
    for (;;) {
        CHECK_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done)
            return;
        clock_sleep_ns(pause_ns);
    }
}

/* Start the server and wait until it listens; the port is 0 when it does not. */
static struct child start_server(char **command, struct place *place)
{
    place->address = address_own();
    place->port = address_free_port();
    fill_in(command, place);
    struct child server = child_start(command, true);
    for (int pauses = 0; !address_listened(place->port); pauses++) {
        child_poll(&server, false);
        if (server.ended || pauses == SERVER_START_PAUSES) {
            fprintf(stderr, "tare-pair: the server %s\n",
                    server.ended ? "ended before it listened" : "does not listen after 60 s");
            place->port = 0;
            break;
        }
        clock_sleep_ns(pause_ns);
    }
    return server;
}

static void serve(char **command)
{
    struct place place;
    memset(&place, 0, sizeof place); /* all of it is sent, padding too */
    int status = 0;
    struct child server = start_server(command, &place);
    CHECK_MPI(MPI_Send(&place, (int)sizeof place, MPI_BYTE, 0, TAG_PLACE, MPI_COMM_WORLD));
    receive(&status, (int)sizeof status, 0, TAG_STATUS);
    child_end(&server, status == 0 ? server_end_s : 0.0);
}

/* Run the client when the server listens; return the job's exit status. */
static int ask(char **command, int server)
{
    struct place place;
    receive(&place, (int)sizeof place, server, TAG_PLACE);
    if (place.port == 0)
        return EXIT_FAILED;
    fprintf(stderr, "tare-pair: server at %s port %d, by %s\n", place.address.text, place.port,
            place.address.interface);
    fill_in(command, &place);
    struct child client = child_start(command, false);
    child_poll(&client, true);
    if (client.status != 0)
        fprintf(stderr, "tare-pair: the client ended with status %d\n", client.status);
    return client.status;
}

int main(int argc, char **argv)
{
    struct commands commands;
    int rank = 0;
    int ranks = 0;
    int status = 0;
    if (!parse(argc, argv, &commands)) {
        fprintf(stderr, "tare-pair: it takes +server COMMAND... +client COMMAND...\n");
        return EXIT_USAGE;
    }
    CHECK_MPI(MPI_Init(NULL, NULL)); /* its words are cut into two commands already */
    CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); /* CHECK_MPI reports */
    CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    if (ranks < 2) {
        fprintf(stderr, "tare-pair: two ranks or more are needed\n");
        MPI_Finalize();
        return EXIT_USAGE;
    }
    if (rank == 0) {
        status = ask(commands.client, ranks - 1);
        for (int other = 1; other < ranks; other++)
            CHECK_MPI(
                MPI_Send(&status, (int)sizeof status, MPI_BYTE, other, TAG_STATUS, MPI_COMM_WORLD));
    } else if (rank == ranks - 1) {
        serve(commands.server);
    } else {
        receive(&status, (int)sizeof status, 0, TAG_STATUS);
        status = 0;
    }
    leave_together();
    CHECK_MPI(MPI_Finalize());
    return status;
}
