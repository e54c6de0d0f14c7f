/* Stands in for NVIDIA's driver, libcuda: a GPU in software. Numba, cuda.core and neglm run on it unchanged.
 *
 * Device memory is host memory, filled with ones (floats are NaN), and ends at a page that cannot be accessed. A launch
 * runs the kernel's PTX, translated to C (translate.py): its threads take turns, and switch at barriers only.
 *
 *   SOFTWARE_GPU_TRANSLATE   the command that translates a file with PTX, and prints the path of a library
 *   SOFTWARE_GPU_TRANSLATED  a directory of links from PTX to its library, because the command takes a tenth of a second
 *   SOFTWARE_GPU_ORDER       of threads and blocks: "forward" (default), "backward", or a seed
 *   SOFTWARE_GPU_STREAMS     "eager" (default); "late": work runs only when the host, or other work, waits for it;
 *                            "late work": the same, but copies to the GPU run at once if their stream is empty
 *   SOFTWARE_GPU_COUNTS      a file to which each launch adds a line: kernel, threads, and executed instructions,
 *                            fused multiply-adds, and accesses to memory
 *   SOFTWARE_GPUS            how many there are; 1 by default
 *   SOFTWARE_GPU_PROCESSORS  how many multiprocessors each has; 4 by default. Each runs two blocks at a time
 *   SOFTWARE_GPU_SHARED      KB of shared memory that a block can have if its kernel asks for it; 96 by default
 *   SOFTWARE_GPU_FAULT       a file that says what is wrong with the driver or the GPU; see `is`
 */
#define _GNU_SOURCE
#include "thread.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201, TOO_MANY_RESOURCES = 701,
  LAUNCH_FAILED = 719, TOO_LARGE_GRID = 720, NOT_READY = 600, NOT_SUPPORTED = 801, MISMATCH = 803, CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_ISOLATION = 905, CAPTURE_IMPLICIT = 906, UNKNOWN = 999
};
enum {
  THREADS_PER_BLOCK = 1, SHARED_PER_BLOCK = 8, WARP_SIZE = 10, PROCESSORS = 16, THREADS_PER_PROCESSOR = 39, MAJOR = 75,
  MINOR = 76, SHARED_OPTIN = 97
};
enum { MAX_DYNAMIC_SHARED = 8 }; /* attribute of a kernel */
enum { MOST_THREADS = 1024, SHARED_BYTES = 48 << 10, OPTIN_KB = 96, BLOCKS_PER_PROCESSOR = 2 };
enum { EVENT_WITHOUT_TIME = 2, CLOCK_RATE = 13, KILOHERTZ = 1000000 };
enum { SMALL = 256, STACK = 64 << 10, STACK_END = 0xC0FFEE, MOST_PARAMETERS = 512 };

static int is(const char *fault) {
  static char text[64];
  if (!text[0]) {
    const char *path = getenv("SOFTWARE_GPU_FAULT");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
      if (!fgets(text, sizeof text, file))
        text[0] = 0;
      fclose(file);
    }
  }
  return !strcmp(text, fault);
}
static void fail(const char *what, const char *name) {
  fprintf(stderr, "software GPU: %s: %s\n", what, name);
  abort();
}

/* --- memory -------------------------------------------------------------------------------------------- */

struct allocation {
  uint8_t *start, *mapped;
  size_t size, mapped_size;
  struct allocation *next;
};
static struct allocation *device_memory, *pinned_memory;

static void *allocate(struct allocation **list, size_t size) {
  size_t page = sysconf(_SC_PAGESIZE), used = (size + 15) / 16 * 16;
  size_t mapped_size = (used + page - 1) / page * page + page;
  uint8_t *mapped = mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return NULL;
  mprotect(mapped + mapped_size - page, page, PROT_NONE);
  struct allocation *made = malloc(sizeof *made);
  *made = (struct allocation){mapped + mapped_size - page - used, mapped, size, mapped_size, *list};
  memset(made->start, 0xFF, used);
  *list = made;
  return made->start;
}
static void release(struct allocation **list, void *start) {
  for (; *list; list = &(*list)->next)
    if ((*list)->start == start) {
      struct allocation *found = *list;
      *list = found->next;
      munmap(found->mapped, found->mapped_size);
      free(found);
      return;
    }
}
static int is_pinned(const void *address) {
  for (struct allocation *each = pinned_memory; each; each = each->next)
    if ((uint8_t *)address >= each->start && (uint8_t *)address < each->start + each->size)
      return 1;
  return 0;
}

