/* Checks linear_attention, below, against the golden fixtures.
 *
 *     cc -O2 -std=c99 check.c -o check -lm
 *     ./check [FIXTURES_DIRECTORY]
 *
 * Exit code 0: every case passed. 1: a case failed, or none ran. 2: the fixtures are damaged.
 *
 * Numbers of every dtype are held as double, which is exact for all of them; a float32 case rounds
 * whatever it computes to float. The numbers in comments are the equations of
 * math/linear_attention.md.
 */

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the end, and memory: all of it in one list, so that nothing is freed twice or forgotten */

static const char *subject = "index.sha256"; /* what is being read */

static void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "damaged fixtures: %s: ", subject);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

typedef union Block {
    union Block *next;
    double alignment;
} Block;

static Block *newest;

static void *allocate(size_t count, size_t size)
{
    Block *block = NULL;
    if (count <= (SIZE_MAX - sizeof *block) / size) block = calloc(1, sizeof *block + count * size);
    if (!block) refuse("out of memory");
    block->next = newest;
    newest = block;
    return block + 1;
}

static void release_since(Block *mark)
{
    while (newest != mark) {
        Block *block = newest;
        newest = block->next;
        free(block);
    }
}

/* --- SHA-256, as in FIPS 180-4 */

static uint32_t rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha256(const unsigned char *bytes, size_t length, char hex[65])
{
    static const uint32_t K[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2,
    };
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t blocks = (length + 8) / 64 + 1;
    for (size_t block = 0; block < blocks; block++) {
        uint32_t w[64] = {0}, x[8];
        for (size_t i = 0; i < 64; i++) {
            size_t at = block * 64 + i;
            uint32_t byte = at < length ? bytes[at] : at == length ? 0x80 : 0;
            w[i / 4] = w[i / 4] << 8 | byte;
        }
        if (block == blocks - 1) {
            w[14] = (uint32_t)((uint64_t)length >> 29);
            w[15] = (uint32_t)((uint64_t)length << 3);
        }
        for (int i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
                   (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
        }
        memcpy(x, hash, sizeof x);
        for (int i = 0; i < 64; i++) {
            uint32_t up = x[7] + K[i] + w[i] + ((x[4] & x[5]) ^ (~x[4] & x[6])) +
                          (rotated(x[4], 6) ^ rotated(x[4], 11) ^ rotated(x[4], 25));
            uint32_t down = ((x[0] & x[1]) ^ (x[0] & x[2]) ^ (x[1] & x[2])) +
                            (rotated(x[0], 2) ^ rotated(x[0], 13) ^ rotated(x[0], 22));
            memmove(x + 1, x, 7 * sizeof *x);
            x[4] += up;
            x[0] = up + down;
        }
        for (int i = 0; i < 8; i++) hash[i] += x[i];
    }
    for (int i = 0; i < 8; i++) sprintf(hex + 8 * i, "%08lx", (unsigned long)hash[i]);
}

/* --- files of the folder */

typedef struct {
    unsigned char *bytes; /* a 0 follows them */
    size_t length;
} Bytes;

static Bytes read_file(const char *folder, const char *path)
{
    char *name = allocate(strlen(folder) + strlen(path) + 2, 1);
    Bytes file = {NULL, 0};
    sprintf(name, "%s/%s", folder, path);
    FILE *stream = fopen(name, "rb");
    long end = -1;
    if (stream && fseek(stream, 0, SEEK_END) == 0) end = ftell(stream);
    if (end < 0 || end == LONG_MAX) refuse("%s: %s", name, stream ? "no file" : strerror(errno));
    rewind(stream);
    file.length = (size_t)end;
    file.bytes = allocate(file.length + 1, 1);
    if (fread(file.bytes, 1, file.length, stream) != file.length) refuse("%s: unreadable", name);
    fclose(stream);
    return file;
}

/* Paths are "manifest.json" or "cases/some-id.safetensors", so none leaves the folder. */
static Bytes read_indexed(const char *folder, const char *index, const char *path)
{
    const char *name = strncmp(path, "cases/", 6) ? path : path + 6;
    size_t stem = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    const char *suffix = name == path ? ".json" : ".safetensors";
    if (!stem || strcmp(name + stem, suffix)) refuse("%s is no path of a fixture", path);
    Bytes file = read_file(folder, path);
    char *line = allocate(strlen(path) + 69, 1);
    sha256(file.bytes, file.length, line);
    sprintf(line + 64, "  %s\n", path);
    const char *found = strstr(index, line);
    if (!found || (found != index && found[-1] != '\n')) refuse("%s: not the indexed sha256", path);
    return file;
}

/* --- JSON, strictly; strings keep their escapes, none that is compared here has any */

typedef struct Json {
    enum { IS_NULL, IS_BOOL, IS_NUMBER, IS_STRING, IS_ARRAY, IS_OBJECT } kind;
    const char *name; /* in an object */
    const char *string;
    double number;
    struct Json *first, *next;
} Json;

typedef struct {
    char *at;
    int depth;
} Reader;

static void refuse_json(const Reader *reader, const char *what)
{
    refuse("not JSON, %s at: %.20s", what, reader->at);
}

static int next_is(Reader *reader, char wanted)
{
    reader->at += strspn(reader->at, " \t\r\n");
    if (*reader->at != wanted) return 0;
    reader->at++;
    return 1;
}

static const Json *member(const Json *object, const char *name)
{
    const Json *found = object && object->kind == IS_OBJECT ? object->first : NULL;
    while (found && strcmp(found->name, name)) found = found->next;
    return found;
}

static char *read_string(Reader *reader)
{
    char *start = reader->at;
    while (*reader->at != '"') {
        if ((unsigned char)*reader->at < ' ') refuse_json(reader, "a string without end");
        char escaped = *reader->at == '\\' ? reader->at[1] : '"';
        size_t digits = escaped == 'u' ? strspn(reader->at + 2, "0123456789abcdefABCDEF") : 4;
        if (!escaped || !strchr("\"\\/bfnrtu", escaped) || digits < 4) {
            refuse_json(reader, "an unknown escape");
        }
        reader->at += *reader->at == '\\' ? 2 : 1;
    }
    *reader->at++ = 0;
    return start;
}

static double read_number(Reader *reader)
{
    static const char digits[] = "0123456789";
    char *at = reader->at + (*reader->at == '-');
    size_t whole = strspn(at, digits), fraction = 1, exponent = 1;
    int leading_zero = *at == '0' && whole > 1;
    at += whole;
    if (*at == '.') at += 1 + (fraction = strspn(at + 1, digits));
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        at += exponent = strspn(at, digits);
    }
    if (!whole || leading_zero || !fraction || !exponent) refuse_json(reader, "no value");
    double number = strtod(reader->at, NULL);
    reader->at = at;
    return number;
}

