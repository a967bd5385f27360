// Blocks of as many trajectories as a vector has numbers: their states, and what rounding cut off
// these.
struct block {
    value z[DIM], carry[DIM];
};
// What a step makes for one: its increment, the rates of its stages, the workspace of formulas, which
// begins with the numbers that they are evaluated at, and entries of the Jacobian matrix at the stages.
struct work {
    value d[DIM], k[STAGES][DIM], v[SLOTS], j[STAGES][ENTRIES];
};
// what is done for one block is done for the next: the processor need not wait for a result
#define EACH _Pragma("GCC unroll 4") for (long g = 0; g < BLOCKS; g++)
#define FOR_COMPONENTS _Pragma("GCC unroll 16") for (long i = 0; i < DIM; i++)
