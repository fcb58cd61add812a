// The gated delta rule on a CPU, exact for every decay. For each head, with a state S [K, V]:
//
//   S <- diag(a_t) S,   d_t = b_t (v_t - k_t S),   S <- S + k_t^T d_t,   o_t = q_t S
//
// STEP tokens are taken at once, so that the state is read twice and written once for all of them:
//   p_i = (k_i * a_1..a_i) S,   r_i = (q_i * a_1..a_i) S                              (read)
//   d_i = b_i (v_i - p_i - sum_{j<i} <k_i, k_j * a_{j+1}..a_i> d_j)                   (solve)
//   o_i = r_i + sum_{j<=i} <q_i, k_j * a_{j+1}..a_i> d_j
//   S   = (a_1..a_n) S + sum_i (k_i * a_{i+1}..a_n)^T d_i                             (write)
// Every factor is a product of decays, so at most 1: nothing can overflow.
// Value columns are the vector lanes; a block of them stays in the first-level cache for a segment of tokens.

#include "lanes.h"

namespace {

constexpr int R = W / 8;  // vectors in a block of value columns: what the registers hold
constexpr int BLOCK = W * R;
constexpr int STEP = 4;
constexpr int SEGMENT = 64;     // tokens whose factors are prepared together
constexpr int ROW = 256 + W;    // floats between two rows of factors; keys have at most 256 channels

struct Task {
    const float *q, *k, *v, *decay, *beta;  // [tokens, H, K or V], beta [tokens, H]
    float *state, *out;                     // [N, H, K, V], [tokens, H, V]
    const int64_t *bounds;                  // [N + 1] tokens at which the sequences start
    int64_t H, K, V;
};

// What C tokens of one head need: rows of factors, and their mutual dot products.
template <int C> struct Factors {
    float predict[C][ROW], read[C][ROW], write[C][ROW], keep[ROW];
    float dots[(C * C + W - 1) / W * W], beta[C];

    static constexpr int before(int i, int j) { return i * (i - 1) / 2 + j; }             // <k_i, k_j>, j < i
    static constexpr int upto(int i, int j) { return (C * C - C + i * i + i) / 2 + j; }  // <q_i, k_j>, j <= i
};

template <int C> void prepare(const Task &task, int64_t token, int64_t head, Factors<C> &f) {
    const int64_t K = task.K, H = task.H;
    lanes dots[(C * C + W - 1) / W * W] = {};
    for (int64_t c = 0; c < K; c += W) {
        lanes q[C], k[C], a[C];
        for (int i = 0; i < C; i++) {
            const int64_t at = ((token + i) * H + head) * K + c;
            q[i] = load(task.q + at, K - c);
            k[i] = load(task.k + at, K - c);
            a[i] = exponential(load(task.decay + at, K - c));
        }
        lanes grown = a[0];
        for (int i = 0; i < C; i++) {
            if (i) grown *= a[i];
            const lanes p = k[i] * grown, r = q[i] * grown;
            std::memcpy(f.predict[i] + c, &p, sizeof p);
            std::memcpy(f.read[i] + c, &r, sizeof r);
        }
        std::memcpy(f.keep + c, &grown, sizeof grown);
        for (int j = 0; j < C; j++) {
            lanes faded = k[j];  // the key of token j as later tokens find it
            dots[f.upto(j, j)] += q[j] * faded;
            for (int i = j + 1; i < C; i++) {
                faded *= a[i];
                dots[f.before(i, j)] += k[i] * faded;
                dots[f.upto(i, j)] += q[i] * faded;
            }
            std::memcpy(f.write[j] + c, &faded, sizeof faded);
        }
    }
    for (int n = 0; n < C * C; n += W) {
        const lanes total = sums(dots + n);
        std::memcpy(f.dots + n, &total, sizeof total);
    }
    for (int i = 0; i < C; i++) f.beta[i] = task.beta[(token + i) * H + head];
}

template <int C> void advance(const Task &task, int64_t token, int64_t head, int64_t column,
                              const Factors<C> &f, lanes (*s)[R]) {
    lanes predicted[C][R] = {}, out[C][R] = {}, d[C][R];
    for (int64_t c = 0; c < task.K; c++)
        for (int r = 0; r < R; r++) {
            const lanes x = s[c][r];
            for (int i = 0; i < C; i++) {
                predicted[i][r] += f.predict[i][c] * x;
                out[i][r] += f.read[i][c] * x;
            }
        }
#pragma GCC unroll 2
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < C; i++) {
            const int64_t at = ((token + i) * task.H + head) * task.V + column + r * W;
            const int64_t count = task.V - column - r * W;
            lanes e = load(task.v + at, count) - predicted[i][r], o = out[i][r];
#pragma GCC unroll 4
            for (int j = 0; j < i; j++) {
                e -= f.dots[f.before(i, j)] * d[j][r];
                o += f.dots[f.upto(i, j)] * d[j][r];
            }
            d[i][r] = f.beta[i] * e;
            store(task.out + at, o + f.dots[f.upto(i, i)] * d[i][r], count);
        }
    for (int64_t c = 0; c < task.K; c++)
        for (int r = 0; r < R; r++) {
            lanes x = s[c][r] * f.keep[c];
            for (int i = 0; i < C; i++) x += f.write[i][c] * d[i][r];
            s[c][r] = x;
        }
}

