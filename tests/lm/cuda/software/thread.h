/* A GPU thread: what the driver gives to translated kernels. Included by driver.c and by the output of translate.py. */
#include <stdint.h>

struct thread {
  uint32_t tid[3], ctaid[3], ntid[3], nctaid[3];
  uint32_t dynamic_bytes;  /* of shared memory */
  uint8_t *shared;         /* static arrays, then the dynamic one */
  void **arguments;        /* of the kernel: a pointer to each */
  uint64_t *counts;        /* executed instructions, fused multiply-adds, loads and stores of global memory */
  void (*barrier)(struct thread *);
  void (*grid_barrier)(struct thread *);
};

struct kernel {
  void (*run)(struct thread *);
  int parameters;
  const int *sizes;  /* of the parameters, in bytes */
  uint32_t static_bytes;  /* of shared memory */
  int synchronizes;  /* 1 if its threads need stacks of their own */
};