/* --- threads: each has a stack if its kernel has barriers ------------------------------------------------ */

/* A stack is used again by the threads of later blocks: to enter one takes two system calls, to jump to it none. */
enum state { READY, AT_BARRIER, AT_GRID_BARRIER, DONE };
struct fiber {
  struct thread thread;
  enum state state;
  uint8_t *stack;
  int entered;
  jmp_buf at;
};
static jmp_buf scheduler;
static struct fiber *running;
static void (*running_kernel)(struct thread *);

static void stop(enum state state) {
  struct fiber *self = running;
  self->state = state;
  if (!_setjmp(self->at))
    _longjmp(scheduler, 1);
}
static void barrier(struct thread *thread) { stop(AT_BARRIER); }
static void grid_barrier(struct thread *thread) { stop(AT_GRID_BARRIER); }
static void run_threads(void) {
  for (;;) {
    running_kernel(&running->thread);
    stop(DONE);
  }
}
static void resume(struct fiber *fiber) {
  running = fiber;
  if (_setjmp(scheduler))
    return;
  if (fiber->entered)
    _longjmp(fiber->at, 1);
  fiber->entered = 1;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber->stack;
  context.uc_stack.ss_size = STACK;
  makecontext(&context, run_threads, 0);
  setcontext(&context);
}

/* Return fibers, each with a stack that ends at a known number. */
static struct fiber *get_fibers(size_t count, const char *name) {
  static struct fiber *fibers;
  static size_t existing;
  if (existing < count) {
    fibers = realloc(fibers, count * sizeof *fibers);
    size_t size = (count - existing) * STACK;
    uint8_t *stacks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
      fail("no memory for the stacks of all threads", name);
    for (; existing < count; existing++, stacks += STACK) {
      fibers[existing].stack = stacks, fibers[existing].entered = 0;
      *(uint64_t *)stacks = STACK_END;
    }
  }
  return fibers;
}

static uint64_t random_bits(void) {
  static uint64_t x;
  if (!x) {
    const char *seed = getenv("SOFTWARE_GPU_ORDER");
    x = 0x9E3779B97F4A7C15u * (1 + (seed ? strtoull(seed, NULL, 10) : 0));
  }
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return x;
}
static void fill_order(int *order, int count) {
  const char *kind = getenv("SOFTWARE_GPU_ORDER");
  for (int i = 0; i < count; i++)
    order[i] = kind && !strcmp(kind, "backward") ? count - 1 - i : i;
  if (kind && kind[0] >= '0' && kind[0] <= '9')
    for (int i = count - 1; i > 0; i--) {
      int j = random_bits() % (i + 1), kept = order[i];
      order[i] = order[j], order[j] = kept;
    }
}

/* --- kernels -------------------------------------------------------------------------------------------- */

struct module {
  const struct kernel *kernel;
  char *name;
  uint32_t asked; /* bytes of dynamic shared memory: see cuKernelSetAttribute */
};
struct launch {
  struct module *module;
  uint32_t grid[3], block[3], shared;
  int cooperative;
  void *arguments[MOST_PARAMETERS];
  uint8_t values[8 * MOST_PARAMETERS];
};

static void place(struct thread *thread, const struct launch *launch, int block, int index, uint8_t *shared, uint64_t *counts) {
  memset(thread, 0, sizeof *thread);
  for (int i = 0; i < 3; i++) {
    thread->ntid[i] = launch->block[i], thread->nctaid[i] = launch->grid[i];
    thread->tid[i] = index % launch->block[i], index /= launch->block[i];
    thread->ctaid[i] = block % launch->grid[i], block /= launch->grid[i];
  }
  thread->dynamic_bytes = launch->shared;
  thread->shared = shared;
  thread->arguments = (void **)launch->arguments;
  thread->counts = counts;
  thread->barrier = barrier;
  thread->grid_barrier = grid_barrier;
}

/* Run one block as far as possible. Return 1 if any thread ran. */
static int run_block(struct fiber *fibers, int threads, int *order, const char *name) {
  int ran = 0;
  for (;;) {
    int waiting = 0, done = 0;
    fill_order(order, threads);
    for (int i = 0; i < threads; i++) {
      struct fiber *fiber = &fibers[order[i]];
      if (fiber->state == READY)
        resume(fiber), ran = 1;
      waiting += fiber->state == AT_BARRIER, done += fiber->state == DONE;
    }
    if (!waiting)
      return ran;
    if (waiting < threads)
      fail(done ? "a thread exits before a barrier that others wait at" : "threads wait at different barriers", name);
    for (int i = 0; i < threads; i++)
      fibers[i].state = READY;
  }
}