static Json *read_value(Reader *reader);

/* What stands between brackets. */
static Json *read_items(Reader *reader, int named, char end)
{
    Json *first = NULL, **link = &first;
    if (next_is(reader, end)) return NULL;
    do {
        const char *name = NULL;
        if (named) {
            if (!next_is(reader, '"')) refuse_json(reader, "no name");
            name = read_string(reader);
            for (Json *item = first; item; item = item->next) {
                if (!strcmp(item->name, name)) refuse("the name %s is used twice", name);
            }
            if (!next_is(reader, ':')) refuse_json(reader, "no colon");
        }
        *link = read_value(reader);
        (*link)->name = name;
        link = &(*link)->next;
    } while (next_is(reader, ','));
    if (!next_is(reader, end)) refuse_json(reader, "no end");
    return first;
}

static Json *read_value(Reader *reader)
{
    static const char *const words[] = {"null", "false", "true"};
    Json *value = allocate(1, sizeof *value);
    if (++reader->depth > 32) refuse_json(reader, "too deep");
    if (next_is(reader, '"')) {
        value->kind = IS_STRING;
        value->string = read_string(reader);
    } else if (next_is(reader, '[')) {
        value->kind = IS_ARRAY;
        value->first = read_items(reader, 0, ']');
    } else if (next_is(reader, '{')) {
        value->kind = IS_OBJECT;
        value->first = read_items(reader, 1, '}');
    } else {
        int word = 0;
        while (word < 3 && strncmp(reader->at, words[word], strlen(words[word]))) word++;
        value->kind = word == 0 ? IS_NULL : word < 3 ? IS_BOOL : IS_NUMBER;
        if (word < 3) reader->at += strlen(words[word]);
        else value->number = read_number(reader);
    }
    reader->depth--;
    return value;
}

