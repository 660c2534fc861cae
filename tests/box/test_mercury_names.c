/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that a Mercury program can use before it opens a class: versions
 * and protocols, and the log, configured with Mercury's words. Plain names are
 * those of version 2 here.
 */
#define HG_API_VERSION 2
#include "hg.h"

#include "harness.h"

#include <stdarg.h>

/* ---- Versions and codes ---- */

HG_TEST(mercury_version_is_the_requested_one)
{
    unsigned int major = 99, minor = 99, patch = 99;

    HG_CHECK_OK(HG_Version_get(&major, &minor, &patch));
    HG_CHECK_EQ_U64(major, HG_VERSION_MAJOR);
    HG_CHECK_EQ_U64(minor, HG_VERSION_MINOR);
    HG_CHECK_EQ_U64(patch, HG_VERSION_PATCH);
    HG_CHECK_OK(HG_Version_get(NULL, NULL, NULL));
    HG_CHECK(HG_VERSION_GE(HG_VERSION(major, minor), HG_VERSION(2, 4)));
    HG_CHECK_EQ_U64(HG_MAJOR(HG_VERSION(2, 4)), 2);
    HG_CHECK_EQ_U64(HG_MINOR(HG_VERSION(2, 4)), 4);
}

HG_TEST(mercury_names_every_code)
{
#define X(code) {code, #code},
    static const struct {
        int code;
        const char *name;
    } codes[] = {HG_RETURN_VALUES};
#undef X
    int i;

    for (i = 0; i <= HG_RETURN_MAX; i++)
        HG_CHECK_EQ_INT(codes[i].code, i);
    for (i = 0; i < HG_RETURN_MAX; i++)
        HG_CHECK_EQ_STR(HG_Error_to_string((hg_return_t) i),
            i != HG_DISCONNECT ? codes[i].name : "HG_DISCONNECT");
    HG_CHECK(HG_Error_to_string(HG_RETURN_MAX) == NULL);
    HG_CHECK(HG_Error_to_string((hg_return_t) -1) == NULL);
}

/* ---- Protocols ---- */

static const struct na_protocol_info *names_find(
    const struct na_protocol_info *list, const char *transport,
    const char *protocol)
{
    while (list != NULL &&
        (strcmp(list->class_name, transport) != 0 ||
            strcmp(list->protocol_name, protocol) != 0))
        list = list->next;
    return list;
}

HG_TEST(mercury_protocols_are_listed)
{
    struct na_protocol_info *list = NULL;
    const struct na_protocol_info *entry;

    HG_CHECK_OK(HG_Get_na_protocol_info(NULL, &list));
    entry = names_find(list, "self", "self");
    HG_CHECK(entry != NULL);
    HG_CHECK_EQ_STR(entry->device_name, "any");
    for (entry = list; entry != NULL; entry = entry->next)
        HG_CHECK(
            entry->class_name[0] != '\0' && entry->protocol_name[0] != '\0');
    HG_Free_na_protocol_info(list);
}

HG_TEST(mercury_protocols_match_the_request)
{
    struct na_protocol_info *list = NULL;

    HG_CHECK_OK(HG_Get_na_protocol_info("self", &list));
    HG_CHECK(names_find(list, "self", "self") == list && list->next == NULL);
    HG_Free_na_protocol_info(list);
    HG_CHECK_OK(HG_Get_na_protocol_info("self+self://", &list));
    HG_CHECK(names_find(list, "self", "self") == list && list->next == NULL);
    HG_Free_na_protocol_info(list);
    HG_CHECK_OK(HG_Get_na_protocol_info("other+self", &list));
    HG_CHECK(list == NULL);
    HG_CHECK_OK(HG_Get_na_protocol_info("na", &list));
    HG_CHECK(list == NULL);
    HG_CHECK_OK(HG_Get_na_protocol_info("carrier-pigeon", &list));
    HG_CHECK(list == NULL);
    HG_Free_na_protocol_info(NULL);
}