static void run_fibers(const struct launch *launch, const int *blocks, int count, uint64_t *counts) {
  const struct kernel *kernel = launch->module->kernel;
  int threads = launch->block[0] * launch->block[1] * launch->block[2];
  size_t total = (size_t)count * threads, bytes = kernel->static_bytes + launch->shared;
  struct allocation *memory = NULL;
  struct fiber *fibers = get_fibers(total, launch->module->name);
  int *order = malloc(sizeof(int) * (threads > count ? threads : count)), *turns = malloc(sizeof(int) * count);
  for (int b = 0; b < count; b++) {
    uint8_t *shared = allocate(&memory, bytes);
    for (int i = 0; i < threads; i++) {
      struct fiber *fiber = &fibers[(size_t)b * threads + i];
      place(&fiber->thread, launch, blocks[b], i, shared, counts);
      fiber->state = READY;
    }
  }
  running_kernel = kernel->run;
  for (;;) {
    int ran = 0;
    size_t done = 0, at_grid = 0;
    fill_order(turns, count);
    for (int b = 0; b < count; b++)
      ran |= run_block(fibers + (size_t)turns[b] * threads, threads, order, launch->module->name);
    for (size_t i = 0; i < total; i++)
      done += fibers[i].state == DONE, at_grid += fibers[i].state == AT_GRID_BARRIER;
    if (done == total)
      break;
    if (at_grid == total)
      for (size_t i = 0; i < total; i++)
        fibers[i].state = READY;
    else if (!ran)
      fail("not all threads of the grid reach a barrier", launch->module->name);
  }
  for (size_t i = 0; i < total; i++)
    if (*(uint64_t *)fibers[i].stack != STACK_END)
      fail("a stack is too small", launch->module->name);
  while (memory)
    release(&memory, memory->start);
  free(order), free(turns);
}

static void run(const struct launch *launch) {
  const struct kernel *kernel = launch->module->kernel;
  int threads = launch->block[0] * launch->block[1] * launch->block[2];
  int blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
  int *turns = malloc(sizeof(int) * blocks);
  uint64_t counts[4] = {0};
  struct timespec begun, ended;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  fill_order(turns, blocks);
  if (launch->cooperative)
    run_fibers(launch, turns, blocks, counts);
  else if (kernel->synchronizes)
    for (int b = 0; b < blocks; b++)
      run_fibers(launch, turns + b, 1, counts);
  else {
    struct allocation *memory = NULL;
    uint8_t *shared = allocate(&memory, kernel->static_bytes + launch->shared);
    int *order = malloc(sizeof(int) * threads);
    for (int b = 0; b < blocks; b++) {
      fill_order(order, threads);
      for (int i = 0; i < threads; i++) {
        struct thread thread;
        place(&thread, launch, turns[b], order[i], shared, counts);
        kernel->run(&thread);
      }
    }
    release(&memory, shared);
    free(order);
  }
  free(turns);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  const char *path = getenv("SOFTWARE_GPU_COUNTS");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (file) {
    double seconds = ended.tv_sec - begun.tv_sec + 1e-9 * (ended.tv_nsec - begun.tv_nsec);
    fprintf(file, "%s %lld %llu %llu %llu %.6f\n", launch->module->name, (long long)threads * blocks,
            (unsigned long long)counts[0], (unsigned long long)counts[1], (unsigned long long)counts[2], seconds);
    fclose(file);
  }
}

/* --- streams -------------------------------------------------------------------------------------------- */

struct stream;
struct work {
  enum { COPY, LAUNCH, WAIT, CALL } kind;
  void *to;
  const void *from;
  size_t size;
  void *staged; /* what `from` had, if it is not page-locked */
  struct launch *launch;
  void (*call)(void *); /* a function of the host, and its argument */
  void *data;
  struct stream *other;
  uint64_t position; /* of the other stream */
  struct work *next;
};
struct graph {
  struct work *first, *last;
};
struct stream {
  struct work *first, *last;
  uint64_t queued, done;
  struct graph *capture; /* takes the work, while it is captured */
  int invalid;           /* a call was not allowed during the capture */
  struct stream *next;
};
struct event {
  struct stream *stream;
  uint64_t position;
  int captured, timed;
  double *seconds; /* when the stream came to it; the event may have been destroyed before */
};
static struct stream *streams;

