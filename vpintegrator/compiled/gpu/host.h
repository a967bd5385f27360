// A GPU played by a CPU: threads one after another, each a warp of its own. `launch_NAME` runs the
// kernel NAME with the addresses of its arguments, as cuLaunchKernel takes them.
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#define ON_HOST
#define WARP 1
#define C_LIBRARY(function) __builtin_##function
#define __global__
#define __device__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads)

struct Place { unsigned x; };
static thread_local Place threadIdx, blockIdx, gridDim;
static inline void __syncwarp() {}

template <class... T, size_t... k>
static void run_threads(void (*kernel)(T...), std::index_sequence<k...>, unsigned blocks,
                        unsigned threads, void **arguments) {
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            kernel(*static_cast<std::remove_const_t<T> *>(arguments[k])...);
}

template <class... T>
static void run_threads(void (*kernel)(T...), unsigned blocks, unsigned threads, void **arguments) {
    run_threads(kernel, std::index_sequence_for<T...>{}, blocks, threads, arguments);
}

#define LAUNCHER(name)                                                                     \
    extern "C" void launch_##name(unsigned blocks, unsigned threads, void **arguments) {   \
        run_threads(name, blocks, threads, arguments);                                     \
    }
