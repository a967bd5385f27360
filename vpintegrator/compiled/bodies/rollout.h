// Iterates a map made of shears. Windows (trajectory, dim) and states (trajectory, call, outputs) as
// the package has them; new states are the last outputs of dim components.

static void run_wide(real *window, real *states, const real *c, long count, long calls,
                     const Shears &s) {
    const long dim = s.dim, outputs = s.outputs, kept = dim - outputs;
    std::unique_ptr<vector[]> z(new vector[dim]), y(new vector[dim]);
    for (long i = 0; i < dim; i++) y[i] = column(window + i, dim, count);
    for (long call = 0; call < calls; call++) {
        for (long i = 0; i < dim; i++) z[s.place[i]] = (y[i] - s.shift[i]) * s.inverse[i];
        for (long k = 0; k < s.count; k++) apply(s, s.shears[k], c, z.get());
        for (long i = 0; i < kept; i++) y[i] = y[i + outputs];
        for (long i = kept; i < dim; i++) y[i] = z[s.place[i]] * s.scale[i] + s.shift[i];
        for (long k = 0; k < count; k++)
            for (long i = 0; i < outputs; i++)
                states[(k * calls + call) * outputs + i] = y[kept + i][k];
    }
    for (long k = 0; k < count; k++)
        for (long i = 0; i < dim; i++) window[k * dim + i] = y[i][k];
}

static void run_narrow(real *window, real *states, const real *c, long calls, const Shears &s) {
    const long dim = s.dim, outputs = s.outputs, kept = dim - outputs;
    std::unique_ptr<real[]> z(new real[dim]);
    for (long call = 0; call < calls; call++) {
        for (long i = 0; i < dim; i++) z[s.place[i]] = (window[i] - s.shift[i]) * s.inverse[i];
        for (long k = 0; k < s.count; k++) apply_narrow(s, s.shears[k], c, z.get());
        for (long i = 0; i < kept; i++) window[i] = window[i + outputs];
        for (long i = kept; i < dim; i++) window[i] = z[s.place[i]] * s.scale[i] + s.shift[i];
        memcpy(states + call * outputs, window + kept, outputs * sizeof(real));
    }
}

extern "C" void run(real *windows, real *states, const real *c, long trajectories, long calls,
                    const Shears *s) {
    const long step = s->narrow ? 1 : LANES, dim = s->dim;
    for (long first = 0; first < trajectories; first += step) {
        const long count = trajectories - first < step ? trajectories - first : step;
        real *window = windows + first * dim, *out = states + first * calls * s->outputs;
        if (s->narrow) run_narrow(window, out, c, calls, *s);
        else run_wide(window, out, c, count, calls, *s);
    }
}
