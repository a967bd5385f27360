// Public functions of exported C and their documentation, in sections: c_source.py puts names
// and numbers in the place of ${words}.

//// declared
int ${p}_dim(void);
int ${p}_window(void);
int ${p}_prediction_window(void);
void ${p}_step(const ${real} *window, ${real} *next);
void ${p}_rollout(${real} *window, ${real} *states, long calls);

//// declared jacobian
void ${p}_step_jacobian(const ${real} *window, ${real} *next, ${real} *jacobian);

//// frame
int ${p}_dim(void) { return ${dim}; }

int ${p}_window(void) { return ${window}; }

int ${p}_prediction_window(void) { return ${new}; }

void ${p}_step(const ${real} *window, ${real} *next)
{
    ${real} v[${slots}] = {0}, y[${outputs}];
    memcpy(v, window, ${inputs} * sizeof *v);
    ${p}_map(v, y);
    memcpy(next, y, sizeof y);
}

void ${p}_rollout(${real} *window, ${real} *states, long calls)
{
    ${real} v[${slots}] = {0}, y[${outputs}];
    long call;
    memcpy(v, window, ${inputs} * sizeof *v);
    for (call = 0; call < calls; call++) {
        ${p}_map(v, y);${moved}
        memcpy(v + ${kept}, y, sizeof y);
        if (states) memcpy(states + call * ${outputs}, y, sizeof y);
    }
    memcpy(window, v, ${inputs} * sizeof *v);
}

//// jacobian
void ${p}_step_jacobian(const ${real} *window, ${real} *next, ${real} *jacobian)
{
    ${real} v[${slots}] = {0};
    memcpy(v, window, ${inputs} * sizeof *v);
    ${p}_derivatives(v, next, jacobian);
}

//// usage
${p}_step(window, next): ${states}, ${real} next[${outputs}], after the ${past}, ${real} window[${inputs}]. Arrays are by time, then component: window[${dim}*k + i] is component i of state k, the oldest first.

//// usage rollout
${p}_rollout(window, states, calls): so many steps, one from the other. states[${outputs}*calls] may be NULL; the window is brought up to date.

//// usage jacobian
${p}_step_jacobian(window, next, jacobian): also the derivatives, jacobian[${inputs}*i + j] that of next[i] by window[j].

//// usage compiler
Nothing is kept between calls: threads may call all of it at the same time. Compile with -O2 or more, with -march=native for the machine at hand, and without -ffast-math, which changes results.
