// windows and states as (trajectory, time, component), the layout of the package; a block is as many
// trajectories as a value has numbers. Their states lie far apart: they are gathered in the fastest
// cache for some windows, and then go to memory in whole lines, without waiting for it
extern "C" int lanes() { return sizeof(value) / sizeof(real); }

// `repeats` steps make a call
extern "C" void run(real *windows, real *states, const data *c, long trajectories, long calls,
                    long repeats) {
    constexpr long width = sizeof(value) / sizeof(real);
    constexpr long room = 1 + 1024 / (OUTPUTS * sizeof(real));
    real gathered[width][room * OUTPUTS];
    for (long first = 0; first < trajectories; first += width) {
        const long count = trajectories - first < width ? trajectories - first : width;
        value v[SLOTS] = {};
        value y[OUTPUTS];
        for (int i = 0; i < INPUTS; i++)
            for (long k = 0; k < count; k++)
                ((real *)(v + i))[k] = windows[(first + k) * INPUTS + i];
        for (long done = 0; done < calls; done += room) {
            const long part = calls - done < room ? calls - done : room;
            for (long call = 0; call < part; call++) {
                for (long n = 0; n < repeats; n++) {
                    step(v, c, y);
                    memmove(v, v + OUTPUTS, KEPT * sizeof(value));
                    memcpy(v + KEPT, y, sizeof y);
                }
                for (long k = 0; k < width; k++)
                    for (int i = 0; i < OUTPUTS; i++)
                        gathered[k][call * OUTPUTS + i] = ((real *)(y + i))[k];
            }
            for (long k = 0; k < count; k++)
                memcpy(states + ((first + k) * calls + done) * OUTPUTS, gathered[k],
                       part * OUTPUTS * sizeof(real));
        }
        for (int i = 0; i < INPUTS; i++)
            for (long k = 0; k < count; k++)
                windows[(first + k) * INPUTS + i] = ((real *)(v + i))[k];
    }
}