static Json *read_json(char *text, size_t length)
{
    Reader reader = {text, 0};
    Json *value = read_value(&reader);
    if (next_is(&reader, 0) == 0 || reader.at != text + length + 1) refuse_json(&reader, "more");
    return value;
}

static int is_null(const Json *value) { return !value || value->kind == IS_NULL; }

static const char *string_in(const Json *object, const char *name)
{
    const Json *value = member(object, name);
    if (!value || value->kind != IS_STRING) refuse("%s is no string", name);
    return value->string;
}

static double integer(const Json *value, const char *name, double least, double most)
{
    int good = value && value->kind == IS_NUMBER && value->number == floor(value->number);
    if (!good || value->number < least || value->number > most) {
        refuse("%s is no integer from %.0f to %.0f", name, least, most);
    }
    return value->number;
}

/* --- tensors: from bytes to numbers, and generated ones from a counter to bytes */

enum { MAX_RANK = 4, MAX_SIZE = 1 << 28 };

typedef struct {
    size_t rank, shape[MAX_RANK], size;
    double *data; /* NULL: there is no such tensor */
} Tensor;

typedef enum { F64, F32, F16, BF16, I64, I32, BOOL, DTYPES } Dtype;

static const char *const DTYPE_NAMES[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "BOOL"};
static const size_t WIDTHS[] = {8, 4, 2, 2, 8, 4, 1};

static Dtype dtype_in(const Json *entry)
{
    const char *name = string_in(entry, "dtype");
    int dtype = F64;
    while (dtype < DTYPES && strcmp(name, DTYPE_NAMES[dtype])) dtype++;
    if (dtype == DTYPES) refuse("unknown dtype %s", name);
    return (Dtype)dtype;
}

static double decode(Dtype dtype, const unsigned char *bytes)
{
    size_t width = WIDTHS[dtype];
    uint64_t bits = 0, all = UINT64_MAX >> (64 - 8 * width);
    for (size_t i = width; i-- > 0;) bits = bits << 8 | bytes[i];
    uint32_t half = (uint32_t)(dtype == BF16 ? bits << 16 : bits);
    int negative = bits >> (8 * width - 1) != 0;
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double x = 0;
    float single;
    switch (dtype) {
    case F64: memcpy(&x, &bits, sizeof x); return x;
    case F32:
    case BF16: memcpy(&single, &half, sizeof single); return single;
    case F16:
        if (exponent == 31) x = fraction ? NAN : INFINITY;
        else if (exponent == 0) x = ldexp(fraction, -24);
        else x = ldexp(1024 + fraction, exponent - 25);
        return negative ? -x : x;
    case BOOL: return bits != 0;
    default: return negative ? -1 - (double)(bits ^ all) : (double)bits;
    }
}

