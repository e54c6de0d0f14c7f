/* Stands in for NVIDIA's linker, libnvJitLink: it calls the real one (SOFTWARE_GPU_LINKER), but asks for PTX after
 * link-time optimization where machine code is asked for. The software GPU translates the PTX. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INTERNAL = 6, PTX_INPUT = 2, LTOIR_INPUT = 3, MOST_OPTIONS = 64 };

struct link {
  void *real;
  char *ptx; /* given, without link-time optimization */
  size_t size;
};

static void *real(const char *name) {
  static void *library;
  if (!library) {
    const char *path = getenv("SOFTWARE_GPU_LINKER");
    library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  }
  void *function = library ? dlsym(library, name) : NULL;
  if (!function) {
    fprintf(stderr, "software GPU: no %s in SOFTWARE_GPU_LINKER\n", name);
    abort();
  }
  return function;
}
#define REAL(type, name) ((type)real(#name))

int nvJitLinkVersion(unsigned *major, unsigned *minor) {
  return REAL(int (*)(unsigned *, unsigned *), nvJitLinkVersion)(major, minor);
}
int nvJitLinkCreate(struct link **made, uint32_t count, const char **options) {
  const char *all[MOST_OPTIONS];
  if (count >= MOST_OPTIONS)
    return INTERNAL;
  memcpy(all, options, count * sizeof *options);
  for (uint32_t i = 0; i < count; i++)
    if (!strcmp(options[i], "-lto")) {
      all[count++] = "-ptx";
      break;
    }
  *made = calloc(1, sizeof **made);
  return REAL(int (*)(void **, uint32_t, const char **), nvJitLinkCreate)(&(*made)->real, count, all);
}
int nvJitLinkDestroy(struct link **link) {
  int status = REAL(int (*)(void **), nvJitLinkDestroy)(&(*link)->real);
  free((*link)->ptx);
  free(*link);
  *link = NULL;
  return status;
}
int nvJitLinkAddData(struct link *link, int kind, const void *data, size_t size, const char *name) {
  if (kind == PTX_INPUT) {
    link->ptx = calloc(1, size + 1);
    memcpy(link->ptx, data, size);
    link->size = size + 1;
  } else if (kind != LTOIR_INPUT)
    return OK; /* the library of cooperative kernels: the translation has its functions */
  return REAL(int (*)(void *, int, const void *, size_t, const char *), nvJitLinkAddData)(link->real, kind, data, size, name);
}
int nvJitLinkAddFile(struct link *link, int kind, const char *path) { return OK; }
int nvJitLinkComplete(struct link *link) {
  return link->ptx ? OK : REAL(int (*)(void *), nvJitLinkComplete)(link->real);
}
static int ptx_size(struct link *link, size_t *size) {
  if (link->ptx)
    return *size = link->size, OK;
  int status = REAL(int (*)(void *, size_t *), nvJitLinkGetLinkedPtxSize)(link->real, size);
  *size += 1; /* ends with a zero */
  return status;
}
static int ptx(struct link *link, char *text) {
  size_t size;
  if (link->ptx)
    return memcpy(text, link->ptx, link->size), OK;
  ptx_size(link, &size);
  text[size - 1] = 0;
  return REAL(int (*)(void *, char *), nvJitLinkGetLinkedPtx)(link->real, text);
}
int nvJitLinkGetLinkedCubinSize(struct link *link, size_t *size) { return ptx_size(link, size); }
int nvJitLinkGetLinkedCubin(struct link *link, char *text) { return ptx(link, text); }
int nvJitLinkGetLinkedPtxSize(struct link *link, size_t *size) { return ptx_size(link, size); }
int nvJitLinkGetLinkedPtx(struct link *link, char *text) { return ptx(link, text); }
#define LOG(name, type) \
  int name(struct link *link, type *value) { return REAL(int (*)(void *, type *), name)(link->real, value); }
LOG(nvJitLinkGetErrorLogSize, size_t)
LOG(nvJitLinkGetErrorLog, char)
LOG(nvJitLinkGetInfoLogSize, size_t)
LOG(nvJitLinkGetInfoLog, char)
