// The constants of a program from the weights p: those that are weights by a table, the others by one
// thread. Before this is included, `compute_constants` computes these.
extern "C" __global__ void constants(const real *p, real *c) {
    for (int i = threadIdx.x; i < COPIED; i += BLOCK) c[copied_to[i]] = p[copied_from[i]];
    if (threadIdx.x == 0) compute_constants(p, c);
}
