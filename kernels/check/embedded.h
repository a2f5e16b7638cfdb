/* The second stage, which is part of this program: its bytes are linked in by the assembler. */
#ifndef TARE_CHECK_EMBEDDED_H
#define TARE_CHECK_EMBEDDED_H

extern const char embedded_begin[], embedded_end[];

#endif