// One head of one sequence, in steps of C tokens from `token` while they fit before `stop`.
template <int C> int64_t segments(const Task &task, int64_t token, int64_t stop, int64_t head, float *state,
                                  std::vector<lanes> &block, std::vector<Factors<C>> &factors) {
    auto s = reinterpret_cast<lanes(*)[R]>(block.data());
    while (stop - token >= C) {
        const int64_t steps = std::min<int64_t>(SEGMENT, stop - token) / C;
        factors.resize(std::max<size_t>(factors.size(), steps));
        for (int64_t n = 0; n < steps; n++) prepare<C>(task, token + n * C, head, factors[n]);
        for (int64_t column = 0; column < task.V; column += BLOCK) {
            for (int64_t c = 0; c < task.K; c++)
                for (int r = 0; r < R; r++)
                    s[c][r] = load(state + c * task.V + column + r * W, task.V - column - r * W);
            for (int64_t n = 0; n < steps; n++)
                advance<C>(task, token + n * C, head, column, factors[n], s);
            for (int64_t c = 0; c < task.K; c++)
                for (int r = 0; r < R; r++)
                    store(state + c * task.V + column + r * W, s[c][r], task.V - column - r * W);
        }
        token += steps * C;
    }
    return token;
}

// Heads first, first + stride, ... of all sequences: one thread's share.
void share(const Task &task, int64_t first, int64_t stride, int64_t count) {
    std::vector<lanes> block(task.K * R);
    std::vector<Factors<STEP>> factors;
    std::vector<Factors<1>> single;
    for (int64_t n = first; n < count; n += stride) {
        const int64_t sequence = n / task.H, head = n % task.H;
        float *state = task.state + n * task.K * task.V;
        const int64_t stop = task.bounds[sequence + 1];
        int64_t token = task.bounds[sequence];
        token = segments<STEP>(task, token, stop, head, state, block, factors);
        segments<1>(task, token, stop, head, state, block, single);
    }
}

}  // namespace

extern "C" int64_t k3scope_kda_channels() { return ROW - W; }

extern "C" void k3scope_kda(const float *q, const float *k, const float *v, const float *decay,
                            const float *beta, float *state, float *out, const int64_t *bounds,
                            int64_t N, int64_t H, int64_t K, int64_t V, int64_t threads) {
    const Task task = {q, k, v, decay, beta, state, out, bounds, H, K, V};
    const int64_t count = N * H;
    const double work = 3.0 * (bounds[N] - bounds[0]) * H * K * V;
    in_threads(std::min(threads, count), work, [&](int64_t first, int64_t stride) {
        share(task, first, stride, count);
    });
}