static void run_to(struct stream *stream, uint64_t position) {
  while (stream->done < position && stream->first) {
    struct work *work = stream->first;
    stream->first = work->next;
    if (!stream->first)
      stream->last = NULL;
    stream->done++;
    if (work->kind == COPY)
      memcpy(work->to, work->staged ? work->staged : work->from, work->size);
    else if (work->kind == LAUNCH)
      run(work->launch);
    else if (work->kind == CALL)
      work->call(work->data);
    else
      run_to(work->other, work->position);
    free(work->staged), free(work->launch), free(work);
  }
}
static void synchronize(void) {
  for (struct stream *each = streams; each; each = each->next)
    run_to(each, each->queued);
}
static struct stream *make_stream(void) {
  struct stream *made = calloc(1, sizeof *made);
  made->next = streams;
  return streams = made;
}
static struct stream *of(void *handle) {
  static struct stream *standard;
  if (handle && (uintptr_t)handle > 2)
    return handle;
  synchronize(); /* the default stream waits for all others, and they for it */
  return standard ? standard : (standard = make_stream());
}
static int is_late(const char *how) {
  const char *streams = getenv("SOFTWARE_GPU_STREAMS");
  return streams && !strcmp(streams, how);
}
static void append(struct work **first, struct work **last, struct work work) {
  struct work *made = malloc(sizeof *made);
  *made = work;
  made->next = NULL;
  *(*first ? &(*last)->next : first) = made;
  *last = made;
}
static void put(void *handle, struct work work) {
  struct stream *stream = of(handle);
  if (stream->capture) {
    append(&stream->capture->first, &stream->capture->last, work);
    return;
  }
  int was_empty = !stream->first;
  append(&stream->first, &stream->last, work);
  stream->queued++;
  int at_once = is_late("late work") && work.kind == COPY && was_empty;
  if ((!is_late("late") && !is_late("late work")) || at_once || !handle || (uintptr_t)handle <= 2)
    run_to(stream, stream->queued);
}

/* Return an error, and invalidate the capture, if a call on this stream is not allowed: it waits for captured work, or
 * is on the default stream, which would wait for that of all others. */
static int breaks_capture(void *handle, int waits) {
  if (handle && (uintptr_t)handle > 2) {
    struct stream *stream = handle;
    if (!stream->capture || !waits)
      return OK;
    stream->invalid = 1;
    return CAPTURE_UNSUPPORTED;
  }
  int status = OK;
  for (struct stream *each = streams; each; each = each->next)
    if (each->capture)
      each->invalid = 1, status = CAPTURE_IMPLICIT;
  return status;
}

/* --- the driver's functions ----------------------------------------------------------------------------- */

static uintptr_t handles = 0x1000;
static void *handle(void) { return (void *)(handles += 16); }
static void *primary = (void *)0xC0DE;
static __thread void *contexts[64];
static __thread int depth;

static int cuInit(unsigned flags) {
  return is("no device") ? NO_DEVICE : is("mismatch") ? MISMATCH : is("no start") ? UNKNOWN : OK;
}
static int cuDriverGetVersion(int *version) { return *version = is("old driver") ? 12040 : 13000, OK; }
static int gpus(void) {
  const char *count = getenv("SOFTWARE_GPUS");
  return is("no GPUs") ? 0 : count ? atoi(count) : 1;
}
static uint64_t multiprocessors(void) {
  const char *count = getenv("SOFTWARE_GPU_PROCESSORS");
  return count ? atoi(count) : 4;
}
static int cuDeviceGetCount(int *count) { return *count = gpus(), OK; }
static int cuDeviceGet(int *device, int number) { return *device = number, OK; }
static int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, "software GPU"), OK; }
static int cuDeviceGetUuid(char *uuid, int device) { return memset(uuid, 7 + device, 16), OK; }
static int cuDeviceTotalMem(size_t *size, int device) { return *size = 4ul << 30, OK; }
static int optin_bytes(void) {
  const char *kilobytes = getenv("SOFTWARE_GPU_SHARED");
  return (kilobytes ? atoi(kilobytes) : OPTIN_KB) << 10;
}
static int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
  case THREADS_PER_BLOCK: *value = MOST_THREADS; break;
  case SHARED_PER_BLOCK: *value = SHARED_BYTES; break;
  case SHARED_OPTIN: *value = optin_bytes(); break;
  case WARP_SIZE: *value = 32; break;
  case CLOCK_RATE: *value = KILOHERTZ; break;
  case PROCESSORS: *value = multiprocessors(); break;
  case THREADS_PER_PROCESSOR: *value = 2 * MOST_THREADS; break;
  case MAJOR: *value = is("old GPU") ? 6 : 8; break;
  case MINOR: *value = 0; break;
  default: *value = 1;
  }
  return OK;
}

