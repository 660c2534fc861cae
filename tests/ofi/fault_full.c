/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After many small messages without a receive, no receive can be posted any
 * more. fault_full PROVIDER exits with 0 if the fault is present.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

static char name[512], buffer[65536];
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    hints->caps = FI_MSG | FI_MULTI_RECV;
    hints->fabric_attr->prov_name = provider;
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &(size_t){sizeof(name)});
}

int main(int argc, char **argv)
{
    struct iovec iov = {buffer, sizeof(buffer)};
    struct fi_msg recv = {.msg_iov = &iov, .iov_count = 1};
    struct fi_cq_entry entry;
    int fds[2], i = -FI_ENOMEM, rc = pipe(fds);
    time_t end = time(NULL) + 6;
    pid_t pid = fork();

    rc |= start(argv[argc - 1]);
    if (pid == 0 && (alarm(20), read(fds[0], name, sizeof(name))) > 0 &&
        fi_av_insert(av, name, 1, NULL, 0, NULL) == 1)
        while (fi_inject(ep, buffer, 100, 0) <= 0)
            (void) fi_cq_read(cq, &entry, 1);
    rc |= write(fds[1], name, sizeof(name)) < 1;
    while (rc == 0 && time(NULL) < end - 3) /* messages come */
        (void) fi_cq_read(cq, &entry, 1);
    for (; rc == 0 && i == -FI_ENOMEM && time(NULL) < end;
         (void) fi_cq_read(cq, &entry, 1))
        i = (int) fi_recvmsg(ep, &recv, FI_MULTI_RECV);
    return kill(pid, SIGKILL) || wait(NULL) != pid || rc != 0 ||
        i != -FI_ENOMEM;
}