static void encode(Dtype dtype, double x, unsigned char *bytes)
{
    uint64_t bits = 0;
    uint32_t half;
    float single = (float)x;
    int exponent;
    memcpy(&half, &single, sizeof half);
    frexp(x, &exponent);
    exponent = exponent > -13 ? exponent - 1 : -14; /* of the leading bit of a float16 */
    switch (dtype) {
    case F64: memcpy(&bits, &x, sizeof bits); break;
    case F32: bits = half; break;
    case BF16: bits = half >> 16; break;
    case F16: /* the leading bit, 1024, counts the exponent one up */
        if (x == 0) break;
        bits = ((uint64_t)(exponent + 14) << 10) + (uint64_t)ldexp(fabs(x), 10 - exponent);
        if (x < 0) bits |= 0x8000;
        break;
    default: refuse("%s cannot be generated", DTYPE_NAMES[dtype]);
    }
    for (size_t i = 0; i < WIDTHS[dtype]; i++) bytes[i] = (unsigned char)(bits >> 8 * i);
}

/* A tensor of this shape, of zeros if `filled`, else without data. */
static Tensor shaped(size_t rank, const size_t *shape, int filled)
{
    Tensor x = {rank, {0}, 1, NULL};
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] && x.size > MAX_SIZE / shape[i]) refuse("a tensor is too large");
        x.shape[i] = shape[i];
        x.size *= shape[i];
    }
    if (filled) x.data = allocate(x.size, sizeof *x.data);
    return x;
}

static Tensor described(const Json *entry)
{
    const Json *shape = member(entry, "shape");
    size_t rank = 0, lengths[MAX_RANK];
    if (!shape || shape->kind != IS_ARRAY) refuse("a tensor has no shape");
    for (const Json *length = shape->first; length; length = length->next) {
        if (rank == MAX_RANK) refuse("a tensor has more than %d axes", MAX_RANK);
        lengths[rank++] = (size_t)integer(length, "a length", 0, MAX_SIZE);
    }
    return shaped(rank, lengths, 0);
}

static Tensor decoded(const Json *entry, const unsigned char *bytes)
{
    Dtype dtype = dtype_in(entry);
    Tensor x = described(entry);
    x.data = allocate(x.size, sizeof *x.data);
    for (size_t i = 0; i < x.size; i++) x.data[i] = decode(dtype, bytes + i * WIDTHS[dtype]);
    return x;
}

static uint32_t fmix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

static Tensor generated(const Json *recipe)
{
    Dtype dtype = dtype_in(recipe);
    uint32_t start = fmix((uint32_t)integer(member(recipe, "seed"), "a seed", 0, UINT32_MAX));
    int offset = (int)integer(member(recipe, "offset"), "an offset", -255, 255);
    int exponent = (int)integer(member(recipe, "exponent"), "an exponent", -24, 7);
    size_t size = described(recipe).size, width = WIDTHS[dtype];
    unsigned char values[256][8], *bytes = allocate(size, width);
    char hash[65];
    for (int m = 0; m < 256; m++) encode(dtype, ldexp(m + offset, exponent), values[m]);
    for (size_t i = 0; i < size; i++) {
        memcpy(bytes + i * width, values[fmix((uint32_t)i + start) >> 24], width);
    }
    sha256(bytes, size * width, hash);
    if (strcmp(hash, string_in(recipe, "sha256"))) refuse("%s: another sha256", recipe->name);
    return decoded(recipe, bytes);
}

/* The tensors of a safetensors file: the header's length, the header, the bytes. */
typedef struct {
    const Json *header, *recipes;
    const unsigned char *bytes;
} Tensors;

static double offset_in(const Json *entry, int last)
{
    const Json *offsets = member(entry, "data_offsets");
    const Json *first = offsets ? offsets->first : NULL;
    return integer(last && first ? first->next : first, "an offset", 0, MAX_SIZE);
}

