// A GPU played by a CPU: threads one after another, each a warp of its own, or, if WARPS is defined,
// those of a block at the same time, in warps that wait for one another. `launch_NAME` runs the
// kernel NAME with the addresses of its arguments, as cuLaunchKernel takes them.
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#define ON_HOST
#define C_LIBRARY(function) __builtin_##function
#define COMPUTE_AGAIN(number)
#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads)

struct Place { unsigned x; };
static thread_local Place threadIdx, blockIdx, gridDim;

#ifdef WARPS
#include <pthread.h>
#include <thread>
#include <vector>
#define WARP 32
#define __shared__ static
static pthread_barrier_t barriers[32], of_block;
static inline void __syncwarp() { pthread_barrier_wait(&barriers[threadIdx.x / WARP]); }
static inline void __syncthreads() { pthread_barrier_wait(&of_block); }
template <class Kernel> static void run_block(unsigned threads, Kernel kernel) {
    std::vector<std::thread> running;
    const Place block = blockIdx, grid = gridDim;
    pthread_barrier_init(&of_block, nullptr, threads);
    for (unsigned warp = 0; warp < threads / WARP; warp++)
        pthread_barrier_init(&barriers[warp], nullptr, WARP);
    for (unsigned thread = 0; thread < threads; thread++)
        running.emplace_back([=] {
            blockIdx = block, gridDim = grid, threadIdx.x = thread;
            kernel();
        });
    for (auto &thread : running) thread.join();
}
#else
#define WARP 1
#define __shared__ static thread_local
static inline void __syncwarp() {}
template <class Kernel> static void run_block(unsigned threads, Kernel kernel) {
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) kernel();
}
#endif

template <class... T, size_t... k>
static void run_threads(void (*kernel)(T...), std::index_sequence<k...>, unsigned blocks,
                        unsigned threads, void **arguments) {
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        run_block(threads, [=] { kernel(*static_cast<std::remove_const_t<T> *>(arguments[k])...); });
}

template <class... T>
static void run_threads(void (*kernel)(T...), unsigned blocks, unsigned threads, void **arguments) {
    run_threads(kernel, std::index_sequence_for<T...>{}, blocks, threads, arguments);
}

#define LAUNCHER(name)                                                                     \
    extern "C" void launch_##name(unsigned blocks, unsigned threads, void **arguments) {   \
        run_threads(name, blocks, threads, arguments);                                     \
    }
