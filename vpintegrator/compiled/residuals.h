// What adjoints share: residuals, of vectors of windows some of which may be missing, and the sums of
// their squares.
struct Squares {
    double weighted = 0, plain = 0;
    vector weighted_here = {}, plain_here = {};  // of the windows in the lanes
    mask live;                                   // lanes with a window

    void take(long count) {
        add();
        for (int k = 0; k < LANES; k++) live[k] = k < count ? -1 : 0;
    }

    // the residual of a component
    vector residual(vector predicted, vector target, real weight) {
        const vector d = choose(live, predicted - target, vector{}), r = d * weight;
        weighted_here += r * r;
        plain_here += d * d;
        return r;
    }

    void add() {
        for (int k = 0; k < LANES; k++) {
            weighted += weighted_here[k];
            plain += plain_here[k];
        }
        weighted_here = plain_here = vector{};
    }

    void give(double *squares) {
        add();
        squares[0] = weighted;
        squares[1] = plain;
    }
};

template <class Block, class Problem> static void add_squares(const Problem *p, double *squares) {
    Block block(*p);
    for (long first = 0; first < p->count; first += LANES) block.predict(first);
    block.squares.give(squares);
}
