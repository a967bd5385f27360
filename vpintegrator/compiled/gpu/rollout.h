// Iterates a model, a trajectory a thread. Before this is included, `step` takes the window in the
// first slots of a workspace to new states.
//
// Trajectories come last, so that threads side by side read and write side by side: windows
// (window * dim, trajectory) and states (calls * OUTPUTS, trajectory). A state that is not finite and
// all after it are NaN: to find that out afterwards would take longer than many a map.
enum : int { KEPT = INPUTS - OUTPUTS };

extern "C" __global__ void __launch_bounds__(BLOCK)
rollout(real *windows, real *states, const real *__restrict c, whole trajectories, whole calls) {
    const whole k = thread_number();
    if (k >= trajectories) return;
    real v[SLOTS], y[OUTPUTS];
    bool lost = false;
#pragma unroll
    for (int i = 0; i < INPUTS; i++) {
        v[i] = windows[i * trajectories + k];
        lost |= !is_finite(v[i]);
    }
#pragma unroll 1
    for (whole call = 0; call < calls; call++) {
        step(v, c, y);
#pragma unroll
        for (int i = 0; i < KEPT; i++) v[i] = v[i + OUTPUTS];
        real *to = states + call * OUTPUTS * trajectories + k;
#pragma unroll
        for (int i = 0; i < OUTPUTS; i += DIM) {
#pragma unroll
            for (int j = i; j < i + DIM; j++) lost |= !is_finite(y[j]);
#pragma unroll
            for (int j = i; j < i + DIM; j++)
                to[j * trajectories] = v[KEPT + j] = lost ? std::numeric_limits<real>::quiet_NaN() : y[j];
        }
    }
#pragma unroll
    for (int i = 0; i < INPUTS; i++) windows[i * trajectories + k] = v[i];
}