/* The log line names the file that has the transport. */
HG_TEST(mercury_protocols_that_are_missing_name_their_file)
{
    static const char *const ofi[] = {"ofi+tcp", "ofi+tcp://127.0.0.1:1",
        "ofi+verbs://", "ofi+sockets://127.0.0.1:0", "tcp;ofi_rxm://",
        "ofi+tcp;ofi_rxm://127.0.0.1:0", "verbs;ofi_rxm://mlx5_0", "verbs://",
        "cxi://", "psm3://", "ucx+all://", "bmi+tcp://", "psm2+psm2://"};
    static const char *const mpi[] = {"mpi+static", "mpi+dynamic://", "static"};
    const char *by_ofi =
        "; if you have hg_na_ofi.c, add it and compile hg.c with "
        "-DHG_NA_OFI=1";
    const char *by_mpi =
        "; if you have hg_na_mpi.c, add it and compile hg.c with "
        "-DHG_NA_MPI=1";
    size_t count = sizeof(ofi) / sizeof(ofi[0]);
    struct na_protocol_info *list = NULL;
    size_t i;

    HG_CHECK_OK(HG_Get_na_protocol_info("ofi+shm", &list));
    if (list != NULL) /* that file is here */
        count = 0;
    HG_Free_na_protocol_info(list);
    if (count > 0)
        hg_test_expect_log(by_ofi);
    hg_test_expect_log(by_mpi);
    for (i = 0; i < count; i++)
        HG_CHECK(HG_Init(ofi[i], HG_TRUE) == NULL);
    hg_test_expect_log("no transport here speaks ofi+carrier-pigeon; here: ");
    HG_CHECK(HG_Init("ofi+carrier-pigeon://", HG_TRUE) == NULL);
    HG_CHECK_EQ_U64(hg_test_log_count(by_ofi), count > 0 ? count + 1 : 0);
    for (i = 0; i < sizeof(mpi) / sizeof(mpi[0]); i++)
        HG_CHECK(HG_Init(mpi[i], HG_TRUE) == NULL);
    HG_CHECK_EQ_U64(hg_test_log_count(by_mpi), i);
    hg_test_expect_log("no transport here speaks carrier+pigeon; here: ");
    HG_CHECK(HG_Init("carrier+pigeon://", HG_TRUE) == NULL);
}

HG_TEST(mercury_protocols_of_shared_memory)
{
    struct na_protocol_info *list = NULL;

    HG_CHECK_OK(HG_Get_na_protocol_info("na+sm", &list));
    HG_CHECK(names_find(list, "na", "sm") == list && list->next == NULL);
    HG_CHECK_EQ_STR(list->device_name, "shm");
    HG_Free_na_protocol_info(list);
}

