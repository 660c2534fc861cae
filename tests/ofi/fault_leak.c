/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An endpoint that is closed while a connection to it is being made leaves a
 * socket open. fault_leak PROVIDER exits with 0 if the fault is present.
 */
#include <fcntl.h>
#include <stdlib.h>

#include <rdma/fi_cm.h>

static char name[512];

/* Connect to this process, and close after so many polls. */
static void meet(struct fi_info *info, int polls)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cq_entry entry;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    size_t size = sizeof(name);

    if (fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &size) ||
        fi_av_insert(av, name, 1, NULL, 0, NULL) != 1)
        exit(2);
    for (fi_inject(ep, "", 1, 0); polls > 0; polls--)
        (void) fi_cq_read(cq, &entry, 1);
    if (fi_close(&ep->fid) || fi_close(&cq->fid) || fi_close(&av->fid) ||
        fi_close(&domain->fid) || fi_close(&fabric->fid))
        exit(2);
}

int main(int argc, char **argv)
{
    struct fi_info *info, *hints = fi_allocinfo();
    int polls, fd, count = 0;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = argv[argc - 1];
    if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info))
        return 2;
    for (meet(info, polls = 0); polls < 200; meet(info, polls++))
        for (fd = 0; polls == 0 && fd < 1000; fd++)
            count += fcntl(fd, F_GETFD) >= 0; /* opened once and kept */
    for (fd = 0; fd < 1000; fd++)
        count -= fcntl(fd, F_GETFD) >= 0;
    return count == 0;
}