static Tensors read_tensors(Bytes file, const Json *recipes)
{
    uint64_t start = 0;
    double end = 0;
    for (size_t i = 8; i-- > 0 && file.length >= 8;) start = start << 8 | file.bytes[i];
    if (file.length < 8 || start > file.length - 8) refuse("truncated");
    char *text = allocate((size_t)start + 1, 1);
    memcpy(text, file.bytes + 8, (size_t)start);
    Tensors tensors = {read_json(text, (size_t)start), recipes, file.bytes + 8 + start};
    if (tensors.header->kind != IS_OBJECT) refuse("the header is no object");
    for (const Json *entry = tensors.header->first; entry; entry = entry->next) {
        size_t length = described(entry).size * WIDTHS[dtype_in(entry)];
        if (offset_in(entry, 0) != end) refuse("a gap or an overlap before %s", entry->name);
        end += (double)length;
        if (offset_in(entry, 1) != end) refuse("%s has not %zu bytes", entry->name, length);
    }
    if (end != (double)(file.length - 8 - start)) refuse("%.0f bytes are described", end);
    return tensors;
}

static Tensor tensor_named(const Tensors *tensors, const char *name)
{
    const Json *entry = member(tensors->header, name), *recipe = member(tensors->recipes, name);
    Tensor nothing = {0, {0}, 0, NULL};
    if (recipe) return generated(recipe);
    return entry ? decoded(entry, tensors->bytes + (size_t)offset_in(entry, 0)) : nothing;
}

/* --- the operator: what to replace by a call of another implementation */

typedef struct {
    int decays, delta; /* the update rule */
    int single;        /* compute in float, not in double */
    double scale;
    Tensor query, key, value, log_decay, beta, mask, segment_ids;
} Call;

static double rounded(const Call *call, double x) { return call->single ? (float)x : x; }

/* What x [B, T, H] or [B, T, H, D] holds for one token and head. */
static double *at(const Tensor *x, size_t b, size_t t, size_t h)
{
    size_t D = x->rank == 4 ? x->shape[3] : 1;
    return x->data + ((b * x->shape[1] + t) * x->shape[2] + h) * D;
}

/* One token of one state head, S [Dk, Dv]. */
static void attend(const Call *call, size_t b, size_t t, size_t h, double *S, Tensor *output)
{
    size_t Hq = call->query.shape[2], Hk = call->key.shape[2], Hv = call->value.shape[2];
    size_t Dk = call->key.shape[3], Dv = call->value.shape[3], H = output->shape[2];
    const double *k = at(&call->key, b, t, h * Hk / Hv), *v = at(&call->value, b, t, h);
    if (call->decays) {
        const double *g = at(&call->log_decay, b, t, h);
        for (size_t i = 0; i < Dk; i++) {
            double decay = rounded(call, exp(g[call->log_decay.rank == 4 ? i : 0]));
            for (size_t j = 0; j < Dv; j++) {
                S[i * Dv + j] = rounded(call, S[i * Dv + j] * decay); /* (1) */
            }
        }
    }
    for (size_t j = 0; j < Dv; j++) {
        double write = v[j]; /* (2) */
        if (call->delta) {
            double beta = *at(&call->beta, b, t, h % call->beta.shape[2]); /* of width 1: shared */
            for (size_t i = 0; i < Dk; i++) {
                write = rounded(call, write - k[i] * S[i * Dv + j]); /* (2) */
            }
            write = rounded(call, write * beta); /* (2) */
        }
        for (size_t i = 0; i < Dk; i++) {
            S[i * Dv + j] = rounded(call, S[i * Dv + j] + k[i] * write); /* (3) */
        }
    }
    for (size_t o = h * H / Hv; o < (h + 1) * H / Hv; o++) { /* the output heads that read S */
        const double *q = at(&call->query, b, t, o * Hq / H);
        double *read = at(output, b, t, o);
        for (size_t j = 0; j < Dv; j++) {
            double sum = 0;
            for (size_t i = 0; i < Dk; i++) sum = rounded(call, sum + q[i] * S[i * Dv + j]);
            read[j] = rounded(call, call->scale * sum); /* (4) */
        }
    }
}

