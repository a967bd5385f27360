// what a step reads: constants that follow from the weights
typedef real data;
extern "C" void constants(const real *parameters, real *c) {
    compute_constants(parameters, c);
}