static int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (char *)primary + device, OK; }
static int cuCtxGetCurrent(void **context) { return *context = depth ? contexts[depth - 1] : NULL, OK; }
static int cuCtxPushCurrent(void *context) { return contexts[depth++] = context, OK; }
static int cuCtxPopCurrent(void **context) {
  if (!depth)
    return INVALID_CONTEXT;
  depth--;
  if (context)
    *context = contexts[depth];
  return OK;
}
static int cuCtxSetCurrent(void *context) {
  if (depth)
    depth--;
  return context ? cuCtxPushCurrent(context) : OK;
}
static int cuCtxGetDevice(int *device) {
  return depth ? (*device = (int)((char *)contexts[depth - 1] - (char *)primary), OK) : INVALID_CONTEXT;
}
static int cuStreamGetCtx(void *stream, void **context) { return *context = depth ? contexts[depth - 1] : primary, OK; }
static int cuCtxSynchronize(void) { return synchronize(), OK; }

static int cuMemGetInfo(size_t *free, size_t *total) { return *free = *total = 4ul << 30, OK; }
static int cuMemAlloc(uint64_t *address, size_t size) {
  if (!depth)
    return INVALID_CONTEXT;
  if (is("no memory") || (is("little memory") && size > SMALL))
    return OUT_OF_MEMORY;
  *address = (uint64_t)allocate(&device_memory, size);
  return *address ? OK : OUT_OF_MEMORY;
}
static int cuMemFree(uint64_t address) { return synchronize(), release(&device_memory, (void *)address), OK; }
static int cuMemHostAlloc(void **address, size_t size, unsigned flags) {
  return *address = allocate(&pinned_memory, size), *address ? OK : OUT_OF_MEMORY;
}
static int cuMemFreeHost(void *address) { return synchronize(), release(&pinned_memory, address), OK; }
static int cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t size, void *stream) {
  int status = breaks_capture(stream, !is_pinned(from));
  if (status)
    return status;
  struct work work = {.kind = COPY, .to = (void *)to, .from = from, .size = size};
  if (!is_pinned(from))
    work.staged = memcpy(malloc(size ? size : 1), from, size);
  return put(stream, work), OK;
}
static int cuMemcpyDtoHAsync(void *to, uint64_t from, size_t size, void *stream) {
  int status = breaks_capture(stream, !is_pinned(to));
  if (status)
    return status;
  put(stream, (struct work){.kind = COPY, .to = to, .from = (void *)from, .size = size});
  if (!is_pinned(to)) {
    struct stream *waited = of(stream);
    run_to(waited, waited->queued);
  }
  return OK;
}
static int cuMemcpyHtoD(uint64_t to, const void *from, size_t size) { return cuMemcpyHtoDAsync(to, from, size, NULL); }
static int cuMemcpyDtoH(void *to, uint64_t from, size_t size) { return cuMemcpyDtoHAsync(to, from, size, NULL); }
static int cuStreamCreate(void **stream, unsigned flags) { return *stream = make_stream(), OK; }
static int cuStreamSynchronize(void *handle) {
  int status = breaks_capture(handle, 1);
  if (status)
    return status;
  struct stream *stream = of(handle);
  return run_to(stream, stream->queued), OK;
}
static int cuEventCreate(struct event **event, unsigned flags) {
  *event = calloc(1, sizeof **event);
  return (*event)->timed = !(flags & EVENT_WITHOUT_TIME), OK;
}
static int cuEventDestroy(void *event) { return free(event), OK; }
static void stamp(void *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *(double *)seconds = now.tv_sec + 1e-9 * now.tv_nsec;
}
static int cuEventElapsedTime(float *milliseconds, struct event *begin, struct event *end) {
  if (!begin->seconds || !end->seconds)
    return INVALID_VALUE;
  if (!*begin->seconds || !*end->seconds)
    return NOT_READY;
  return *milliseconds = 1e3 * (*end->seconds - *begin->seconds), OK;
}
static int cuEventRecord(struct event *event, void *handle) {
  int status = breaks_capture(handle, 0);
  if (status)
    return status;
  event->stream = of(handle);
  if (event->timed && !event->stream->capture) {
    event->seconds = calloc(1, sizeof(double));
    put(handle, (struct work){.kind = CALL, .call = stamp, .data = event->seconds});
  }
  event->position = event->stream->queued;
  event->captured = event->stream->capture != NULL;
  return OK;
}
static int cuEventSynchronize(struct event *event) {
  if (event->captured)
    return CAPTURE_UNSUPPORTED;
  if (event->stream)
    run_to(event->stream, event->position);
  return OK;
}
static int cuStreamWaitEvent(void *stream, struct event *event, unsigned flags) {
  struct stream *waiting = stream;
  int status = breaks_capture(stream, 0);
  if (status)
    return status;
  if (stream && (uintptr_t)stream > 2 && waiting->capture)
    return waiting->invalid = 1, CAPTURE_ISOLATION; /* captures of several streams are not needed */
  if (event->stream)
    put(stream, (struct work){.kind = WAIT, .other = event->stream, .position = event->position});
  return OK;
}