/* Turns state [B, Hv, Dk, Dv] from the initial into the final one. Output holds zeros before. */
static void linear_attention(const Call *call, Tensor *output, Tensor *state)
{
    const double *mask = call->mask.data, *ids = call->segment_ids.data;
    size_t B = output->shape[0], T = output->shape[1], Hv = state->shape[1];
    size_t size = state->shape[2] * state->shape[3];
    for (size_t b = 0; b < B; b++) {
        for (size_t h = 0; h < Hv; h++) {
            double *S = state->data + (b * Hv + h) * size;
            for (size_t n = b * T; n < (b + 1) * T; n++) {
                int starts = ids && n > b * T && ids[n] != ids[n - 1];
                if (starts) memset(S, 0, size * sizeof *S); /* (5) */
                if (mask && !mask[n]) continue; /* not multiplied by 0: it may hold NaN */
                attend(call, b, n - b * T, h, S, output);
            }
        }
    }
}

/* --- a case: read, called once per part of its tokens, and compared */

static int has_shape(const Tensor *x, size_t rank, const size_t *shape)
{
    return x->rank == rank && !memcmp(x->shape, shape, rank * sizeof *shape);
}

/* The operator trusts shapes, so they have to fit each other. */
static int shapes_fit(const Call *call, const Tensor *state)
{
    const size_t *q = call->query.shape, *k = call->key.shape, *v = call->value.shape;
    if (call->query.rank != 4 || call->key.rank != 4 || call->value.rank != 4) return 0;
    if (k[0] != q[0] || k[1] != q[1] || k[3] != q[3] || v[0] != q[0] || v[1] != q[1]) return 0;
    if (!q[2] || !k[2] || !v[2] || v[2] % k[2] || (v[2] % q[2] && q[2] % v[2])) return 0;
    const size_t gate[] = {q[0], q[1], v[2], q[3]}, shared[] = {q[0], q[1], 1};
    const size_t states[] = {q[0], v[2], q[3], v[3]};
    const Tensor *g = &call->log_decay, *beta = &call->beta;
    if (call->decays && !has_shape(g, 3, gate) && !has_shape(g, 4, gate)) return 0;
    if (call->delta && !has_shape(beta, 3, gate) && !has_shape(beta, 3, shared)) return 0;
    if (call->mask.data && !has_shape(&call->mask, 2, q)) return 0;
    if (call->segment_ids.data && !has_shape(&call->segment_ids, 2, q)) return 0;
    return !state->data || has_shape(state, 4, states);
}

static Call read_call(const Json *entry, const Tensors *tensors, Tensor *state)
{
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    const Json *arguments = member(entry, "arguments"), *scale = member(arguments, "scale");
    const char *rule = string_in(arguments, "update_rule");
    int i = 0;
    while (i < 4 && strcmp(rule, rules[i])) i++;
    if (i == 4) refuse("unknown update_rule %s", rule);
    if (!is_null(scale) && scale->kind != IS_NUMBER) refuse("scale is no number");
    Call call = {
        .decays = i & 1,
        .delta = i >> 1,
        .single = !strcmp(string_in(entry, "dtype"), "float32"),
        .query = tensor_named(tensors, "input.query"),
        .key = tensor_named(tensors, "input.key"),
        .value = tensor_named(tensors, "input.value"),
        .log_decay = tensor_named(tensors, "input.log_decay"),
        .beta = tensor_named(tensors, "input.beta"),
        .mask = tensor_named(tensors, "input.mask"),
        .segment_ids = tensor_named(tensors, "input.segment_ids"),
    };
    const size_t *q = call.query.shape, *v = call.value.shape;
    *state = tensor_named(tensors, "input.initial_state");
    if (!shapes_fit(&call, state)) refuse("the shapes of the inputs do not fit each other");
    if (!state->data) *state = shaped(4, (size_t[]){q[0], v[2], q[3], v[3]}, 1);
    call.scale = is_null(scale) ? 1 / sqrt((double)q[3]) : scale->number;
    return call;
}

