#include "apps/app.h"

#include <string.h>

extern const struct app app_npb_ep;
extern const struct app app_npb_is;
extern const struct app app_npb_cg;
extern const struct app app_npb_mg;
extern const struct app app_npb_ft;
extern const struct app app_npb_bt;
extern const struct app app_npb_sp;
extern const struct app app_npb_lu;
extern const struct app app_hpcg;
extern const struct app app_minife;
extern const struct app app_graph500;
extern const struct app app_kmi;
extern const struct app app_net_tcp_stream;
extern const struct app app_net_tcp_pingpong;
extern const struct app app_net_tcp_rtt;
extern const struct app app_net_udp_stream;
extern const struct app app_net_udp_rtt;
extern const struct app app_io_sequential;
extern const struct app app_io_random;
extern const struct app app_io_metadata;
extern const struct app app_attempts;

/* clang-format off */
static const struct app *const apps[] = {
    &app_npb_ep,
    &app_npb_is,
    &app_npb_cg,
    &app_npb_mg,
    &app_npb_ft,
    &app_npb_bt,
    &app_npb_sp,
    &app_npb_lu,
    &app_hpcg,
    &app_minife,
    &app_graph500,
    &app_kmi,
    &app_net_tcp_stream,
    &app_net_tcp_pingpong,
    &app_net_tcp_rtt,
    &app_net_udp_stream,
    &app_net_udp_rtt,
    &app_io_sequential,
    &app_io_random,
    &app_io_metadata,
    &app_attempts,
};
/* clang-format on */

size_t app_count(void)
{
    return sizeof apps / sizeof apps[0];
}

const struct app *app_at(size_t index)
{
    return apps[index];
}

const struct app *app_find(const char *name, size_t length)
{
    for (size_t i = 0; i < app_count(); i++)
        if (strlen(apps[i]->name) == length && strncmp(apps[i]->name, name, length) == 0)
            return apps[i];
    return NULL;
}