/* --- graphs: the work of a stream, recorded rather than run. Their arguments are those of the capture */

static struct work copy_of(const struct work *work) {
  struct work copy = *work;
  if (work->launch) {
    copy.launch = memcpy(malloc(sizeof *copy.launch), work->launch, sizeof *copy.launch);
    for (int i = 0; i < work->launch->module->kernel->parameters; i++)
      copy.launch->arguments[i] = copy.launch->values + 8 * i;
  }
  return copy;
}
static int cuStreamBeginCapture(struct stream *stream, int mode) {
  if (is("no graphs") || (uintptr_t)stream <= 2)
    return NOT_SUPPORTED;
  if (stream->capture)
    return INVALID_VALUE;
  stream->capture = calloc(1, sizeof *stream->capture);
  stream->invalid = is("no capture");
  return OK;
}
static int cuGraphDestroy(struct graph *graph) {
  for (struct work *next, *work = graph->first; work; work = next)
    next = work->next, free(work->launch), free(work);
  return free(graph), OK;
}
static int cuStreamEndCapture(struct stream *stream, struct graph **graph) {
  *graph = stream->capture;
  if (!*graph)
    return CAPTURE_UNMATCHED;
  stream->capture = NULL;
  if (!stream->invalid)
    return OK;
  cuGraphDestroy(*graph);
  return *graph = NULL, CAPTURE_INVALIDATED;
}
static int cuGraphInstantiate(struct graph **made, struct graph *graph, uint64_t flags) {
  *made = calloc(1, sizeof **made);
  for (struct work *work = graph->first; work; work = work->next)
    append(&(*made)->first, &(*made)->last, copy_of(work));
  return OK;
}
static int cuGraphLaunch(struct graph *graph, void *stream) {
  if (!depth)
    return INVALID_CONTEXT;
  for (struct work *work = graph->first; work; work = work->next)
    put(stream, copy_of(work));
  return OK;
}
static int cuGraphExecDestroy(struct graph *graph) { return synchronize(), cuGraphDestroy(graph); }

/* --- modules: PTX, from linker.c */

