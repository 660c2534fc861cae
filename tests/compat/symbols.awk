# SPDX-License-Identifier: BSD-3-Clause
# Turns tests/compat/symbols into a file in C, also valid as C++. The file
# compiles only if each name listed there is as in Mercury:
#     awk -f tests/compat/symbols.awk tests/compat/symbols > symbols.c

function rest(from,    i, text) {
    for (i = from; i <= NF; i++)
        text = text (i > from ? " " : "") $i
    return text
}

function stop(why) {
    print FILENAME ":" FNR ": " why | "cat 1>&2"
    exit status = 1
}

/^#/ || NF == 0 { next }

!($1 in included) {
    included[$1] = 1
    headers = headers "#include <" $1 ">\n"
}

# The first (*) becomes the pointer's name.
$2 == "function" {
    type = rest(4)
    at = index(type, "(*)")
    if (at == 0)
        stop("not the type of a pointer to a function")
    body = body "extern " substr(type, 1, at + 1) "const symbols_f" NR \
        substr(type, at + 2) ";\n" substr(type, 1, at + 1) \
        "const symbols_f" NR substr(type, at + 2) " = " $3 ";\n"
    next
}

$2 == "type" {
    body = body "extern " rest(3) (/\*$/ ? "" : " ") "symbols_t" NR ";\n" \
        rest(3) (/\*$/ ? "" : " ") "symbols_t" NR ";\n"
    next
}

# Has the type of the entry before, and follows it.
$2 == "member" {
    owner = $3 " " $4
    body = body "static inline " rest(6) (/\*$/ ? "" : " ") "*symbols_m" NR \
        "(" owner " *object)\n{\n    return &object->" $5 ";\n}\n"
    if (owner == last)
        body = body "typedef char symbols_o" NR "[offsetof(" owner ", " $5 \
            ") > offsetof(" owner ", " field ") ? 1 : -1];\n"
    last = owner
    field = $5
    next
}

$2 == "constant" && NF == 4 {
    body = body "typedef char symbols_c" NR "[(" $3 ") == (" $4 \
        ") ? 1 : -1];\n"
    next
}

$2 == "macro" {
    body = body "extern int symbols_e" NR ";\nint symbols_e" NR \
        " = sizeof(" rest(4) ") > 0;\n"
    next
}

$2 == "statement" {
    body = body "hg_return_t symbols_s" NR "(hg_proc_t proc, void *data);\n" \
        "hg_return_t symbols_s" NR "(hg_proc_t proc, void *data)\n{\n" \
        "    hg_return_t ret = HG_SUCCESS;\n    if (data == NULL)\n" \
        "        goto done;\n    (void) proc;\n    " rest(4) "\ndone:\n" \
        "    return ret;\n}\n"
    next
}

$2 == "declaration" {
    # The list of codes is an X macro.
    x = $3 == "HG_RETURN_VALUES"
    body = body (x ? "#define X(code) #code,\n" : "") rest(4) \
        (x ? "\n#undef X\n" : "\n")
    next
}

{ stop("what is this?") }

END {
    if (status != 0)
        exit status
    printf "%s#ifdef __cplusplus\nextern \"C\" {\n#endif\n%s" \
        "#ifdef __cplusplus\n}\n#endif\n", headers, body
}
