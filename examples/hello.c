/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello: the smallest server and client, in the request model.
 *
 *     hello                   calls itself, over self://
 *     hello server ADDRESS    listens, prints its address, serves until Ctrl-C
 *     hello client ADDRESS    calls the server at that address
 *
 * For example, in two terminals:
 *
 *     hello server sm://hello
 *     hello client sm://hello
 *
 * hello_serve is the function that the server executes, hello_call the call
 * that the client makes.
 */
#include <stdbool.h>
#include <string.h>

#include "hg.h"
#include "peer.h"
#include "usage.h"

static const char hello_help[] =
    "usage: hello [server ADDRESS | client ADDRESS]\n"
    "\n"
    "Calls a function of the server and prints its answer. Without arguments,\n"
    "server and client are this process.\n"
    "\n"
    "Examples:\n"
    "  hello\n"
    "  hello server sm://hello &\n"
    "  hello client sm://hello\n";

/* Input and output of the call: for each a struct, and the proc function that
 * encodes and decodes it. */
MERCURY_GEN_PROC(hello_in_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(hello_out_t, ((hg_const_string_t) (text))((uint32_t) (number)))

/* The server's side of a call. If it returns an error before it starts the
 * output, the caller gets that code and the library frees the handle. */
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
        in.name != NULL ? in.name : "stranger");
    out.text = text;
    out.number = ++calls;
    /* Encodes the output before it returns, so `text` is not needed later. */
    (void) HG_Handler_start_output(handle, &out);
    /* Frees the input with its string, too. */
    return HG_Handler_free(handle);
}

/* The library does not log failed calls; the error text has the cause. */
static void hello_report(hg_return_t ret)
{
    const char *text = HG_Get_last_error_text();

    (void) fprintf(stderr, "hello: %s\n",
        text[0] != '\0' ? text : HG_Error_to_string(ret));
}

/* The client's side of a call. The library allocates the string in `out`, and
 * frees it with the request. */
static hg_return_t hello_call(na_addr_t server, hg_id_t id, const char *name)
{
    hello_in_t in = {name};
    hello_out_t out;
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(server, id, &in, &out, &request);
    if (ret != HG_SUCCESS) {
        hello_report(ret);
        return ret;
    }
    ret = peer_wait(request);
    if (ret == HG_SUCCESS)
        printf("%s (call %u)\n", out.text != NULL ? out.text : "(nothing)",
            (unsigned) out.number);
    else
        hello_report(ret);
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

    if (usage_is_printed(argc, argv, "hello", hello_help))
        return 0;
    if (argc != 1 && !client && !server)
        return usage_error(
            "hello", "expects no arguments, server ADDRESS or client ADDRESS");
    peer_catch_signals();
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
    else if ((ret = peer_print_address(&peer)) == HG_SUCCESS)
        ret = peer_serve();
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
