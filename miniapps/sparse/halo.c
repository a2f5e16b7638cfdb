#include "sparse/halo.h"

#include "common/check.h"
#include "common/clock.h"

#include <stdlib.h>

enum { TAG = 1, LEAD = 8, TAIL = 8 };

static void find_neighbours(struct halo *halo, const struct run *run, const struct box *boxes)
{
    for (int rank = 0; rank < run->ranks; rank++) {
        const struct box taken = box_overlap(&halo->own, 1, &boxes[rank]);
        if (rank != run->rank && box_points(&taken) > 0)
            halo->neighbours++;
    }
    halo->neighbour = app_allocate((size_t)halo->neighbours, sizeof halo->neighbour[0]);
    int found = 0;
    int given = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        const struct box taken = box_overlap(&halo->own, 1, &boxes[rank]);
        if (rank == run->rank || box_points(&taken) == 0)
            continue;
        const struct box share = box_overlap(&boxes[rank], 1, &halo->own);
        halo->neighbour[found++] = (struct neighbour){.rank = rank,
                                                      .taken = taken,
                                                      .taken_at = halo->points,
                                                      .taken_count = (int)box_points(&taken),
                                                      .given_at = given,
                                                      .given_count = (int)box_points(&share)};
        halo->points += (int)box_points(&taken);
        given += (int)box_points(&share);
    }
    halo->given = app_allocate((size_t)given, sizeof halo->given[0]);
    halo->outgoing = app_allocate((size_t)given, sizeof halo->outgoing[0]);
}

struct halo halo_make(const struct run *run, const struct box *boxes)
{
    struct halo halo = {.own = boxes[run->rank]};
    halo.own_points = halo.points = (int)box_points(&halo.own);
    find_neighbours(&halo, run, boxes);
    halo.requests = app_allocate((size_t)halo.neighbours, sizeof halo.requests[0]);
    for (int i = 0; i < halo.neighbours; i++) {
        const struct neighbour *neighbour = &halo.neighbour[i];
        const struct box share = box_overlap(&boxes[neighbour->rank], 1, &halo.own);
        for (int k = 0; k < neighbour->given_count; k++) {
            int point[AXES];
            box_point(&share, k, point);
            halo.given[neighbour->given_at + k] = (int32_t)box_index(&halo.own, point);
        }
    }
    return halo;
}

void halo_free(struct halo *halo)
{
    free(halo->neighbour);
    free(halo->given);
    free(halo->outgoing);
    free(halo->requests);
}

int halo_place(const struct halo *halo, const int point[AXES])
{
    if (box_has(&halo->own, point))
        return (int)box_index(&halo->own, point);
    for (int i = 0; i < halo->neighbours; i++) {
        const struct neighbour *neighbour = &halo->neighbour[i];
        if (box_has(&neighbour->taken, point))
            return neighbour->taken_at + (int)box_index(&neighbour->taken, point);
    }
    FATAL("a point beyond the halo was asked for");
}

void halo_around(const struct halo *halo, const struct box *whole, const int centre[AXES],
                 int32_t places[AROUND])
{
    const bool inside = box_surrounds(&halo->own, centre);
    const int32_t row = (int32_t)box_index(&halo->own, centre);
    const int32_t line = box_length(&halo->own, X);
    const int32_t plane = line * box_length(&halo->own, Y);
    int slot = 0;
    for (int z = -1; z <= 1; z++) {
        for (int y = -1; y <= 1; y++) {
            for (int x = -1; x <= 1; x++, slot++) {
                const int point[AXES] = {centre[X] + x, centre[Y] + y, centre[Z] + z};
                if (inside)
                    places[slot] = row + z * plane + y * line + x;
                else
                    places[slot] = box_has(whole, point) ? halo_place(halo, point) : -1;
            }
        }
    }
}

void halo_exchange(struct run *run, struct halo *halo, double *values)
{
    if (halo->neighbours == 0)
        return;
    const uint64_t begun_ns = clock_now_ns();
    for (int i = 0; i < halo->neighbours; i++) {
        const struct neighbour *from = &halo->neighbour[i];
        message_irecv(run, values + from->taken_at, from->taken_count, MPI_DOUBLE, from->rank, TAG,
                      &halo->requests[i]);
    }
    for (int i = 0; i < halo->neighbours; i++) {
        const struct neighbour *to = &halo->neighbour[i];
        const int32_t *given = halo->given + to->given_at;
        double *outgoing = halo->outgoing + to->given_at;
        for (int k = 0; k < to->given_count; k++)
            outgoing[k] = values[given[k]];
        message_send(run, outgoing, to->given_count, MPI_DOUBLE, to->rank, TAG);
    }
    message_waitall(run, halo->neighbours, halo->requests);
    halo->exchanges++;
    halo->spent_ns += clock_now_ns() - begun_ns;
}

double *vector_make(const struct halo *halo)
{
    const size_t points = (size_t)halo->points;
    return (double *)app_allocate(points + LEAD + TAIL, sizeof(double)) + LEAD;
}

void vector_free(double *vector)
{
    if (vector != NULL)
        free(vector - LEAD);
}
