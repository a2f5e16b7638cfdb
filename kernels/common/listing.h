/* --help and --list. */
#ifndef TARE_LISTING_H
#define TARE_LISTING_H

#include <stdbool.h>

/* Answer --list or --help, whichever the arguments hold first; return false when stdout takes no
 * more. */
bool listing_write(int argc, char **argv);

#endif
