#include "check/loader.h"

#include "check/child.h"
#include "check/files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LISTING_SIZE = 65536,
    LISTING_LIMIT_S = 20,
    MOST_MISSING = 8,
    NAME_SIZE = 80,
    SHOWN = 200,
};

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

static const struct child_text no_answers = {NULL, 0};

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool is_program(const char *path)
{
    return is_file(path) && access(path, X_OK) == 0;
}

bool loader_find(const char *name, char path[LOADER_PATH_SIZE])
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        snprintf(path, LOADER_PATH_SIZE, "%s", name);
        return is_program(path);
    }
    if (folders == NULL)
        folders = "/usr/local/bin:/usr/bin:/bin";
    while (*folders != '\0') {
        const size_t length = strcspn(folders, ":");
        snprintf(path, LOADER_PATH_SIZE, "%.*s/%s", length > 0 ? (int)length : 1,
                 length > 0 ? folders : ".", name);
        if (is_program(path))
            return true;
        folders += length + (folders[length] == ':');
    }
    snprintf(path, LOADER_PATH_SIZE, "%s", name);
    return false;
}

/* Return what the file is: "elf", "script", "other" machine or "unreadable"; fill the interpreter.
 */
static const char *read_header(const char *path, char interpreter[LOADER_PATH_SIZE])
{
    Elf64_Ehdr header;
    const char *kind = "elf";
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    interpreter[0] = '\0';
    if (file < 0)
        return "unreadable";
    const ssize_t got = pread(file, &header, sizeof header, 0);
    if (got >= 2 && memcmp(&header, "#!", 2) == 0)
        kind = "script";
    else if (got < (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        kind = "unreadable";
    else if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
             (MACHINE != EM_NONE && header.e_machine != MACHINE))
        kind = "foreign";
    for (unsigned i = 0; strcmp(kind, "elf") == 0 && i < header.e_phnum; i++) {
        Elf64_Phdr part;
        const off_t place = (off_t)(header.e_phoff + (uint64_t)i * header.e_phentsize);
        if (pread(file, &part, sizeof part, place) != (ssize_t)sizeof part)
            break;
        if (part.p_type != PT_INTERP || part.p_filesz >= LOADER_PATH_SIZE)
            continue;
        const ssize_t length = pread(file, interpreter, part.p_filesz, (off_t)part.p_offset);
        interpreter[length > 0 ? length : 0] = '\0';
    }
    close(file);
    return kind;
}

/* The end of a text: a line of facts has no room for more of it, and names stand at the end. */
static const char *short_text(const char *text)
{
    const size_t length = strlen(text);
    return text + (length > SHOWN ? length - SHOWN : 0);
}

/* Loaders end at the first library that they do not find: `... loading shared libraries: NAME: ...`
 * of the GNU C library, `Error loading shared library NAME: ...` of musl. An older library than the
 * program's is one with `version `NAME' not found`. Return how many names were put. */
static int put_first_missing(struct json *line, const char *row)
{
    static const char *const starts[] = {"loading shared libraries: ", "loading shared library "};
    const char *version = strstr(row, "version `");
    if (version != NULL && strstr(version, "' not found") != NULL) {
        char text[NAME_SIZE];
        version += strlen("version `");
        snprintf(text, sizeof text, "version %.*s", (int)strcspn(version, "'"), version);
        json_string(line, text);
        return 1;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        const char *found = strstr(row, starts[i]);
        char name[NAME_SIZE];
        if (found == NULL)
            continue;
        found += strlen(starts[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(found, ":"), found);
        json_string(line, name);
        return 1;
    }
    return 0;
}

/* Whether a library is an MPI for C: Open MPI, MPICH and those of its ABI, Cray's by compiler. */
static bool is_mpi(const char *name)
{
    static const char *const starts[] = {"libmpi.so",     "libmpich.so",     "libmpi_cray.so",
                                         "libmpi_gnu_",   "libmpi_intel.so", "libmpi_nvidia.so",
                                         "libmpi_amd.so", "libmpi_aocc.so"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

/* Read a line of the loader's listing: `NAME => PATH (ADDRESS)`, or `NAME => not found`. What the
 * kernel gives has no path, and a path may be relative and may have blanks. */
static void read_listing(struct json *line, char *listing, struct loader *found)
{
    int left = MOST_MISSING;
    json_key(line, "missing");
    json_open(line, '[');
    for (char *rest = NULL, *row = strtok_r(listing, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        char *arrow = strstr(row, " => ");
        if (arrow == NULL) {
            left -= left > 0 ? put_first_missing(line, row) : 0;
            continue;
        }
        row += strspn(row, " \t");
        *arrow = '\0';
        char *path = arrow + 4, *address = strstr(path, " (0x");
        if (address != NULL)
            *address = '\0';
        if (strncmp(path, "not found", 9) == 0 && left-- > 0)
            json_string(line, short_text(row));
        else if (address != NULL && is_mpi(row) && found->mpi[0] == '\0')
            snprintf(found->mpi, sizeof found->mpi, "%s", path);
    }
    json_close(line, ']');
}

/* Take the path behind a word at the beginning of a line. */
static void take_path(const char *output, const char *word, char path[LOADER_PATH_SIZE])
{
    const char *answer = strstr(output, word);
    if (answer != NULL) {
        answer += strlen(word);
        snprintf(path, LOADER_PATH_SIZE, "%.*s", (int)strcspn(answer, "\n"), answer);
    }
}

/* Let Python say which library its mpi4py has loaded, without MPI_Init; what is called python may
 * be a script that chooses one. */
static void ask_python(const char *python, struct loader *found)
{
    static char output[LISTING_SIZE];
    static char program[] = "import sys\n"
                            "print('\\n@python ' + sys.executable)\n"
                            "import mpi4py\n"
                            "mpi4py.rc.initialize = False\n"
                            "from mpi4py import MPI\n"
                            "for line in open('/proc/self/maps'):\n"
                            "    if 'libmpi' in line:\n"
                            "        print('\\n@mpi ' + line.split()[-1])\n"
                            "        break\n";
    char *const argv[] = {(char *)(uintptr_t)python, (char *)(uintptr_t) "-c", program, NULL};
    char executable[LOADER_PATH_SIZE] = "";
    child_run(argv, LISTING_LIMIT_S, (struct child_text){output, sizeof output}, no_answers);
    take_path(output, "\n@mpi ", found->mpi);
    take_path(output, "\n@python ", executable);
    if (executable[0] == '/')
        read_header(executable, found->interpreter);
}

/* A script's interpreter stands in its first line, by itself or behind env. */
static bool read_script(const char *path, char program[LOADER_PATH_SIZE])
{
    char text[LOADER_PATH_SIZE], first[LOADER_PATH_SIZE] = "", second[LOADER_PATH_SIZE] = "";
    if (!files_line(path, text, sizeof text) || sscanf(text, "#! %511s %511s", first, second) < 1)
        return false;
    const char *slash = strrchr(first, '/');
    return loader_find(slash != NULL && strcmp(slash, "/env") == 0 ? second : first, program);
}

static bool is_python(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash == NULL ? path : slash + 1, "python", 6) == 0;
}

struct loader loader_look(struct json *line, const char *program)
{
    struct loader found = {{0}, {0}};
    char path[LOADER_PATH_SIZE];
    static char listing[LISTING_SIZE];
    const bool exists = loader_find(program, path);
    const char *kind = exists          ? read_header(path, found.interpreter)
                       : is_file(path) ? "forbidden"
                                       : "none";
    char runs[LOADER_PATH_SIZE];
    snprintf(runs, sizeof runs, "%s", path);
    if (strcmp(kind, "script") == 0 && read_script(path, runs))
        read_header(runs, found.interpreter);
    json_key(line, "program");
    json_open(line, '{');
    json_put_string(line, "path", short_text(path));
    json_put_string(line, "kind", kind);
    if (found.interpreter[0] != '\0') {
        char *const argv[] = {found.interpreter, (char *)(uintptr_t) "--list", runs, NULL};
        const struct child_end end = child_run(
            argv, LISTING_LIMIT_S, (struct child_text){listing, sizeof listing}, no_answers);
        if (end.started)
            read_listing(line, listing, &found);
        else
            json_put_string(line, "loader", strerror(end.number));
    }
    if (found.mpi[0] == '\0' && (is_python(runs) || is_python(path)))
        ask_python(is_python(runs) ? runs : path, &found);
    json_put_string(line, "mpi", short_text(found.mpi));
    json_close(line, '}');
    return found;
}
