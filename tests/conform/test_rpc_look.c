/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look inside, in the request model: what HG_Dump tells of what is in flight,
 * and what the functions tell that every process serves. The target is a
 * process of its own where the transport reaches one, else oneself.
 */
#define _GNU_SOURCE 1
#include "rpc.h"

static hg_id_t look_inc;
static hg_id_t look_ping;
static hg_id_t look_list;

static void rpc_register(void)
{
    look_inc = MERCURY_REGISTER("look inc", rpc_one_t, rpc_one_t, rpc_inc);
    look_ping = HG_Register(
        HG_BUILTIN_PING, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);
    look_list = HG_Register(
        HG_BUILTIN_LIST, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);
    HG_CHECK(look_ping != 0 && look_list != 0);
}

/* What HG_Dump writes of the layer; the caller frees it. */
static char *look_at(void)
{
    size_t size = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);

    HG_CHECK(stream != NULL);
    HG_CHECK_OK(HG_Dump(NULL, stream));
    HG_CHECK(fclose(stream) == 0 && text != NULL && size > 0);
    return text;
}

HG_TEST(dump_tells_of_calls)
{
    rpc_one_t in = {1};
    rpc_one_t out;
    struct rpc_end end;
    hg_request_t request;
    char *text;

    rpc_open(&end);
    request = rpc_start_call(&end, look_inc, &in, &out);
    text = look_at();
    HG_CHECK(strstr(text, "    out \"look inc\" to ") != NULL);
    HG_CHECK(strstr(text, ": waits for the answer, 0.") != NULL);
    free(text);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(out.value, 2);
    text = look_at(); /* a request that is done is not in flight */
    HG_CHECK(strstr(text, "look inc") == NULL);
    HG_CHECK(strstr(text, "  context 0: 0 calls, 0 transfers") != NULL);
    free(text);
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

HG_TEST(builtins_answer)
{
    char word[] = "word";
    hg_builtin_t question = {9, word};
    hg_request_t request;
    hg_builtin_t answer;
    struct rpc_end end;

    rpc_open(&end);
    request = rpc_start_call(&end, look_ping, &question, &answer);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_U64(answer.number, 9);
    HG_CHECK_EQ_STR(answer.text, "word");
    HG_CHECK_OK(HG_Request_free(request));
    question.number = 0;
    request = rpc_start_call(&end, look_list, &question, &answer);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK(strstr(answer.text, " look inc\n") != NULL);
    HG_CHECK_OK(HG_Request_free(request));
    hg_test_expect_log("names that begin with hg: are served");
    HG_CHECK_EQ_U64(HG_Register("hg:any", NULL, NULL, rpc_inc), 0);
    rpc_close(&end);
}

/* Calls to oneself, where nobody serves them. */
HG_TEST(builtins_can_be_switched_off)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_builtin_t question = {9, NULL};
    hg_builtin_t answer;
    struct rpc_end end;

    options.no_builtins = true;
    rpc_start(&end, &options, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    hg_test_expect_log("is not served by");
    HG_CHECK_RET(rpc_call(&end, look_ping, &question, &answer), HG_NOENTRY);
    rpc_close(&end);
}
