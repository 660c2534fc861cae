/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libhg.so, looks a host name up, and unloads the library while a thread
 * of it waits for the name server: `unload LIBRARY ADDRESS`. The thread returns
 * into the library later. This program has its own getaddrinfo, which is silent
 * until then.
 */
#define _GNU_SOURCE 1
#include <hg.h>

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asking, answered;

/* Called by the library: the program is linked with -rdynamic. */
int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
        struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    if (node == NULL || strcmp(node, "silent") != 0 ||
        (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0)) {
        memcpy(&real, &symbol, sizeof(real));
        return real(node, service, hints, res);
    }
    (void) pthread_mutex_lock(&lock);
    asking = 1;
    (void) pthread_cond_broadcast(&changed);
    while (!answered)
        (void) pthread_cond_wait(&changed, &lock);
    (void) pthread_mutex_unlock(&lock);
    return EAI_FAIL;
}

static void *library;

/* Set a pointer to a function of the library. */
static void find(const char *name, void *function_p)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL) {
        (void) fprintf(stderr, "unload: %s\n", dlerror());
        exit(1);
    }
    memcpy(function_p, &symbol, sizeof(symbol));
}

static void must(const char *what, int good)
{
    if (good)
        return;
    (void) fprintf(stderr, "unload: %s fails\n", what);
    exit(1);
}

/* Use the library: a lookup is under way when its class is closed. */
static void use(const char *address)
{
    na_class_t *(*open)(const char *, na_bool_t);
    na_context_t *(*create)(na_class_t *);
    na_return_t (*look_up)(na_class_t *, na_context_t *, na_cb_t, void *,
        const char *, na_op_id_t *);
    na_return_t (*destroy)(na_class_t *, na_context_t *);
    na_return_t (*finalize)(na_class_t *);
    na_context_t *context;
    na_class_t *na_class;
    char name[256];

    find("NA_Initialize", &open);
    find("NA_Context_create", &create);
    find("NA_Addr_lookup", &look_up);
    find("NA_Context_destroy", &destroy);
    find("NA_Finalize", &finalize);
    na_class = open(address, NA_TRUE);
    must("NA_Initialize", na_class != NULL);
    context = create(na_class);
    (void) snprintf(name, sizeof(name), "%.*ssilent:1",
        (int) (strstr(address, "://") + 3 - address), address);
    must("NA_Addr_lookup",
        look_up(na_class, context, NULL, NULL, name, NA_OP_ID_IGNORE) == 0);
    (void) pthread_mutex_lock(&lock);
    while (!asking)
        (void) pthread_cond_wait(&changed, &lock);
    (void) pthread_mutex_unlock(&lock);
    must("NA_Context_destroy", destroy(na_class, context) == 0);
    must("NA_Finalize", finalize(na_class) == 0);
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    must("opendir", tasks != NULL);
    while ((entry = readdir(tasks)) != NULL)
        n += entry->d_name[0] != '.';
    (void) closedir(tasks);
    return n;
}

int main(int argc, char **argv)
{
    int before;

    must("the command line", argc == 3);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    must("dlopen", library != NULL);
    before = count_threads();
    use(argv[2]);
    must("dlclose", dlclose(library) == 0);
    must("the thread", count_threads() > before);
    (void) pthread_mutex_lock(&lock);
    answered = 1;
    (void) pthread_cond_broadcast(&changed);
    (void) pthread_mutex_unlock(&lock);
    while (count_threads() > before)
        (void) sched_yield();
    return 0;
}