/* Run the command that translates a file with PTX, and return the path of the library that it prints. */
static char *run_translator(const char *file) {
  static char path[4096];
  char line[4096];
  const char *command = getenv("SOFTWARE_GPU_TRANSLATE"), *counts = getenv("SOFTWARE_GPU_COUNTS") ? "-DCOUNT" : "";
  const char *at = command ? strstr(command, "PTX") : NULL;
  if (!at)
    fail("no PTX in the command", command ? command : "(none)");
  snprintf(line, sizeof line, "%.*s%s%s %s", (int)(at - command), command, file, at + 3, counts);
  FILE *pipe = popen(line, "r");
  int read = pipe && fgets(path, sizeof path, pipe) != NULL;
  int status = pipe ? pclose(pipe) : 1;
  if (!read || status)
    fail("cannot translate a kernel", line);
  path[strcspn(path, "\n")] = 0;
  return path;
}
static int has_contents(const char *path, const char *text) {
  size_t size = strlen(text);
  char *found = malloc(size + 1);
  FILE *file = fopen(path, "r");
  int same = file && fread(found, 1, size + 1, file) == size && !memcmp(found, text, size);
  if (file)
    fclose(file);
  free(found);
  return same;
}
static const struct kernel *translate(const char *ptx) {
  const char *directory = getenv("SOFTWARE_GPU_TRANSLATED");
  uint64_t hash = getenv("SOFTWARE_GPU_COUNTS") ? 1 : 0xCBF29CE484222325u;
  for (const char *at = ptx; *at; at++)
    hash = (hash ^ (uint8_t)*at) * 0x100000001B3u;
  char source[4096], path[4096], made[4096], link[4096];
  snprintf(source, sizeof source, "%s/%016llx.ptx", directory, (unsigned long long)hash);
  snprintf(path, sizeof path, "%s/%016llx.so", directory, (unsigned long long)hash);
  if (!directory || !has_contents(source, ptx)) {
    snprintf(made, sizeof made, "%s/new-XXXXXX", directory);
    int file = directory ? mkstemp(made) : -1;
    if (file < 0 || write(file, ptx, strlen(ptx)) != (ssize_t)strlen(ptx))
      fail("cannot write PTX", made);
    close(file);
    snprintf(link, sizeof link, "%.4000s-link", made);
    if (symlink(run_translator(made), link) || rename(link, path) || rename(made, source)) /* the library comes first */
      fail("cannot keep a kernel", made);
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const struct kernel *found = library ? dlsym(library, "translated") : NULL;
  if (!found)
    fail("cannot load a kernel", path);
  return found;
}
static struct module *load(const char *ptx) {
  struct module *made = calloc(1, sizeof *made);
  const char *entry = strstr(ptx, ".entry ");
  if (!entry)
    fail("not PTX", "a module");
  entry += strlen(".entry ");
  made->name = strndup(entry, strcspn(entry, " ("));
  int computes = !is("wrong numbers") && !is("only the trial launches") && !is("only the trial");
  if (computes || (strstr(made->name, "_trial") && !is("wrong numbers")))
    made->kernel = translate(ptx);
  return made;
}
static int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned m, void *c, void *d, unsigned n) {
  return *library = load(code), OK;
}
static int cuModuleLoadDataEx(void **module, const void *code, unsigned n, void *a, void *b) {
  return *module = load(code), OK;
}
static int cuLibraryGetModule(void **module, void *library) { return *module = library, OK; }
static int cuLibraryGetKernel(void **kernel, void *library, const char *name) { return *kernel = library, OK; }
static int cuModuleGetFunction(void **kernel, void *module, const char *name) { return *kernel = module, OK; }
static int cuKernelGetFunction(void **function, void *kernel) { return *function = kernel, OK; }
static int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  return *value = attribute ? 32 : MOST_THREADS, OK;
}
static int cuFuncGetAttribute(int *value, int attribute, void *function) {
  return *value = attribute ? 32 : MOST_THREADS, OK;
}
static int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  struct module *module = kernel;
  uint32_t bytes = module->kernel ? module->kernel->static_bytes : 0;
  if (attribute != MAX_DYNAMIC_SHARED || value + bytes > optin_bytes() || is("no more shared memory"))
    return INVALID_VALUE;
  return module->asked = value, OK;
}
static int has_too_much(const struct module *module, uint32_t shared) {
  return shared + module->kernel->static_bytes > SHARED_BYTES && shared > module->asked;
}
static int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
  const struct module *module = function;
  return *blocks = module->kernel && has_too_much(module, shared) ? 0 : BLOCKS_PER_PROCESSOR, OK;
}

