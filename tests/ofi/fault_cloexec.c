/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric opens descriptors without FD_CLOEXEC: an executed program inherits
 * them. fault_cloexec PROVIDER exits with 0 if the fault is present.
 */
#include <fcntl.h>
#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define FDS 256

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {0};
    struct fi_cq_attr cq_attr = {0};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = provider;
    cq_attr.format = FI_CQ_FORMAT_DATA;
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) == 0 &&
        fi_fabric(info->fabric_attr, &fabric, NULL) == 0 &&
        fi_domain(fabric, info, &domain, NULL) == 0 &&
        fi_av_open(domain, &av_attr, &av, NULL) == 0 &&
        fi_cq_open(domain, &cq_attr, &cq, NULL) == 0 &&
        fi_endpoint(domain, info, &ep, NULL) == 0 &&
        fi_ep_bind(ep, &av->fid, 0) == 0 &&
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0 &&
        fi_enable(ep) == 0;
}

int main(int argc, char **argv)
{
    int fd, before[FDS], found = 0;

    for (fd = 0; fd < FDS; fd++)
        before[fd] = fcntl(fd, F_GETFD);
    if (argc != 2 || !start(argv[1]))
        return 2;
    for (fd = 0; fd < FDS; fd++)
        found += before[fd] < 0 && fcntl(fd, F_GETFD) == 0;
    printf("%s: %d descriptors are inherited\n", argv[1], found);
    return found == 0;
}
