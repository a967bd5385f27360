// Blocks of as many trajectories as a vector has numbers: their states, what rounding cut off these,
// and where each has its own, the step.
struct block {
    value z[DIM], carry[DIM], step;
};
// What a step makes for one: its increment, two estimates of the error of that where it has them,
// the rates of its stages, and the workspace of formulas, which begins with the components that they
// are evaluated at.
struct work {
    value d[DIM], e[DIM], f[DIM], k[STAGES][DIM], v[SLOTS];
};
// what is done for one block is done for the next: the processor need not wait for a result
#define EACH _Pragma("GCC unroll 4") for (long g = 0; g < BLOCKS; g++)
#define FOR_COMPONENTS _Pragma("GCC unroll 16") for (long i = 0; i < DIM; i++)