/* Copies the tokens (axis 1) of `part` to or from `whole`, where the first of them is `first`. */
static void copy_tokens(Tensor *part, const Tensor *whole, size_t first, int to_part)
{
    size_t n = part->shape[1], T = whole->shape[1];
    if (first > T || n > T - first) refuse("there are fewer than %zu tokens", first + n);
    for (size_t b = 0; b < whole->shape[0]; b++) {
        size_t width = n ? part->size / (part->shape[0] * n) : 0;
        double *inside = part->data + b * n * width;
        double *outside = whole->data + (b * T + first) * width;
        memcpy(to_part ? inside : outside, to_part ? outside : inside, n * width * sizeof *inside);
    }
}

static Tensor slice(const Tensor *x, size_t first, size_t n)
{
    if (!x->data) return *x;
    size_t shape[MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[1] = n;
    Tensor part = shaped(x->rank, shape, 1);
    copy_tokens(&part, x, first, 1);
    return part;
}

static size_t natural(const Json *value) { return (size_t)integer(value, "a token", 0, MAX_SIZE); }

static Tensor call_in_parts(const Call *call, const Json *parts, Tensor *state)
{
    const size_t *q = call->query.shape, *v = call->value.shape;
    size_t H = q[2] > v[2] ? q[2] : v[2], first = 0;
    Tensor output = shaped(4, (size_t[]){q[0], q[1], H, v[3]}, 1);
    const Json *next = is_null(parts) ? NULL : parts->first;
    do {
        size_t n = next ? natural(next) : q[1] - first;
        Call part = *call;
        Tensor *inputs[] = {&part.query, &part.key, &part.value, &part.log_decay,
                            &part.beta, &part.mask, &part.segment_ids};
        for (int i = 0; i < 7; i++) *inputs[i] = slice(inputs[i], first, n);
        Tensor read = shaped(4, (size_t[]){q[0], n, H, v[3]}, 1);
        linear_attention(&part, &read, state);
        copy_tokens(&read, &output, first, 0);
        first += n;
        next = next ? next->next : NULL;
    } while (next);
    if (first != q[1]) refuse("the parts have %zu tokens, the inputs %zu", first, q[1]);
    return output;
}

static Tensor sampled(const Tensor *output, const Json *tokens)
{
    const size_t *shape = output->shape;
    size_t n = 0;
    if (is_null(tokens)) return *output;
    for (const Json *token = tokens->first; token; token = token->next) n++;
    Tensor some = shaped(4, (size_t[]){shape[0], n, shape[2], shape[3]}, 1);
    n = 0;
    for (const Json *token = tokens->first; token; token = token->next) {
        Tensor one = slice(output, natural(token), 1);
        copy_tokens(&one, &some, n++, 0);
    }
    return some;
}

/* Whether max |x - oracle| / max |oracle| is within the tolerance; else it prints a report. */
static int agrees(const Json *entry, const Tensors *tensors, const char *result, const Tensor *x,
                  double *worst_error)
{
    const char *name = strcmp(result, "output") ? "output.final_state" : "output.output";
    const Tensor oracle_tensor = tensor_named(tensors, name), *oracle = &oracle_tensor;
    const Json *tolerance = member(member(entry, "tolerances"), result);
    double worst = 0, size = 0;
    size_t where = 0, rest = oracle->size;
    if (!tolerance || tolerance->kind != IS_NUMBER) refuse("%s has no tolerance", result);
    if (!oracle->data || !has_shape(x, oracle->rank, oracle->shape)) {
        refuse("the expected %s has another shape, or is not there", result);
    }
    for (size_t i = 0; i < x->size; i++) {
        double distance = fabs(x->data[i] - oracle->data[i]);
        if (!(distance < INFINITY)) distance = INFINITY; /* NaN is as far as it gets */
        if (distance > worst) {
            worst = distance;
            where = i;
        }
        size = fmax(size, fabs(oracle->data[i]));
    }
    double error = worst == 0 ? 0 : worst / size; /* infinite where the oracle is 0 throughout */
    *worst_error = fmax(*worst_error, error);
    if (error <= tolerance->number) return 1;
    const Json *tokens = strcmp(result, "output") ? NULL : member(entry, "tokens");
    printf("FAILED %s: %s\n  %s[", string_in(entry, "id"), string_in(entry, "summary"), result);
    for (size_t axis = 0, index = where; axis < x->rank; axis++) {
        rest /= x->shape[axis];
        size_t along = index / rest;
        index %= rest;
        if (axis == 1 && !is_null(tokens)) {
            const Json *token = tokens->first;
            while (along-- > 0) token = token->next;
            along = natural(token);
        }
        printf("%s%zu", axis ? "," : "", along);
    }
    printf("]: expected %.17g, got %.17g, error %.2e, tolerance %g\n", oracle->data[where],
           x->data[where], error, tolerance->number);
    return 0;
}

static int passes(const Json *entry, const char *folder, const char *index, double *worst_error)
{
    const char *path = string_in(entry, "file");
    Tensors tensors = read_tensors(read_indexed(folder, index, path), member(entry, "generated"));
    Tensor state;
    Call call = read_call(entry, &tensors, &state);
    Tensor output = call_in_parts(&call, member(entry, "parts"), &state);
    Tensor some = sampled(&output, member(entry, "tokens"));
    int output_agrees = agrees(entry, &tensors, "output", &some, worst_error);
    int state_agrees = agrees(entry, &tensors, "final_state", &state, worst_error);
    return output_agrees && state_agrees;
}

/* --- all cases */

/* A case with a property that this program does not know asks for something else. */
static void refuse_unknown(const Json *entry)
{
    static const char *const properties[] = {
        "id", "summary", "flags", "clause", "operator", "dtype", "arguments", "parts", "tokens",
        "file", "generated", "tolerances", "tolerance_reason", "error", NULL,
    };
    for (const Json *x = entry->first; x; x = x->next) {
        int i = 0;
        while (properties[i] && strcmp(properties[i], x->name)) i++;
        if (!properties[i]) refuse("unknown property %s", x->name);
    }
}

int main(int count, char **arguments)
{
    static const char *const dtypes[] = {"float64", "float32"};
    const char *folder = count > 1 ? arguments[1] : "../../fixtures";
    const char *index = (const char *)read_file(folder, "index.sha256").bytes;
    int passed[2] = {0}, failed[2] = {0};
    double worst[2] = {0};
    Bytes manifest = read_indexed(folder, index, "manifest.json");
    const Json *cases = member(read_json((char *)manifest.bytes, manifest.length), "cases");
    for (const Json *entry = cases ? cases->first : NULL; entry; entry = entry->next) {
        Block *mark = newest;
        int dtype = 0;
        subject = string_in(entry, "id");
        refuse_unknown(entry);
        while (dtype < 2 && strcmp(string_in(entry, "dtype"), dtypes[dtype])) dtype++;
        if (strcmp(string_in(entry, "operator"), "linear_attention")) continue;
        if (dtype == 2 || !is_null(member(entry, "error"))) continue;
        if (passes(entry, folder, index, &worst[dtype])) passed[dtype]++;
        else failed[dtype]++;
        release_since(mark);
    }
    release_since(NULL);
    printf("operator          dtype    passed  failed  worst error\n");
    for (int i = 0; i < 2; i++) {
        printf("linear_attention  %s  %6d", dtypes[i], passed[i]);
        printf("  %6d  %11.1e\n", failed[i], worst[i]);
    }
    return passed[0] + passed[1] == 0 || failed[0] + failed[1] > 0;
}