static int launch(struct module *module, const uint32_t *grid, const uint32_t *block, uint32_t shared, void *stream,
                  void **arguments, int cooperative) {
  if (!depth)
    return INVALID_CONTEXT;
  int status = breaks_capture(stream, 0);
  if (status)
    return status;
  if (is("no launch") || (is("only the trial launches") && !strstr(module->name, "_trial")))
    return LAUNCH_FAILED;
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2], blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  if (!threads || !blocks || threads > MOST_THREADS || grid[1] > 65535 || grid[2] > 65535 || block[2] > 64)
    return INVALID_VALUE;
  if (!module->kernel)
    return OK;
  if (has_too_much(module, shared))
    return TOO_MANY_RESOURCES;
  if (cooperative && blocks > multiprocessors() * BLOCKS_PER_PROCESSOR)
    return TOO_LARGE_GRID;
  struct launch *made = calloc(1, sizeof *made);
  made->module = module, made->shared = shared, made->cooperative = cooperative;
  memcpy(made->grid, grid, sizeof made->grid), memcpy(made->block, block, sizeof made->block);
  if (module->kernel->parameters > MOST_PARAMETERS)
    fail("too many parameters", module->name);
  for (int i = 0; i < module->kernel->parameters; i++)
    made->arguments[i] = memcpy(made->values + 8 * i, arguments[i], module->kernel->sizes[i]);
  return put(stream, (struct work){.kind = LAUNCH, .launch = made}), OK;
}
static int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **arguments, void **extra) {
  return launch(function, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, stream, arguments, 0);
}
static int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, void *stream, void **arguments) {
  return launch(function, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, stream, arguments, 1);
}
static int cuLaunchHostFunc(void *stream, void (*call)(void *), void *data) {
  int status = breaks_capture(stream, 0);
  if (!status)
    put(stream, (struct work){.kind = CALL, .call = call, .data = data});
  return status;
}
struct attribute {
  int kind;
  char padding[4];
  union {
    char bytes[64];
    int cooperative;
  } value;
};
struct configuration {
  uint32_t grid[3], block[3], shared;
  void *stream;
  struct attribute *attributes;
  unsigned count;
};
enum { COOPERATIVE = 2 };
static int cuLaunchKernelEx(const struct configuration *given, void *function, void **arguments, void **extra) {
  int cooperative = 0;
  for (unsigned i = 0; i < given->count; i++)
    if (given->attributes[i].kind == COOPERATIVE)
      cooperative = given->attributes[i].value.cooperative;
  return launch(function, given->grid, given->block, given->shared, given->stream, arguments, cooperative);
}

static int cuGetErrorName(int error, const char **name) {
  *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_SOFTWARE_GPU";
  return OK;
}
static int cuGetErrorString(int error, const char **text) { return *text = "an error of the software GPU", OK; }
static int nothing(void) { return OK; }

#define ENTRY(name) {#name, (void *)name}
static const struct {
  const char *name;
  void *function;
} TABLE[] = {
    ENTRY(cuInit), ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGetCount), ENTRY(cuDeviceGet), ENTRY(cuDeviceGetName),
    ENTRY(cuDeviceGetUuid), ENTRY(cuDeviceTotalMem), ENTRY(cuDeviceGetAttribute), ENTRY(cuDevicePrimaryCtxRetain),
    ENTRY(cuCtxGetCurrent), ENTRY(cuCtxPushCurrent), ENTRY(cuCtxPopCurrent), ENTRY(cuCtxSetCurrent),
    ENTRY(cuCtxGetDevice), ENTRY(cuStreamGetCtx), ENTRY(cuCtxSynchronize), ENTRY(cuMemGetInfo), ENTRY(cuMemAlloc),
    ENTRY(cuMemFree), ENTRY(cuMemHostAlloc), ENTRY(cuMemFreeHost), ENTRY(cuMemcpyHtoD), ENTRY(cuMemcpyDtoH),
    ENTRY(cuMemcpyHtoDAsync), ENTRY(cuMemcpyDtoHAsync), ENTRY(cuStreamCreate), ENTRY(cuStreamSynchronize),
    ENTRY(cuEventCreate), ENTRY(cuEventDestroy), ENTRY(cuEventRecord), ENTRY(cuEventSynchronize),
    ENTRY(cuEventElapsedTime),
    ENTRY(cuStreamWaitEvent), ENTRY(cuLibraryLoadData), ENTRY(cuModuleLoadDataEx), ENTRY(cuLibraryGetModule),
    ENTRY(cuLibraryGetKernel), ENTRY(cuModuleGetFunction), ENTRY(cuKernelGetFunction), ENTRY(cuKernelGetAttribute),
    ENTRY(cuKernelSetAttribute), ENTRY(cuFuncGetAttribute), ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor), ENTRY(cuLaunchKernel),
    ENTRY(cuLaunchCooperativeKernel), ENTRY(cuLaunchKernelEx), ENTRY(cuStreamBeginCapture), ENTRY(cuStreamEndCapture),
    {"cuGraphInstantiateWithFlags", cuGraphInstantiate}, ENTRY(cuGraphLaunch), ENTRY(cuGraphDestroy), ENTRY(cuGraphExecDestroy),
    ENTRY(cuLaunchHostFunc), ENTRY(cuGetErrorName), ENTRY(cuGetErrorString),
};

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  *function = strncmp(name, "cuGetProcAddress", 16) ? (void *)nothing : (void *)cuGetProcAddress_v2;
  for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
    if (!strcmp(TABLE[i].name, name))
      *function = TABLE[i].function;
  if (status)
    *status = 0;
  return OK;
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
