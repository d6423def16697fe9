// What the machine can do at best, asked for by the protocol of measure/serve.rs: `open NAME`, `run N`, `close`.
//
// read, copy, triad: bytes of 64 MiB arrays (read_small and so on: of 1 MiB ones), over PEER_THREADS pinned threads,
// stores past the cache for large arrays. fma: fused multiply-adds in registers. A run of copy moves twice an array's
// bytes; the driver turns times into rates by BYTES and OPERATIONS below, which `open` prints after `ok`.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE (64u << 20)
#define SMALL (1u << 20)
#define FMAS (1u << 20)

typedef float vec __attribute__((vector_size(64)));

static vec *a, *b, *c;
static unsigned threads = 2, bytes;
static char kind;
static atomic_uint turn, done;
static volatile float sink[64];

static void work(unsigned t) {
  size_t count = bytes / sizeof(vec) / threads, from = t * count;
  vec *x = a + from, *y = b + from, *z = c + from;
  vec s[12] = {};
  if (kind == 'r') {
    for (size_t i = 0; i < count; i += 4)
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) s[k] += x[i + k];
  } else if (kind == 'c' && bytes == LARGE) {
    for (size_t i = 0; i < count; i++) __builtin_ia32_movntps512((float *)(y + i), x[i] * 1.5f);
  } else if (kind == 'c') {
    for (size_t i = 0; i < count; i++) y[i] = x[i] * 1.5f;
  } else if (kind == 't') {
    for (size_t i = 0; i < count; i++) __builtin_ia32_movntps512((float *)(z + i), x[i] + y[i]);
  } else {
    vec p = {}, q = {};
    p += 0.999f, q += 1e-3f;
    for (unsigned i = 0; i < FMAS / 12; i++)
#pragma GCC unroll 12
      for (int k = 0; k < 12; k++)
        __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(s[k]) : "v"(p), "v"(q));
  }
  if (kind == 'c' || kind == 't') __asm__ volatile("sfence" ::: "memory");
  vec total = {};
#pragma GCC unroll 12
  for (int k = 0; k < 12; k++) total += s[k];
  sink[t] = total[0];
}

static void *worker(void *index) {
  unsigned t = (unsigned)(size_t)index, seen = 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(t, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  for (;;) {
    unsigned long idle = 0;
    while (atomic_load(&turn) == seen) {
      // Between runs others measure.
      if (++idle > 20000) {
        struct timespec pause = {0, 200000};
        nanosleep(&pause, 0);
      }
    }
    seen++;
    work(t);
    atomic_fetch_add(&done, 1);
  }
  return 0;
}

static void run(void) {
  atomic_store(&done, 0);
  atomic_fetch_add(&turn, 1);
  work(0);
  while (atomic_load(&done) != threads - 1);
}

int main(void) {
  if (getenv("PEER_THREADS")) threads = (unsigned)atoi(getenv("PEER_THREADS"));
  a = aligned_alloc(64, LARGE), b = aligned_alloc(64, LARGE), c = aligned_alloc(64, LARGE);
  memset(a, 0, LARGE), memset(b, 0, LARGE), memset(c, 0, LARGE);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  for (unsigned t = 1; t < threads; t++) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, (void *)(size_t)t);
  }
  char line[256];
  while (fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "open ", 5)) {
      kind = line[5];
      bytes = strstr(line, "_small") ? SMALL : LARGE;
      double moved = kind == 'r' ? bytes : kind == 'c' ? 2.0 * bytes : 3.0 * bytes;
      if (kind == 'f') moved = 2.0 * 16 * (FMAS / 12 * 12) * threads;
      printf("ok %.0f\n", moved);
    } else if (!strncmp(line, "run ", 4)) {
      long n = atol(line + 4);
      struct timespec start, end;
      for (long i = 0; i < n / 8 + 1; i++) run();
      clock_gettime(CLOCK_MONOTONIC, &start);
      for (long i = 0; i < n; i++) run();
      clock_gettime(CLOCK_MONOTONIC, &end);
      printf("%lld\n", (end.tv_sec - start.tv_sec) * 1000000000LL + (end.tv_nsec - start.tv_nsec));
    } else if (!strncmp(line, "close", 5)) {
      puts("closed");
    } else {
      return 0;
    }
    fflush(stdout);
  }
}
