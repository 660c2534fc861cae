/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address strings of static mode: RANK, or RANK:N for class N of the process
 * from 1 on.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

static void na_mpi_name(char name[NA_MAX_ADDR_LEN], int rank, unsigned number)
{
    if (number == 0)
        (void) snprintf(name, NA_MAX_ADDR_LEN, "mpi+static://%d", rank);
    else
        (void) snprintf(
            name, NA_MAX_ADDR_LEN, "mpi+static://%d:%u", rank, number);
}

/* Parse a decimal number up to `max`; NULL: there is none, or it is too
 * large. */
static const char *na_mpi_digits(
    const char *text, unsigned long max, unsigned long *value_p)
{
    char *end = NULL;

    if (text[0] < '0' || text[0] > '9')
        return NULL;
    errno = 0;
    *value_p = strtoul(text, &end, 10);
    return errno != 0 || *value_p > max ? NULL : end;
}

/* Parse the part behind "://". NA_INVALID_ARG (logged). */
static na_return_t na_mpi_parse(const struct na_mpi_class *self,
    na_bool_t from_peer, const char *rest, int *rank_p, unsigned *number_p)
{
    unsigned long rank = 0;
    unsigned long number = 0;
    const char *end = na_mpi_digits(rest, INT32_MAX, &rank);

    if (end != NULL && *end == ':')
        end = na_mpi_digits(end + 1, NA_MPI_CLASSES - 1, &number);
    if (end == NULL || *end != '\0')
        return na_plug_bad_name(&self->base, "mpi", from_peer, rest,
            "neither RANK nor RANK:N, as in mpi+static://0");
    *rank_p = (int) rank;
    *number_p = (unsigned) number;
    return NA_SUCCESS;
}