HG_TEST(mercury_protocols_refuse_bad_strings)
{
    struct na_protocol_info *list = NULL;

    hg_test_expect_log("");
    HG_CHECK_RET(HG_Get_na_protocol_info("+://", &list), HG_INVALID_ARG);
    HG_CHECK(list == NULL);
    HG_CHECK_RET(HG_Get_na_protocol_info(NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(hg_test_log_count(""), 2);
}

HG_TEST(mercury_protocols_without_memory)
{
    struct na_protocol_info *list = NULL;
    unsigned n = 0;

    hg_test_alloc_install();
    hg_test_allow_log("no memory for a list of protocols");
    do {
        hg_test_alloc_fail_at(++n);
    } while (HG_Get_na_protocol_info(NULL, &list) == HG_NOMEM &&
        hg_test_alloc_live() == 0);
    hg_test_alloc_fail_at(0);
    HG_CHECK(n > 1 && list != NULL);
    HG_Free_na_protocol_info(list);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST(mercury_cleanup_can_be_called)
{
    HG_Cleanup();
}

/* ---- The log ---- */

static char names_lines[2048];
static FILE *names_stream;

static int names_print(FILE *stream, const char *format, ...)
{
    size_t used = strlen(names_lines);
    va_list args;
    int n;

    names_stream = stream;
    va_start(args, format);
    n = vsnprintf(names_lines + used, sizeof(names_lines) - used, format, args);
    va_end(args);
    return n;
}

/* One error each of the subsystems cls and proc. */
static const char *names_make_errors(void)
{
    names_lines[0] = '\0';
    HG_CHECK_RET(HG_Get_na_protocol_info(NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_flush(HG_PROC_NULL), HG_INVALID_ARG);
    return names_lines;
}

#define NAMES_CLS \
    "hg: error: cls: HG_Get_na_protocol_info: the pointer for the list is " \
    "NULL\n"
#define NAMES_PROC "hg: error: proc: the proc is NULL\n"

HG_TEST(mercury_log_goes_to_the_chosen_stream)
{
    HG_Set_log_func(names_print);
    HG_CHECK_EQ_STR(names_make_errors(), NAMES_CLS NAMES_PROC);
    HG_CHECK(names_stream == stderr);
    HG_Set_log_stream("ERROR", stdout);
    HG_CHECK_EQ_STR(names_make_errors(), NAMES_CLS NAMES_PROC);
    HG_CHECK(names_stream == stdout);
    HG_Set_log_stream("warning", stderr);
    (void) names_make_errors();
    HG_CHECK(names_stream == stdout);
    HG_Set_log_stream("err", NULL);
    (void) names_make_errors();
    HG_CHECK(names_stream == stderr);
}

HG_TEST(mercury_log_prints_to_a_stream)
{
    FILE *stream = tmpfile();
    char line[256] = "";

    HG_CHECK(stream != NULL);
    HG_Set_log_stream("debug", stderr);
    HG_Set_log_stream("warning", stderr);
    HG_Set_log_stream("error", stream);
    (void) names_make_errors();
    rewind(stream);
    HG_CHECK(fgets(line, sizeof(line), stream) == line);
    HG_CHECK_EQ_STR(line, NAMES_CLS);
    HG_CHECK(fgets(line, sizeof(line), stream) == line);
    HG_CHECK_EQ_STR(line, NAMES_PROC);
    HG_Set_log_stream("error", NULL);
    HG_CHECK(fclose(stream) == 0);
}

HG_TEST(mercury_log_refuses_streams_without_a_level)
{
    HG_Set_log_func(names_print);
    names_lines[0] = '\0';
    HG_Set_log_stream("none", stdout);
    HG_Set_log_stream(NULL, stdout);
    HG_Set_log_stream("loud", stdout);
    HG_CHECK_EQ_STR(names_lines,
        "hg: error: log: HG_Set_log_stream: no level \"none\" has a stream\n"
        "hg: error: log: HG_Set_log_stream: no level \"(null)\" has a stream\n"
        "hg: error: log: HG_Set_log_stream: no level \"loud\" has a stream\n");
    HG_CHECK(names_stream == stderr);
}

HG_TEST(mercury_log_accepts_level_aliases)
{
    static const char *const words[] = {"Error", "err", "warn", "min_debug",
        "trace", "INFO", "inf", "debug", "dbg", "fatal", "ftl", "warning"};
    size_t i;

    HG_Set_log_func(names_print);
    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        HG_Set_log_level("none");
        HG_CHECK_EQ_STR(names_make_errors(), "");
        HG_Set_log_level(words[i]);
        HG_CHECK_EQ_STR(names_make_errors(), NAMES_CLS NAMES_PROC);
    }
    names_lines[0] = '\0';
    HG_Set_log_level("loud");
    HG_CHECK_EQ_STR(
        names_lines, "hg: error: log: HG_Set_log_level: no level \"loud\"\n");
    HG_CHECK_EQ_STR(names_make_errors(), NAMES_CLS NAMES_PROC);
    HG_Set_log_level(NULL);
    HG_CHECK_EQ_STR(names_make_errors(), "");
}

HG_TEST(mercury_log_accepts_subsystem_aliases)
{
    static const struct {
        const char *list;
        const char *lines;
    } cases[] = {{"hg", NAMES_CLS NAMES_PROC}, {"", NAMES_CLS NAMES_PROC},
        {"proc", NAMES_PROC}, {"cls,perf", NAMES_CLS},
        {"cls,hg", NAMES_CLS NAMES_PROC}, {"hg,na,~proc", NAMES_CLS},
        {"~cls", NAMES_PROC}, {"poll_loop", NAMES_CLS NAMES_PROC}, {"rpc", ""},
        {" proc , ,", NAMES_PROC}, {"~hg", NAMES_CLS NAMES_PROC},
        {"~hg,proc", NAMES_PROC}};
    size_t i;

    HG_Set_log_func(names_print);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HG_Set_log_subsys(cases[i].list);
        HG_CHECK_EQ_STR(names_make_errors(), cases[i].lines);
    }
    HG_Set_log_subsys(NULL);
    HG_CHECK_EQ_STR(names_make_errors(), NAMES_CLS NAMES_PROC);
}

HG_TEST(mercury_log_refuses_a_list_that_is_too_long)
{
    char list[600];
    size_t i;

    HG_Set_log_func(names_print);
    HG_Set_log_subsys("proc");
    for (i = 0; i + 4 < sizeof(list); i += 4)
        memcpy(list + i, "cls,", 4);
    list[i] = '\0';
    names_lines[0] = '\0';
    HG_Set_log_subsys(list);
    HG_CHECK_EQ_STR(names_lines, "");
    HG_CHECK_EQ_STR(names_make_errors(), NAMES_PROC);
    HG_Set_log_subsys("log");
    names_lines[0] = '\0';
    HG_Set_log_subsys(list);
    HG_CHECK_EQ_STR(names_lines,
        "hg: error: log: HG_Set_log_subsys: longer than 255 characters\n");
}
