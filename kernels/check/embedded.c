#include "check/embedded.h"

/* ASK_MPI is the path of the second stage, given by the build. */
__asm__(".section .rodata\n"
        ".global embedded_begin\n"
        "embedded_begin:\n"
        ".incbin \"" ASK_MPI "\"\n"
        ".global embedded_end\n"
        "embedded_end:\n"
        ".byte 0\n"
        ".previous\n");
