/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child of fork that asks libfabric for providers hangs or crashes if another
 * thread of its parent was inside libfabric: a lock is held, or memory half
 * changed. fault_fork PROVIDER exits with 0 if the fault is present.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

static char *provider;

/* Open and close a domain. */
static int turn(void)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = provider;
    if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) != 0 ||
        fi_fabric(info->fabric_attr, &fabric, NULL) != 0 ||
        fi_domain(fabric, info, &domain, NULL) != 0)
        return 1;
    return fi_close(&domain->fid) != 0 || fi_close(&fabric->fid) != 0;
}

static void *turn_for_ever(void *arg)
{
    while (turn() == 0)
        continue;
    return arg;
}

int main(int argc, char **argv)
{
    int i, status = 0;
    pthread_t thread;

    provider = argv[argc - 1];
    for (i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, turn_for_ever, NULL) != 0)
            return 2;
    for (i = 0; i < 1000 && status == 0; i++) {
        if (fork() == 0)
            _exit(alarm(5) != 0 || turn() != 0);
        (void) wait(&status);
    }
    printf("%s: child %d ended with status %d\n", provider, i, status);
    fflush(stdout);
    _exit(!WIFSIGNALED(status)); /* not while the threads run */
}
