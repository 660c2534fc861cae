/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello: a function here, its caller there.
 *
 *     hello                   both in this process, over self://
 *     hello server ADDRESS    listens, prints its address, serves till Ctrl-C
 *     hello client ADDRESS    calls the server at that address
 *
 * Three functions: what the server executes, what the client does, and main.
 */
#include <stdbool.h>
#include <string.h>

#include "hg.h"
#include "peer.h"
#include "stop.h"

/* What goes there, and what comes back: a struct and its proc each. */
MERCURY_GEN_PROC(hello_in_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(hello_out_t, ((hg_const_string_t) (text))((uint32_t) (number)))

/* The server's side of a call. An error returned before the output was
 * started goes to the caller, and the library frees the handle. */
static hg_return_t hello_serve(hg_handle_t handle)
{
    static uint32_t calls;
    hello_in_t in;
    hello_out_t out;
    char text[128];
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    (void) snprintf(text, sizeof(text), "hello, %s",
        in.name != NULL ? in.name : "whoever you are");
    out.text = text;
    out.number = ++calls;
    (void) HG_Handler_free_input(handle, &in);
    /* The output is encoded before this returns: `text` may go. */
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

/* A call that fails writes no line by default: its text names the cause. */
static void hello_tell(hg_return_t ret)
{
    const char *text = HG_Get_last_error_text();

    (void) fprintf(stderr, "hello: %s\n",
        text[0] != '\0' ? text : HG_Error_to_string(ret));
}

/* The client's side. Memory that decoding allocates for `out` lives until the
 * request is freed. */
static hg_return_t hello_call(na_addr_t server, hg_id_t id, const char *name)
{
    hello_in_t in = {name};
    hello_out_t out;
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(server, id, &in, &out, &request);
    if (ret != HG_SUCCESS) {
        hello_tell(ret);
        return ret;
    }
    ret = stop_wait(request);
    if (ret == HG_SUCCESS)
        printf("%s (call %u)\n", out.text != NULL ? out.text : "(nothing)",
            (unsigned) out.number);
    else
        hello_tell(ret);
    (void) HG_Request_free(request);
    return ret;
}

int main(int argc, char *argv[])
{
    bool client = argc == 3 && strcmp(argv[1], "client") == 0;
    bool server = argc == 3 && strcmp(argv[1], "server") == 0;
    struct peer peer;
    hg_return_t ret;
    hg_id_t id;

    if (argc != 1 && !client && !server) {
        (void) fprintf(stderr, "usage: hello [server|client ADDRESS]\n");
        return 2;
    }
    stop_on_signals();
    ret = client ? peer_connect(&peer, argv[2])
                 : peer_listen(&peer, server ? argv[2] : "self://");
    if (ret != HG_SUCCESS)
        return 1;
    id = MERCURY_REGISTER(
        "hello", hello_in_t, hello_out_t, client ? NULL : hello_serve);
    if (id == 0)
        ret = HG_OTHER_ERROR;
    else if (!server)
        ret = hello_call(peer.addr, id, "world");
    else if ((ret = peer_announce(&peer)) == HG_SUCCESS)
        ret = stop_serve();
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
