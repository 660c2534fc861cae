/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send to a process that was stopped while it polled spins for a lock in
 * shared memory. fault_stopped PROVIDER exits with 0 if the fault is present.
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static char name[512], buf[64];
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static pid_t pid;

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    hints->fabric_attr->prov_name = provider;
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &(struct fi_av_attr){0}, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep);
}

static void end(int number)
{
    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, NULL, 0);
    _exit(number != SIGPROF);
}

int main(int argc, char **argv)
{
    const struct itimerval ms_300 = {.it_value = {.tv_usec = 300000}};
    int ends[2], rc = pipe(ends);
    pid = fork();
    rc = rc || start(argv[argc - 1]);
    if (pid == 0) {
        rc = rc || fi_getname(&ep->fid, name, &(size_t){sizeof(name)}) ||
            write(ends[1], name, sizeof(name)) < 0 || alarm(100);
        while (rc == 0 && fi_recv(ep, buf, sizeof(buf), NULL, 0, NULL) < 1)
            (void) fi_cq_read(cq, buf, 1);
    }
    rc = rc || read(ends[0], name, sizeof(name)) < 1 ||
        fi_av_insert(av, name, 1, NULL, 0, NULL) != 1;
    (void) signal(SIGPROF, end); /* after 300 ms of processor time */
    while (rc == 0) {
        rc = kill(pid, SIGSTOP) || waitpid(pid, NULL, WUNTRACED) != pid ||
            setitimer(ITIMER_PROF, &ms_300, NULL);
        (void) fi_inject(ep, buf, 8, 0);
        rc = rc || kill(pid, SIGCONT);
    }
    end(0);
}
