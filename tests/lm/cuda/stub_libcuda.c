/* A stub of NVIDIA's driver, with one GPU and something wrong with it: the file that STUB_MODE_FILE names says what.
 * Device memory is host memory. The only kernel that computes anything is the trial of lm/cuda/probe.py. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201, LAUNCH_FAILED = 719, MISMATCH = 803, UNKNOWN = 999 };
enum { THREADS_PER_BLOCK = 1, SHARED_PER_BLOCK = 8, WARP_SIZE = 10, PROCESSORS = 16, MAJOR = 75, MINOR = 76 };
enum { TRIAL_THREADS = 64, X_DATA = 4, Y_DATA = 11, SMALL = 256, MOST_KERNELS = 256 };

static int is(const char *mode) {
  static char text[64];
  if (!text[0]) {
    const char *path = getenv("STUB_MODE_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
      if (!fgets(text, sizeof text, file))
        text[0] = 0;
      fclose(file);
    }
  }
  return !strcmp(text, mode);
}

static uintptr_t handles = 0x1000;
static void *handle(void) { return (void *)(handles += 16); }
static void *primary = (void *)0xC0DE;
static __thread void *contexts[64];
static __thread int depth;

static int cuInit(unsigned flags) {
  return is("no device") ? NO_DEVICE : is("mismatch") ? MISMATCH : is("no start") ? UNKNOWN : OK;
}
static int cuDriverGetVersion(int *version) { return *version = is("old driver") ? 12040 : 13000, OK; }
static int cuDeviceGetCount(int *count) { return *count = !is("no GPUs"), OK; }
static int cuDeviceGet(int *device, int number) { return *device = number, OK; }
static int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, "Stub GPU"), OK; }
static int cuDeviceGetUuid(char *uuid, int device) { return memset(uuid, 7, 16), OK; }
static int cuDeviceTotalMem(size_t *size, int device) { return *size = 1ul << 30, OK; }
static int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
  case THREADS_PER_BLOCK: *value = 1024; break;
  case SHARED_PER_BLOCK: *value = 48 << 10; break;
  case WARP_SIZE: *value = 32; break;
  case PROCESSORS: *value = 4; break;
  case MAJOR: *value = is("old GPU") ? 6 : 8; break;
  case MINOR: *value = 0; break;
  default: *value = 1;
  }
  return OK;
}

static int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = primary, OK; }
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
static int cuCtxGetDevice(int *device) { return depth ? (*device = 0, OK) : INVALID_CONTEXT; }
static int cuStreamGetCtx(void *stream, void **context) { return *context = primary, OK; }

static int cuMemGetInfo(size_t *free, size_t *total) { return *free = *total = 1ul << 30, OK; }
static int cuMemAlloc(uint64_t *address, size_t size) {
  if (is("no memory") || (is("little memory") && size > SMALL))
    return OUT_OF_MEMORY;
  *address = (uint64_t)calloc(1, size ? size : 1);
  return *address ? OK : OUT_OF_MEMORY;
}
static int cuMemFree(uint64_t address) { return free((void *)address), OK; }
static int cuMemHostAlloc(void **address, size_t size, unsigned flags) { return *address = calloc(1, size ? size : 1), OK; }
static int cuMemFreeHost(void *address) { return free(address), OK; }
static int cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t size, void *stream) {
  return memcpy((void *)to, from, size), OK;
}
static int cuMemcpyDtoHAsync(void *to, uint64_t from, size_t size, void *stream) {
  return memcpy(to, (void *)from, size), OK;
}
static int cuStreamCreate(void **stream, unsigned flags) { return *stream = handle(), OK; }
static int cuEventCreate(void **event, unsigned flags) { return *event = handle(), OK; }

static char names[MOST_KERNELS][128];
static int kernels;
static int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned m, void *c, void *d, unsigned n) {
  return *library = handle(), OK;
}
static int cuModuleLoadDataEx(void **module, const void *code, unsigned n, void *a, void *b) {
  return *module = handle(), OK;
}
static int cuLibraryGetModule(void **module, void *library) { return *module = handle(), OK; }
static int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  if (kernels == MOST_KERNELS)
    return UNKNOWN;
  strncpy(names[kernels], name, sizeof names[0] - 1);
  *kernel = names[kernels++];
  return OK;
}
static int cuModuleGetFunction(void **kernel, void *module, const char *name) {
  return cuLibraryGetKernel(kernel, module, name);
}
static int cuKernelGetFunction(void **function, void *kernel) { return *function = kernel, OK; }
static int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) { return *value = attribute ? 32 : 1024, OK; }
static int cuFuncGetAttribute(int *value, int attribute, void *function) { return *value = attribute ? 32 : 1024, OK; }
static int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
  return *blocks = 2, OK;
}

static int launch(const char *name, void **arguments) {
  if (is("no launch"))
    return LAUNCH_FAILED;
  if (!strstr(name, "_trial"))
    return is("only the trial launches") ? LAUNCH_FAILED : OK;
  if (is("wrong numbers"))
    return OK;
  const float *x = *(float **)arguments[X_DATA];
  float *y = *(float **)arguments[Y_DATA];
  for (int i = 0; i < TRIAL_THREADS; i++)
    y[i] = tanhf(x[TRIAL_THREADS - 1 - i]);
  return OK;
}
static int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **arguments, void **extra) {
  return launch(function, arguments);
}
static int cuLaunchKernelEx(void *configuration, void *function, void **arguments, void **extra) {
  return launch(function, arguments);
}

static int cuGetErrorName(int error, const char **name) { return *name = "CUDA_ERROR_OF_THE_STUB", OK; }
static int cuGetErrorString(int error, const char **text) { return *text = "an error of the stub", OK; }
static int nothing(void) { return OK; }

#define ENTRY(name) {#name, (void *)name}
static const struct {
  const char *name;
  void *function;
} TABLE[] = {
    ENTRY(cuInit), ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGetCount), ENTRY(cuDeviceGet), ENTRY(cuDeviceGetName),
    ENTRY(cuDeviceGetUuid), ENTRY(cuDeviceTotalMem), ENTRY(cuDeviceGetAttribute), ENTRY(cuDevicePrimaryCtxRetain),
    ENTRY(cuCtxGetCurrent), ENTRY(cuCtxPushCurrent), ENTRY(cuCtxPopCurrent), ENTRY(cuCtxSetCurrent),
    ENTRY(cuCtxGetDevice), ENTRY(cuStreamGetCtx), ENTRY(cuMemGetInfo), ENTRY(cuMemAlloc), ENTRY(cuMemFree),
    ENTRY(cuMemHostAlloc), ENTRY(cuMemFreeHost), ENTRY(cuMemcpyHtoDAsync), ENTRY(cuMemcpyDtoHAsync),
    ENTRY(cuStreamCreate), ENTRY(cuEventCreate), ENTRY(cuLibraryLoadData), ENTRY(cuModuleLoadDataEx),
    ENTRY(cuLibraryGetModule), ENTRY(cuLibraryGetKernel), ENTRY(cuModuleGetFunction), ENTRY(cuKernelGetFunction),
    ENTRY(cuKernelGetAttribute), ENTRY(cuFuncGetAttribute), ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor),
    ENTRY(cuLaunchKernel), ENTRY(cuLaunchKernelEx), ENTRY(cuGetErrorName), ENTRY(cuGetErrorString),
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
