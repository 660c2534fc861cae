/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward_listen: runs a program for one connection, on loopback only.
 *
 *     forward_listen PROGRAM
 *
 * It prints the port on which it listens, accepts one connection, and replaces
 * itself with the program, whose standard input and output are the connection.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char *argv[])
{
    struct sockaddr_in where = {0};
    socklen_t size = sizeof(where);
    const int one = 1;
    int listener, connection;

    if (argc != 2) {
        fprintf(stderr, "usage: forward_listen PROGRAM\n");
        return 2;
    }
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 ||
        bind(listener, (struct sockaddr *) &where, sizeof(where)) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *) &where, &size) != 0)
        return listen_fail("forward_listen");
    printf("%d\n", ntohs(where.sin_port));
    fflush(stdout);
    connection = accept(listener, NULL, NULL);
    if (connection < 0 ||
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) !=
            0 ||
        dup2(connection, STDIN_FILENO) < 0 ||
        dup2(connection, STDOUT_FILENO) < 0)
        return listen_fail("forward_listen");
    close(listener);
    close(connection);
    execl(argv[1], argv[1], (char *) NULL);
    return listen_fail(argv[1]);
}
